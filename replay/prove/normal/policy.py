"""A policy in normal form: what denies, as sets of conditions, without the names that were chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from replay.cellib.expression import CompiledExpression
from replay.cellib.version import KubernetesVersion
from replay.prove.normal.expression import Normal, NormalForm, conjuncts, normal_form, written_form
from replay.prove.normal.match import canonical
from replay.prove.unit import BoundPolicy, CompiledUnit


@dataclass(frozen=True, slots=True)
class NormalPolicy:
    """Normal form of a policy: equal forms decide alike about every request within the cost budgets.

    `written` is finer: equal ones also have equal costs.
    """

    matches: Any
    conditions: frozenset[Normal]
    validations: frozenset[Normal]
    annotations: frozenset[Normal]
    bindings: frozenset[Any]
    written: Any

    def __eq__(self, other: object) -> bool:
        """Compare without `written`."""
        return isinstance(other, NormalPolicy) and self._key() == other._key()

    def __hash__(self) -> int:
        """Hash consistent with equality."""
        return hash(self._key())

    def _key(self) -> Any:
        return (self.matches, self.conditions, self.validations, self.annotations, self.bindings)


def normal_policy(unit: BoundPolicy, version: KubernetesVersion) -> NormalPolicy:
    """The normal form of a policy with its bindings."""
    policy, compiled = unit.policy, unit.compiled(version)
    forms = _Forms(compiled)
    bindings = frozenset(
        (canonical(each.match_resources), canonical(each.param_ref), frozenset(each.validation_actions))
        for each in unit.bindings
    )
    constraints = (
        policy.static,
        policy.failure_policy,
        canonical(policy.param_kind),
        canonical(policy.match_constraints),
    )
    written = (
        tuple(forms.written(each) for each in compiled.match_conditions),
        tuple(forms.written(each) for each in compiled.validations),
        tuple(forms.written(each) for each in compiled.audit_annotations),
        tuple(forms.written(each) for each in compiled.messages),
    )
    return NormalPolicy(
        constraints,
        forms.all_of(compiled.match_conditions),
        forms.all_of(compiled.validations),
        frozenset(forms.form(each).root for each in compiled.audit_annotations),
        bindings,
        written,
    )


class _Forms:
    """Normal forms of the expressions of one policy."""

    def __init__(self, compiled: CompiledUnit) -> None:
        self._variables = compiled.compiler.variables
        self._forms: dict[str, Normal] = {}
        self._open: set[str] = set()

    def all_of(self, expressions: tuple[CompiledExpression, ...]) -> frozenset[Normal]:
        """Return all conditions that the expressions join."""
        conditions: set[Normal] = set()
        for each in expressions:
            conditions.update(conjuncts(self.form(each).root))
        return frozenset(conditions)

    def form(self, compiled: CompiledExpression) -> NormalForm:
        """Return the normal form. An expression that does not compile is an error of its own."""
        if compiled.program is None:
            return NormalForm(("error",))
        return normal_form(compiled.program.ast, self._variable)

    def written(self, compiled: CompiledExpression) -> Any:
        """Return the expression as written, with variables by position."""
        if compiled.program is None:
            return ("error", compiled.expression)
        return written_form(compiled.program.ast, self._written_variable)

    def _variable(self, name: str) -> Normal | None:
        if name in self._forms:
            return self._forms[name]
        compiled = self._variables.get(name)
        if compiled is None or name in self._open:
            return None
        self._open.add(name)
        self._forms[name] = self.form(compiled).root
        self._open.discard(name)
        return self._forms[name]

    def _written_variable(self, name: str) -> Any:
        compiled = self._variables.get(name)
        return None if compiled is None else ("variable", self.written(compiled))

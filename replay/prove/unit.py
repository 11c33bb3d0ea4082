"""Unit of comparison: a policy with its bindings, in each of two sets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from replay.cellib.environment import ExpressionKind
from replay.cellib.expression import CompiledExpression, ExpressionCompiler
from replay.cellib.policy import compiler_of, expressions_of
from replay.cellib.version import KubernetesVersion
from replay.kube.admissionregistration import (
    ManifestSet,
    MatchResources,
    Rule,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)
from replay.kube.gvk import GroupVersionKind


class BoundPolicy(Struct, frozen=True):
    """Validating policy with its bindings."""

    policy: ValidatingAdmissionPolicy
    bindings: tuple[ValidatingAdmissionPolicyBinding, ...]

    @property
    def matches(self) -> tuple[MatchResources, ...]:
        """Match sections, the policy's first."""
        sections = (self.policy.match_constraints, *(each.match_resources for each in self.bindings))
        return tuple(each for each in sections if each is not None)

    @property
    def rules(self) -> Iterator[Rule]:
        """Rules of all match sections, including those that exclude."""
        for section in self.matches:
            yield from (*section.resource_rules, *section.exclude_resource_rules)

    def compiled(self, version: KubernetesVersion) -> CompiledUnit:
        """Return the compiled expressions."""
        return compile_unit(self.policy, version)


def manifests_of(units: Iterable[BoundPolicy]) -> ManifestSet:
    """Return policies with their bindings as a set."""
    return ManifestSet(tuple(registration for each in units for registration in (each.policy, *each.bindings)))


class CompiledUnit(Struct, frozen=True):
    """Compiled expressions of a policy by purpose."""

    compiler: ExpressionCompiler
    match_conditions: tuple[CompiledExpression, ...]
    validations: tuple[CompiledExpression, ...]
    messages: tuple[CompiledExpression, ...]
    audit_annotations: tuple[CompiledExpression, ...]

    @property
    def every(self) -> tuple[CompiledExpression, ...]:
        """All expressions that decisions depend on, including variables."""
        return (
            *self.match_conditions,
            *self.validations,
            *self.audit_annotations,
            *self.compiler.variables.values(),
        )


def compile_unit(policy: ValidatingAdmissionPolicy, version: KubernetesVersion) -> CompiledUnit:
    """Compile a policy as its validator does."""
    compiler = compiler_of(policy, version)

    def compiled(kind: ExpressionKind) -> tuple[CompiledExpression, ...]:
        return tuple(compiler.compile(kind, each.text) for each in expressions_of(policy) if each.kind is kind)

    return CompiledUnit(
        compiler,
        compiled(ExpressionKind.MATCH_CONDITION),
        compiled(ExpressionKind.VALIDATION),
        compiled(ExpressionKind.MESSAGE_EXPRESSION),
        compiled(ExpressionKind.AUDIT_ANNOTATION),
    )


class UnitPair(Struct, frozen=True):
    """Baseline and candidate policies to compare. `kind` limits the comparison to its requests."""

    name: str
    current: tuple[BoundPolicy, ...]
    candidate: tuple[BoundPolicy, ...]
    kind: GroupVersionKind | None = None

    @property
    def units(self) -> tuple[BoundPolicy, ...]:
        """Policies of both sides."""
        return (*self.current, *self.candidate)


class Pair(Struct, frozen=True):
    """Policy in the baseline and in the candidate. None means that it does not exist."""

    name: str
    current: BoundPolicy | None
    candidate: BoundPolicy | None
    new_name: str = ""

    @property
    def is_changed(self) -> bool:
        """Whether the two differ."""
        return self.current != self.candidate

    @property
    def sides(self) -> UnitPair:
        """Same pair as sides with one policy each, or none."""
        current, candidate = ((() if each is None else (each,)) for each in (self.current, self.candidate))
        return UnitPair(self.name, current, candidate)


def units_of(manifests: ManifestSet) -> dict[str, BoundPolicy]:
    """Return the validating policies of a set with their bindings, by name."""
    return {
        policy.name: BoundPolicy(policy, bindings)
        for policy, bindings in manifests.bound_policies(ValidatingAdmissionPolicy)
    }


def pairs_of(current: ManifestSet, candidate: ManifestSet) -> tuple[Pair, ...]:
    """Return the policies of two sets paired by name. A renamed policy is paired with itself."""
    current_units, candidate_units = units_of(current), units_of(candidate)
    renamed = _renamed(current_units, candidate_units)
    pairs = []
    for name, unit in current_units.items():
        new_name = renamed.get(name, name)
        pairs.append(Pair(name, unit, candidate_units.get(new_name), "" if new_name == name else new_name))
    pairs += [
        Pair(name, None, unit)
        for name, unit in candidate_units.items()
        if name not in current_units and name not in renamed.values()
    ]
    return tuple(sorted(pairs, key=lambda pair: pair.name))


def _renamed(current_units: dict[str, BoundPolicy], after: dict[str, BoundPolicy]) -> dict[str, str]:
    gone = [name for name in current_units if name not in after]
    come = [name for name in after if name not in current_units]
    renamed: dict[str, str] = {}
    for name in gone:
        same = (
            new
            for new in come
            if new not in renamed.values()
            # A policy that becomes static, or no longer is, changes its name with it.
            and replace(current_units[name].policy, name="", static=True)
            == replace(after[new].policy, name="", static=True)
        )
        if (new_name := next(same, None)) is not None:
            renamed[name] = new_name
    return renamed

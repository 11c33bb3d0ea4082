"""Coverage of policies by cases: policies, validations that are never true or false, and branches of expressions.

A branch is a part that an evaluation may skip: either side of a conditional, the second operand of `&&` and `||`, the
body of a macro. It is reached if a part of it was evaluated, or if its condition had the right value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from replay.admission.explain.explanation import BindingExplanation, ExpressionStep
from replay.case.decide import DecidedCase
from replay.cel.ast import operator
from replay.cel.ast.factory import ACCUMULATOR
from replay.cel.ast.tree import Ast, Call, Expr, Ident
from replay.cel.ast.walk import descendants
from replay.cel.strict.trace import Trace
from replay.cel.syntax.unparse import unparse
from replay.cel.value.values import EvalError
from replay.kube.admissionregistration import ManifestSet, MutatingAdmissionPolicy

_LONGEST = 100
_SKIPPED = "skipped"


class Item(NamedTuple):
    """A part that cases may reach. `what` is about an expression, or about the whole policy if `label` is empty."""

    policy: str
    label: str
    what: str


class CaseCoverage(Struct):
    """All parts in order of occurrence, with whether they were reached."""

    _items: dict[Item, bool] = field(default_factory=dict)

    def add(self, decided: DecidedCase) -> None:
        """Add the parts that one case reaches."""
        for item in _all(decided.case.manifests):
            self._items.setdefault(item, False)
        for policy in decided.explained():
            for binding in policy.bindings:
                if binding.mismatch:
                    continue
                self._reach(Item(policy.policy, "", "asked"))
                for item, reached in _covered_items(policy.policy, binding):
                    self._items[item] = self._items.get(item, False) or reached

    def _reach(self, item: Item) -> None:
        self._items[item] = True

    @property
    def total(self) -> int:
        """Number of all parts."""
        return len(self._items)

    @property
    def reached(self) -> int:
        """Number of reached parts."""
        return sum(self._items.values())

    def unreached(self) -> list[Item]:
        """Return the unreached parts.

        If a policy was not evaluated, only the policy is returned. The same is true for an expression.
        """
        missing = [item for item, reached in self._items.items() if not reached]
        unasked = {item.policy for item in missing if not item.label}
        idle = {item[:2] for item in missing if item.what == _RUN}
        items = [item for item in missing if not item.label or item.policy not in unasked]
        return sorted(item for item in items if item.what == _RUN or item[:2] not in idle or not item.label)


_RUN, _TRUE, _FALSE = "evaluated", "true", "false"


def _all(manifests: ManifestSet) -> Iterator[Item]:
    """Yield all parts of a set's policies."""
    for policy in manifests.policies:
        yield Item(policy.name, "", "asked")
        for condition in policy.match_conditions:
            yield from (Item(policy.name, f"matchCondition {condition.name}", what) for what in (_RUN, _TRUE, _FALSE))
        if isinstance(policy, MutatingAdmissionPolicy):
            for index, mutation in enumerate(policy.mutations):
                yield Item(policy.name, f"mutation {index} ({mutation.patch_type})", _RUN)
        else:
            for index in range(len(policy.validations)):
                yield from (Item(policy.name, f"validation {index}", what) for what in (_RUN, _TRUE, _FALSE))


def _covered_items(policy: str, binding: BindingExplanation) -> Iterator[tuple[Item, bool]]:
    """Yield the parts of one evaluation, and whether they were reached."""
    # Validations are traced on the strict engine even where a match condition has skipped them: those do not count.
    for step in binding.steps:
        if binding.outcome.startswith(_SKIPPED) and not step.label.startswith("matchCondition"):
            continue
        yield Item(policy, step.label, _RUN), True
        if step.label.startswith(("matchCondition", "validation")) and not isinstance(step.value, EvalError):
            yield Item(policy, step.label, _TRUE), step.value is True
            yield Item(policy, step.label, _FALSE), step.value is False
        for text, reached in branches(step):
            yield Item(policy, step.label, text), reached


def branches(step: ExpressionStep) -> Iterator[tuple[str, bool]]:
    """Yield the branches of an expression, and whether this evaluation reached them."""
    program = step.compiled.program
    if program is None:
        return
    for node in descendants(program.ast.expr):
        if not isinstance(node, Call):
            continue
        if node.function == operator.CONDITIONAL:
            condition, then, otherwise = node.args
            yield from _branch(program.ast, step.trace, condition, then, when=True)
            yield from _branch(program.ast, step.trace, condition, otherwise, when=False)
        elif node.function in (operator.LOGICAL_AND, operator.LOGICAL_OR):
            first, second = node.args[:2]
            yield from _branch(program.ast, step.trace, first, second, when=node.function == operator.LOGICAL_AND)


def _branch(ast: Ast, trace: Trace, condition: Expr, branch: Expr, *, when: bool) -> Iterator[tuple[str, bool]]:
    """Yield a branch with its text. Branches that a macro generates have no written text."""
    if any(isinstance(node, Ident) and node.name == ACCUMULATOR for node in descendants(branch)):
        return
    ids = {node.id for node in descendants(branch)}
    reached = any(each in ids or (each == condition.id and value is when) for each, value in trace.steps)
    text = unparse(replace(ast, expr=branch))
    yield f"`{text if len(text) <= _LONGEST else f'{text[:_LONGEST]}…'}`", reached

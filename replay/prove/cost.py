"""How large the values of a request may be before an evaluation can run out of its cost budget."""

from __future__ import annotations

from collections.abc import Sequence

from replay.admission.match_conditions import BUDGET as MATCH_CONDITIONS_BUDGET
from replay.admission.validating.evaluations import RUNTIME_BUDGET
from replay.cel.ast import operator
from replay.cel.ast.below import descendants
from replay.cel.ast.tree import Call
from replay.cel.declare.estimate import Range
from replay.cellib.environment import PER_CALL_LIMIT
from replay.cellib.expression import CompiledExpression
from replay.kube.admissionregistration import FailurePolicy
from replay.prove.unit import BoundPolicy, CompiledUnit

ANY = 3 * 1024 * 1024
"""No value of a request is longer: the server reads no larger body (`MaxRequestBodyBytes`)."""
_SIZES = (ANY, 1_000_000, 300_000, 100_000, 30_000, 10_000, 3_000, 1_000, 300, 100, 30)
_GROWING = frozenset({"join", "format", "replace", "flatten", "lists.range", "quote"})
"""Functions whose result can be much larger than their arguments. If a variable calls one, no size is certain."""


def affordable_size(units: Sequence[BoundPolicy], compiled: Sequence[CompiledUnit]) -> int | None:
    """With texts, lists and maps up to this size no expression runs out of budget; None where no size is known to do.

    By the estimates of costs before an evaluation (cel-go `checker/cost.go`); the server's limits are those for each expression and
    for all of a policy (`apiserver/pkg/apis/cel/config.go`).
    """
    every = tuple(zip((unit.policy.failure_policy for unit in units), compiled, strict=True))
    return next((size for size in _SIZES if all(_is_affordable(unit, size, policy) for policy, unit in every)), None)


def _is_affordable(unit: CompiledUnit, size: int, policy: FailurePolicy) -> bool:
    variables = tuple(unit.compiler.variables.values())
    nodes = [node for each in variables if each.program is not None for node in descendants(each.program.ast.expr)]
    calls = [node for node in nodes if isinstance(node, Call)]
    if any(call.function in _GROWING for call in calls):
        return False
    # A variable may hold some lists or texts one behind the other, and be joined to others in turn.
    assumed = Range(0, min(size, ANY) * 2 ** sum(call.function == operator.ADD for call in calls))
    # With Fail a message that cannot be paid for denies what is denied anyway.
    messages = unit.messages if policy is FailurePolicy.IGNORE else ()
    evaluated = (*variables, *unit.validations, *messages, *unit.audit_annotations)
    costs, conditions = _costs(evaluated, assumed), _costs(unit.match_conditions, assumed)
    return (
        all(cost <= PER_CALL_LIMIT for cost in (*costs, *conditions))
        and sum(costs) <= RUNTIME_BUDGET
        and sum(conditions) <= MATCH_CONDITIONS_BUDGET
    )


def _costs(expressions: Sequence[CompiledExpression], assumed: Range) -> list[int]:
    return [each.program.estimated_cost(assumed).most for each in expressions if each.program is not None]

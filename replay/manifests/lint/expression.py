"""Warnings about the expressions of policies and webhook configurations."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from replay.cel.declare.estimate import fixed
from replay.cellib.environment import PER_CALL_LIMIT
from replay.json import JSON
from replay.manifests.expression import CheckedExpression, ExpressionKind
from replay.manifests.lint import catalogue
from replay.manifests.lint.atomic import lint_atomics
from replay.manifests.lint.cel import compared_operations, mentions
from replay.manifests.lint.guard_label import lint_guard_label
from replay.manifests.lint.optional_field import lint_optional_fields, readings_of
from replay.manifests.lint.reading import Reading, reading_of
from replay.manifests.lint.rule import operations_of
from replay.manifests.lint.warning import LintContext, SilenceableWarning, warned
from replay.manifests.loader import LoadedObject

if TYPE_CHECKING:
    from replay.cellib.composition import Evaluated

_LARGE = 200
"""Size of a large list, map or text, for cost estimates."""


def lint_expressions(policy: LoadedObject, context: LintContext) -> Iterator[SilenceableWarning]:
    """Yield all warnings about the expressions of a policy or webhook configuration."""
    compiled = [each for each in policy.expressions if each.compiled.program is not None]
    for checked in compiled:
        yield from _lint_cost(policy, checked)
        if checked.compiled.kind is ExpressionKind.MATCH_CONDITION:
            yield from _lint_namespace(policy, checked)
            yield from _lint_never_true(policy, checked)
    yield from _lint_never_together(policy, compiled)
    if not policy.kind.endswith("AdmissionPolicy"):
        return
    readings = readings_of(compiled)
    yield from _lint_null_object(policy, compiled, readings)
    yield from lint_optional_fields(policy, compiled, readings, context)
    yield from lint_guard_label(policy, compiled, context)
    yield from lint_atomics(policy, compiled, context)


def _lint_cost(policy: LoadedObject, checked: CheckedExpression) -> Iterator[SilenceableWarning]:
    assert checked.compiled.program is not None
    # The server's own estimate, given large lists.
    cost = checked.compiled.program.estimated_cost(fixed(_LARGE)).most
    if cost > PER_CALL_LIMIT:
        message = (
            f"it can cost {cost:,} where lists have {_LARGE} elements and texts {_LARGE} characters; "
            f"the limit is {PER_CALL_LIMIT:,}"
        )
        yield warned(policy, catalogue.COST, message, checked.path)


def _lint_namespace(policy: LoadedObject, checked: CheckedExpression) -> Iterator[SilenceableWarning]:
    """Yield a warning for `namespaceObject` in a match condition.

    `webhook/matchconditions/matcher.go` passes no namespace.
    """
    if any(path.startswith("namespaceObject") for path in checked.compiled.footprint):
        message = "`namespaceObject` is always null in a match condition: reading a field of it is an error"
        yield warned(policy, catalogue.NAMESPACE_IN_CONDITION, message, checked.path)


def _lint_never_true(policy: LoadedObject, checked: CheckedExpression) -> Iterator[SilenceableWarning]:
    assert checked.compiled.program is not None
    if _is_always_false(checked):
        message = "the condition is false for every request"
        yield warned(policy, catalogue.NEVER_TRUE, message, checked.path)
        return
    reachable = operations_of(policy)
    operations = [operation for operation, _ in compared_operations(checked.compiled.program.ast)]
    for operation in operations:
        if operation not in reachable:
            message = (
                f"`request.operation` is never `{operation}` for the rules, which name {', '.join(sorted(reachable))}"
            )
            yield warned(policy, catalogue.NEVER_TRUE, message, checked.path)
    if len(set(operations)) > 1:
        message = f"`request.operation` cannot be {' and '.join(sorted(set(operations)))} at once"
        yield warned(policy, catalogue.NEVER_TRUE, message, checked.path)


def _lint_never_together(policy: LoadedObject, compiled: list[CheckedExpression]) -> Iterator[SilenceableWarning]:
    """Yield a warning for match conditions that contradict each other.

    A condition that is false by itself has its own warning.
    """
    conditions = [each for each in compiled if each.compiled.kind is ExpressionKind.MATCH_CONDITION]
    groups = groupby(conditions, key=lambda each: each.path.partition("matchConditions")[0])
    for together in [list(group) for _, group in groups]:
        if len(together) < 2 or any(map(_is_always_false, together)):
            continue
        from replay.cellib.environment import admission_env  # noqa: PLC0415 - few objects have several conditions
        from replay.cellib.version import NEWEST  # noqa: PLC0415
        from replay.manifests.lint.condition import Condition, first_impossible  # noqa: PLC0415
        from replay.manifests.lint.reachable import Facts  # noqa: PLC0415

        env = admission_env(NEWEST, ExpressionKind.MATCH_CONDITION, has_params=True, variables=None)
        index = first_impossible([Condition(env, each.compiled.expression) for each in together], Facts())
        if index is not None:
            message = "the condition is false for every request for which the others are true"
            yield warned(policy, catalogue.NEVER_TOGETHER, message, together[index].path)


def _is_always_false(checked: CheckedExpression) -> bool:
    """Return whether the condition is false for every request: `false && unknown` is false."""
    result = _evaluated(checked)
    return result.value is False and result.error is None and not result.unknown


def _evaluated(checked: CheckedExpression, **constants: JSON) -> Evaluated:
    """Return the result of an expression for which only some variables are known."""
    from replay.cellib.composition import Evaluation  # noqa: PLC0415 - one evaluation per condition
    from replay.cellib.expression import ExpressionCompiler  # noqa: PLC0415 - one evaluation per condition
    from replay.cellib.version import NEWEST  # noqa: PLC0415
    from replay.kube.attributes import Missing  # noqa: PLC0415

    names = ("object", "oldObject", "request", "namespaceObject", "authorizer", "params")
    bindings = {name: Missing(name, "the request is not known") for name in names}
    evaluation = Evaluation(ExpressionCompiler(NEWEST, has_params=False), {**bindings, **constants}, PER_CALL_LIMIT)
    return evaluation.evaluate(checked.compiled)


def _lint_null_object(
    policy: LoadedObject, compiled: list[CheckedExpression], readings: dict[str, Reading]
) -> Iterator[SilenceableWarning]:
    """Yield a warning for `object` that is read on DELETE, where it is null, without a test.

    On CONNECT, `object` is the options of the connection. Mutating policies are not called without an object.
    """
    fails = policy.kind == "ValidatingAdmissionPolicy" and policy.value["spec"]["failurePolicy"] == "Fail"
    if not fails or "DELETE" not in operations_of(policy):
        return
    if any(_tells_null_apart(each) for each in compiled if each.compiled.kind is ExpressionKind.MATCH_CONDITION):
        return
    variables = {each.variable: each for each in compiled if each.variable}
    by_path = {each.path: each for each in compiled}
    for checked in compiled:
        if checked.variable or not any(path.partition(".")[0] == "object" for path in checked.compiled.footprint):
            continue
        is_message = checked.compiled.kind is ExpressionKind.MESSAGE_EXPRESSION
        validation = by_path.get(checked.path.replace(".messageExpression", ".expression")) if is_message else None
        expressions = [each for each in (checked, validation) if each is not None]
        used = [variables[name] for each in expressions for name in readings[each.path].variables if name in variables]
        if any(_tells_null_apart(each) for each in (*expressions, *used)) or _is_decided_without_object(
            checked, readings
        ):
            continue
        if is_message:
            message = "reads `object`, which is null on DELETE; the message is then the fixed one"
            yield warned(policy, catalogue.MESSAGE_CAN_FAIL, message, checked.path)
            continue
        message = "reads `object`, which is null on DELETE: with failurePolicy Fail every such request is denied"
        yield warned(policy, catalogue.OBJECT_NULL, message, checked.path)


def _is_decided_without_object(checked: CheckedExpression, readings: dict[str, Reading]) -> bool:
    """Return whether an expression has a value on DELETE for any other request field."""
    if readings[checked.path].variables:
        return False
    result = _evaluated(checked, object=None)
    return result.error is None and not result.unknown


def _tells_null_apart(checked: CheckedExpression) -> bool:
    assert checked.compiled.program is not None
    ast = checked.compiled.program.ast
    return ("object",) in reading_of(ast).guards or mentions(ast, ("request", "operation"))

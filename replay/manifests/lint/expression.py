"""Warnings about the expressions of policies."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from replay.cel.declare.estimate import fixed
from replay.cellib.environment import PER_CALL_LIMIT
from replay.json import JSON
from replay.kube.gvk import GroupVersionKind, GroupVersionResource
from replay.manifests.expression import CheckedExpression, ExpressionKind
from replay.manifests.lint import catalogue
from replay.manifests.lint.cel import Reading, SchemaPath, compared_operations, mentions, reading_of
from replay.manifests.lint.warning import LintContext, SilenceableWarning, warned
from replay.manifests.loader import LoadedObject

if TYPE_CHECKING:
    from replay.cellib.composition import Evaluated

_LARGE = 200
"""The size of lists, maps and texts that is taken for a large one."""
_OPERATIONS = frozenset({"CREATE", "UPDATE", "DELETE", "CONNECT"})
_OPTIONAL_METADATA = frozenset(
    [
        "annotations",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "finalizers",
        "generateName",
        "labels",
        "namespace",
        "ownerReferences",
        "selfLink",
    ]
)
_OPTIONAL_IN_REQUEST: frozenset[SchemaPath] = frozenset({("request", "subResource"), ("request", "requestSubResource")})
_MAX_KINDS = 8


def lint_expressions(policy: LoadedObject, context: LintContext) -> Iterator[SilenceableWarning]:
    """All warnings about the expressions of a policy or webhook configuration."""
    compiled = [each for each in policy.expressions if each.compiled.program is not None]
    for checked in compiled:
        yield from _lint_cost(policy, checked)
        if checked.compiled.kind is ExpressionKind.MATCH_CONDITION:
            yield from _lint_namespace(policy, checked)
            yield from _lint_never_true(policy, checked)
    if not policy.kind.endswith("AdmissionPolicy"):
        return
    readings = {checked.path: _reading(checked) for checked in compiled}
    yield from _lint_null_object(policy, compiled, readings)
    yield from _lint_optional_fields(policy, compiled, readings, context)


def _reading(checked: CheckedExpression) -> Reading:
    assert checked.compiled.program is not None
    return reading_of(checked.compiled.program.ast)


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
    """`namespaceObject` in a match condition (`webhook/matchconditions/matcher.go` passes none)."""
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


def _is_always_false(checked: CheckedExpression) -> bool:
    """Whether the condition is false with nothing known about the request: `false && unknown` is false."""
    result = _evaluated(checked)
    return result.value is False and result.error is None and not result.unknown


def _evaluated(checked: CheckedExpression, **constants: JSON) -> Evaluated:
    """An expression with nothing known but some variables."""
    from replay.cellib.composition import Evaluation  # noqa: PLC0415 - one evaluation per condition
    from replay.cellib.expression import ExpressionCompiler  # noqa: PLC0415 - one evaluation per condition
    from replay.cellib.version import NEWEST  # noqa: PLC0415
    from replay.kube.attributes import Missing  # noqa: PLC0415

    names = ("object", "oldObject", "request", "namespaceObject", "authorizer", "params")
    bindings = {name: Missing(name, "the request is not known") for name in names}
    evaluation = Evaluation(ExpressionCompiler(NEWEST, has_params=False), {**bindings, **constants}, PER_CALL_LIMIT)
    return evaluation.evaluate(checked.compiled)


def operations_of(loaded: LoadedObject) -> frozenset[str]:
    """The operations that some rule of a policy, or of any webhook of a configuration, names."""
    named = {operation for rule in rules_of(loaded) for operation in rule.get("operations") or ()}
    return _OPERATIONS if "*" in named else frozenset(named)


def rules_of(loaded: LoadedObject) -> list[JSON]:
    """The rules of a policy, or of all webhooks of a configuration."""
    if loaded.kind.endswith("WebhookConfiguration"):
        return [rule for webhook in loaded.value.get("webhooks") or () for rule in webhook.get("rules") or ()]
    constraints = loaded.value["spec"].get("matchConstraints") or {}
    return list(constraints.get("resourceRules") or ())


def _lint_null_object(
    policy: LoadedObject, compiled: list[CheckedExpression], readings: dict[str, Reading]
) -> Iterator[SilenceableWarning]:
    """`object` read on DELETE, where it is null, with nothing that tells the cases apart.

    On CONNECT it is the options of the connection. Mutating policies are not asked where there is no object.
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
        used = [
            variables[name]
            for each in expressions
            for name in _variables_read(readings[each.path])
            if name in variables
        ]
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
    """Whether an expression has a value on DELETE, whatever the rest of the request is."""
    if _variables_read(readings[checked.path]):
        return False
    result = _evaluated(checked, object=None)
    return result.error is None and not result.unknown


def _tells_null_apart(checked: CheckedExpression) -> bool:
    assert checked.compiled.program is not None
    ast = checked.compiled.program.ast
    return ("object",) in reading_of(ast).guards or mentions(ast, ("request", "operation"))


def _variables_read(reading: Reading) -> set[str]:
    return {path[1] for path, _ in reading.paths if len(path) > 1 and path[0] == "variables"}


def _lint_optional_fields(
    policy: LoadedObject, compiled: list[CheckedExpression], readings: dict[str, Reading], context: LintContext
) -> Iterator[SilenceableWarning]:
    """Fields that an object need not have, read without a test in the expression or in a match condition."""
    fails = policy.value["spec"]["failurePolicy"] == "Fail"
    conditions = [readings[each.path] for each in compiled if each.compiled.kind is ExpressionKind.MATCH_CONDITION]
    schemas = _schemas(policy, context)
    request = _OPTIONAL_IN_REQUEST if _may_lack_subresource(policy) else frozenset()
    for checked in compiled:
        is_message = checked.compiled.kind is ExpressionKind.MESSAGE_EXPRESSION
        if not fails and not is_message:
            continue
        reading = readings[checked.path]
        missing = sorted(
            {
                ".".join(prefix)
                for path, _ in reading.paths
                for prefix in (*_optional_prefixes(path, schemas), *([path[:2]] if path[:2] in request else []))
                if not reading.is_guarded(prefix) and not any(each.is_guarded(prefix) for each in conditions)
            }
        )
        if missing and is_message:
            message = f"fails where {_lacking(missing[0])}; the message is then the fixed one"
            yield warned(policy, catalogue.MESSAGE_CAN_FAIL, message, checked.path)
        elif missing:
            message = f"fails where {_lacking(missing[0])}: test it with `has()` or read it with `.?`"
            yield warned(policy, catalogue.UNGUARDED_FIELD, message, checked.path)


def _lacking(path: str) -> str:
    return f"{'a request' if path.startswith('request.') else 'an object'} has no `{path}`"


def _may_lack_subresource(policy: LoadedObject) -> bool:
    """Whether some rule matches requests of a resource itself: an AdmissionRequest leaves out what is empty."""
    return any(
        "/" not in entry or entry.endswith("/*") for rule in rules_of(policy) for entry in rule.get("resources") or ()
    )


def _optional_prefixes(path: SchemaPath, schemas: tuple[object, ...]) -> Iterator[SchemaPath]:
    """The parts of a path that an object of some matched kind may lack."""
    if path[0] not in ("object", "oldObject") or len(path) < 3:
        return
    if path[1] == "metadata":
        if path[2] in _OPTIONAL_METADATA:
            yield path[:3]
        return
    for schema in schemas:
        for end in _optional_ends(path, schema):
            yield path[:end]


def _optional_ends(path: SchemaPath, schema: object) -> Iterator[int]:
    """Where a path reads a field that the kind knows, does not require and does not default."""
    from replay.kube.schema import Schema  # noqa: PLC0415

    for end in range(2, len(path) + 1):
        if not isinstance(schema, Schema):
            return
        field = schema.field(path[end - 1])
        if field is None:
            return
        written = path[end - 1] in schema.required or path[end - 1] in schema.always_written
        if end > 2 and not written and path[end - 1] not in schema.with_default:
            yield end
            return
        schema = field


def _schemas(policy: LoadedObject, context: LintContext) -> tuple[object, ...]:
    """The schemas of the few kinds that the rules name; none where they name many, or a wildcard."""
    kinds = set(_kinds(policy, context))
    if not kinds or None in kinds or len(kinds) > _MAX_KINDS:
        return ()
    schemas = _known_schemas()
    return tuple(schema for kind in kinds if kind is not None and (schema := schemas.for_kind(kind)) is not None)


@cache
def _known_schemas() -> JSON:
    from replay.kube.schema import Schemas  # noqa: PLC0415 - a set that reads no fields needs none

    return Schemas()


def _kinds(policy: LoadedObject, context: LintContext) -> Iterator[GroupVersionKind | None]:
    for rule in rules_of(policy):
        for group in rule.get("apiGroups") or ():
            for version in rule.get("apiVersions") or ():
                for entry in rule.get("resources") or ():
                    resource, _, subresource = entry.partition("/")
                    yield context.discovery.kind(GroupVersionResource(group, version, resource), subresource)

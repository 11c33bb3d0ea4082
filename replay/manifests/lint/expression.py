"""Warnings about the expressions of policies and webhook configurations."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from replay.cel.ast.tree import Const, StructExpr, StructField
from replay.cel.ast.walk import descendants
from replay.cel.declare.cost import fixed
from replay.cel.value.types import DYN
from replay.cellib.environment import PER_CALL_LIMIT, admission_env
from replay.cellib.version import NEWEST
from replay.json import JSON
from replay.kube.schema import Schema
from replay.manifests.expression import CheckedExpression, ExpressionKind
from replay.manifests.lint import catalogue
from replay.manifests.lint.condition import Condition
from replay.manifests.lint.optional_field import lint_optional_fields, readings_of
from replay.manifests.lint.reachable import Facts
from replay.manifests.lint.reading import Reading, SchemaPath, compared_operations, mentions, reading_of
from replay.manifests.lint.warning import LintContext, SilenceableWarning, named_resources, operations_of, warned
from replay.manifests.loader import LoadedObject

if TYPE_CHECKING:
    from replay.cellib.composition import Evaluated


# Warnings about apply configurations that write atomic fields.
# The API server refuses these (`mutating/patch/smd.go`, `findAtomics`).


def _lint_atomics(
    policy: LoadedObject, compiled: Sequence[CheckedExpression], context: LintContext
) -> Iterator[SilenceableWarning]:
    """Yield a warning for each field that is atomic in all known kinds that the policy matches."""
    applying = [each for each in compiled if each.compiled.kind is ExpressionKind.APPLY_CONFIGURATION]
    if not applying:
        return
    schemas = list(_schemas(policy, context))
    for checked in applying:
        assert checked.compiled.program is not None
        written = dict.fromkeys(
            (*node.type_name.split(".")[1:], field.field)
            for node in descendants(checked.compiled.program.ast.expr)
            if isinstance(node, StructExpr) and node.type_name.partition(".")[0] == "Object"
            for field in node.fields
            if _has_value(field)
        )
        for path in sorted(written):
            if schemas and all(schema is not None and _is_atomic(schema, path) for schema in schemas):
                message = f"`{'.'.join(path)}` is atomic: the API server refuses an ApplyConfiguration that writes it"
                yield warned(policy, catalogue.ATOMIC_FIELD, message, checked.path)


def _schemas(policy: LoadedObject, context: LintContext) -> Iterator[Schema | None]:
    """Yield the schemas of the kinds that the policy matches. A schema is None if it is unknown."""
    for resource, subresource in named_resources(policy, context.discovery):
        kind = None if resource is None else resource.subresources.get(subresource) if subresource else resource.kind
        yield None if kind is None else context.schemas.for_kind(kind)


def _has_value(field: StructField) -> bool:
    """Return whether a field of a literal is certain to be written."""
    return not (field.optional or (isinstance(field.value, Const) and field.value.value is None))


def _is_atomic(schema: Schema, path: Sequence[str]) -> bool:
    """Return whether a list, map or struct at a path is atomic. Items of lists have the path of their list."""
    for name in path:
        while (items := schema.items) is not None:
            schema = items
        field = schema.fields.get(name)
        if field is None:
            return False
        schema = field
    return schema.list_type in ("", "atomic") if schema.items is not None else schema.map_type == "atomic"


# Warnings about policies that protect labelled objects from updates, although an update can remove the label.
# The rule: an UPDATE is judged only by a label or annotation of `object`, although the old object is the protected one. Otherwise
# the policy may only check who changes the object, or that it stays the same. Policies that judge the new object itself are not
# meant.

_LABELS: tuple[SchemaPath, ...] = (("metadata", "labels"), ("metadata", "annotations"))
_IDENTITY: tuple[SchemaPath, ...] = (("metadata", "name"), ("metadata", "namespace"), ("kind",), ("apiVersion",))
_WHO: tuple[SchemaPath, ...] = (("request", "userInfo"), ("authorizer",))
_UPDATE: tuple[SchemaPath, str] = (("request", "operation"), "UPDATE")


def _lint_guard_label(
    policy: LoadedObject, compiled: Sequence[CheckedExpression], context: LintContext
) -> Iterator[SilenceableWarning]:
    """Yield a warning for a label that decides about protection and is read in the new object."""
    if policy.kind != "ValidatingAdmissionPolicy" or "UPDATE" not in operations_of(policy):
        return
    if not any("Deny" in (each.value["spec"].get("validationActions") or ()) for each in context.bindings(policy)):
        return
    guard = _Guard(compiled, has_create="CREATE" in operations_of(policy))
    for kind in _LABELS:
        where = guard.first_reading(kind)
        if where is not None and guard.is_escaped_without(kind):
            name = f"metadata.{kind[1]}"
            message = (
                f"an UPDATE that takes away what `object.{name}` is asked for passes, whatever else it changes: look at "
                f"`oldObject.{name}`, which is what is protected"
            )
            yield warned(policy, catalogue.REMOVABLE_LABEL, message, where)


class _Guard:
    """The conditions and validations of a policy, as they are for an UPDATE."""

    def __init__(self, compiled: Sequence[CheckedExpression], *, has_create: bool) -> None:
        self._has_create = has_create
        names = {each.variable: DYN for each in compiled if each.variable}
        env = admission_env(NEWEST, ExpressionKind.VALIDATION, has_params=True, variables=names)
        self._variables = {e.variable: Condition(env, e.compiled.expression) for e in compiled if e.variable}
        kinds = (ExpressionKind.MATCH_CONDITION, ExpressionKind.VALIDATION)
        self._parts = [
            (each.path, each.compiled.kind, Condition(env, each.compiled.expression))
            for each in compiled
            if each.compiled.kind in kinds and not each.variable
        ]
        known = Facts(dict([_UPDATE]))
        variables: dict[str, Reading] = {}
        self._readings: dict[str, Reading] = {}
        for each in compiled:
            condition = Condition(env, each.compiled.expression)
            if (each.variable or each.compiled.kind in kinds) and (reading := condition.reading(known, variables)):
                self._readings[each.path] = reading
                if each.variable:
                    variables[each.variable] = reading
        self._paths = {path for each in self._readings.values() for path in _read(each)}

    def first_reading(self, kind: SchemaPath) -> str | None:
        """Return the path of the expression that reads labels (or annotations) of the new object.

        None if some expression reads those of the old object.
        """
        if any(path[1:3] == kind for path in self._paths if path[0] == "oldObject"):
            return None
        for field_path, reading in self._readings.items():
            if any(path[:3] == ("object", *kind) for path in _read(reading)):
                return field_path
        return None

    def is_escaped_without(self, kind: SchemaPath) -> bool:
        """Return whether the policy protects the old object, and certainly admits an update that removes its labels."""
        return self._is_protection() and self._admits(Facts(dict([_UPDATE]), {("object", *kind): False}))

    def _is_protection(self) -> bool:
        """Return whether the policy only restricts who changes an object, or which parts stay the same."""
        old = {path[1:] for path in self._paths if path[0] == "oldObject"}
        new = {path[1:] for path in self._paths if path[0] == "object" and len(path) > 1}
        others = {
            path for path in new if path[:2] not in _LABELS and path not in _IDENTITY and not _is_among(path, old)
        }
        is_compared = bool(old - {()})
        by_user = any(path[: len(who)] == who for path in self._paths for who in _WHO)
        return not others and (is_compared or (by_user and not self._has_create))

    def _admits(self, facts: Facts) -> bool:
        values, presence = dict(facts.values), dict(facts.presence)
        for name, condition in self._variables.items():
            value = condition.value(Facts(values, presence))
            if isinstance(value, bool):
                values["variables", name] = value
            elif value == {}:
                presence["variables", name] = False  # what is absent is looked for in an empty map too
        known = Facts(values, presence)
        results = [(kind, condition.value(known)) for _, kind, condition in self._parts]
        if any(kind is ExpressionKind.MATCH_CONDITION and value is False for kind, value in results):
            return True
        return all(value is True for kind, value in results if kind is ExpressionKind.VALIDATION)


def _read(reading: Reading) -> set[SchemaPath]:
    """Return the paths that are read or tested, without the prefixes of other paths."""
    paths = reading.paths | reading.guards
    on_the_way = {path[:end] for path in paths for end in range(1, len(path))}
    return {path for path in paths if path not in on_the_way}


def _is_among(path: SchemaPath, others: set[SchemaPath]) -> bool:
    """Return whether a path, a prefix of it or something below it is among others."""
    return any(path[: len(each)] == each or each[: len(path)] == path for each in others if each)


_LARGE = 30
"""Size that all lists, maps and texts of a usual object can have at once, for cost estimates."""


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
    yield from _lint_guard_label(policy, compiled, context)
    yield from _lint_atomics(policy, compiled, context)


def _lint_cost(policy: LoadedObject, checked: CheckedExpression) -> Iterator[SilenceableWarning]:
    assert checked.compiled.program is not None
    program = checked.compiled.program

    def fits(size: int) -> bool:
        # The server's own estimate, for lists and texts of this size.
        return program.estimated_cost(fixed(size)).most <= PER_CALL_LIMIT

    if not fits(_LARGE):
        most = bisect_left(range(_LARGE), True, key=lambda size: not fits(size)) - 1
        message = (
            f"the worst-case cost exceeds the limit of {PER_CALL_LIMIT:,} if lists have more than {most} elements "
            f"and texts more than {most} characters"
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
        from replay.manifests.lint.condition import Condition, first_contradicting_condition  # noqa: PLC0415
        from replay.manifests.lint.reachable import Facts  # noqa: PLC0415

        env = admission_env(NEWEST, ExpressionKind.MATCH_CONDITION, has_params=True, variables=None)
        index = first_contradicting_condition([Condition(env, each.compiled.expression) for each in together], Facts())
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

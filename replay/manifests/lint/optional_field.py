"""Warnings about optional fields of an object or request that an expression reads without a test."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from replay.cel.ast.tree import Select
from replay.json import JSON
from replay.kube.default import set_defaults
from replay.kube.gvk import GroupVersionKind
from replay.kube.schema import Schema
from replay.manifests.expression import CheckedExpression, ExpressionKind
from replay.manifests.lint import catalogue
from replay.manifests.lint.reading import ELEMENT, Reading, SchemaPath, conjuncts, path_of, reading_of
from replay.manifests.lint.warning import LintContext, SilenceableWarning, named_resources, rules_of, warned
from replay.manifests.loader import LoadedObject

# The fields that every object of a kind has when policies see it: required, defaulted, or demanded by validation.
# Validating policies run after defaulting and validation (`k8s.io/apiserver/pkg/registry/generic/registry/store.go`). Mutating
# policies run before validation, but an invalid object is refused after them anyway.

_CORE, _APPS = "io.k8s.api.core.v1.", "io.k8s.api.apps.v1."
_IDENTITY = frozenset({"apiVersion", "kind", "metadata"})
_LABELS_OF_TEMPLATE: SchemaPath = ("template", "metadata", "labels")

_VALIDATED: Mapping[str, frozenset[SchemaPath]] = {
    _CORE + "Container": frozenset({("image",)}),
    _CORE + "EphemeralContainer": frozenset({("image",)}),
    _CORE + "PersistentVolumeClaimSpec": frozenset({("accessModes",), ("resources", "requests")}),
    _CORE + "PersistentVolumeSpec": frozenset({("accessModes",), ("capacity",)}),
    _APPS + "DeploymentSpec": frozenset({_LABELS_OF_TEMPLATE}),
    _APPS + "DaemonSetSpec": frozenset({_LABELS_OF_TEMPLATE}),
    _APPS + "StatefulSetSpec": frozenset({_LABELS_OF_TEMPLATE}),
    _APPS + "ReplicaSetSpec": frozenset({("template",), _LABELS_OF_TEMPLATE}),
    _CORE + "ReplicationControllerSpec": frozenset({("selector",), ("template",), _LABELS_OF_TEMPLATE}),
}
"""Fields that the server requires in addition to the schema (`Validate…` of `pkg/apis/*/validation`)."""

_WRITTEN_BY_PLUGINS: Mapping[str, frozenset[SchemaPath]] = {
    _CORE + "Pod": frozenset(
        ("spec", field) for field in ("preemptionPolicy", "priority", "serviceAccountName", "tolerations")
    ),
}
"""Fields that default plugins set if absent (ServiceAccount, Priority, DefaultTolerationSeconds)."""

_VARIATIONS: Mapping[str, JSON] = {"string": "another", "integer": 1, "boolean": True}
_BLANK: dict[str, Any] = {}


def _optional_fields(schema: Schema, path: SchemaPath) -> Iterator[int]:
    """Yield the lengths of those prefixes of a path whose last field may be missing.

    `path` starts below the object.
    """
    at: Schema | None = schema
    around: list[Schema] = []
    for end, name in enumerate(path, 1):
        if at is None:
            return
        around.append(at)
        if name == ELEMENT:
            at = at.items or at.values
            continue
        field = at.fields.get(name)
        if field is None:
            at = at.values  # the key of a map
            continue
        is_there = (
            (end == 1 and name in _IDENTITY)
            or (name in at.required or name in at.always_written or name in at.with_default)
            or _is_defaulted(schema, path[:end])
            or _is_demanded(around, path[:end])
        )
        if not is_there:
            yield end
        at = field


def _is_demanded(around: list[Schema], path: SchemaPath) -> bool:
    """Return whether validation demands the last field of a path, or a plugin sets it.

    `around` are the structs on the path.
    """
    return any(
        path[index:] in table.get(struct.name, ())
        for index, struct in enumerate(around)
        for table in (_VALIDATED, _WRITTEN_BY_PLUGINS)
    )


@lru_cache(maxsize=4096)
def _is_defaulted(schema: Schema, path: SchemaPath) -> bool:
    """Return whether defaulting always writes the field. A custom kind's schema says so."""
    return bool(schema.name) and all(
        _has(_defaulted(schema, path[:-1], beside), path) for beside in _besides(schema, path)
    )


def _besides(schema: Schema, path: SchemaPath) -> Iterator[dict[str, JSON]]:
    """Yield an empty map, then each other scalar field that may be beside the last field of a path.

    Defaulting of one field may depend on another.
    """
    yield _BLANK
    at: Schema | None = schema
    for name in path[:-1]:
        at = None if at is None else at.items if name == ELEMENT else at.field(name)
    if at is None:
        return
    for name, field in at.fields.items():
        if name != path[-1] and field.type in _VARIATIONS:
            yield {name: _VARIATIONS[field.type]}


def _defaulted(schema: Schema, path: SchemaPath, beside: dict[str, JSON]) -> JSON:
    """Return an object with only the fields on a path, defaulted."""
    value = _along(schema, path, beside)
    value["metadata"] = {"name": "example", **value.get("metadata", _BLANK)}
    set_defaults(schema, value)
    return value


def _along(schema: Schema | None, path: SchemaPath, beside: dict[str, JSON]) -> JSON:
    if not path or schema is None:
        return dict(beside)
    if path[0] != ELEMENT:
        return {path[0]: _along(schema.field(path[0]), path[1:], beside)}
    if schema.items is None:
        return {"example": _along(schema.values, path[1:], beside)}
    return [_along(schema.items, path[1:], beside)]


def _has(value: JSON, path: SchemaPath) -> bool:
    for name in path:
        if name == ELEMENT:
            value = next(iter(value.values() if isinstance(value, dict) else value), None)
        else:
            value = value.get(name) if isinstance(value, dict) else None
        if value is None:
            return False
    return True


_OBJECTS = ("object", "oldObject")
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
_LABELLED = GroupVersionKind("", "v1", "Namespace")
"""A kind whose objects always have a label, which is that of their name."""


def readings_of(compiled: Sequence[CheckedExpression]) -> dict[str, Reading]:
    """Return what each expression of a policy reads, by field."""
    variables: dict[str, Reading] = {}
    readings: dict[str, Reading] = {}
    for checked in compiled:
        assert checked.compiled.program is not None
        readings[checked.path] = reading_of(checked.compiled.program.ast, variables)
        if checked.variable:
            variables[checked.variable] = readings[checked.path]
    return readings


def lint_optional_fields(
    policy: LoadedObject, compiled: Sequence[CheckedExpression], readings: dict[str, Reading], context: LintContext
) -> Iterator[SilenceableWarning]:
    """Yield a warning for each optional field that is read without a test.

    Tests count in the expression itself, in its variables and in match conditions. A variable is evaluated where it is
    read. The warning is about the variable, but its reader may have tested the field.
    """
    fails = policy.value["spec"]["failurePolicy"] == "Fail"
    optional = _OptionalFields(policy, context)
    conditions = [each for each in compiled if each.compiled.kind is ExpressionKind.MATCH_CONDITION]
    around = [readings[each.path] for each in conditions]
    demanded = frozenset(path for each in compiled for path in _demanded(each))
    variables = {each.variable: each for each in compiled if each.variable}
    reported: set[tuple[str, str]] = set()
    for checked in compiled:
        is_message = checked.compiled.kind is ExpressionKind.MESSAGE_EXPRESSION
        if checked.variable or not (fails or is_message):
            continue
        used = [checked, *_variables_used(checked, variables, readings)]
        guards = [*around, *(readings[each.path] for each in used)]
        if is_message and (validation := readings.get(checked.path.replace(".messageExpression", ".expression"))):
            guards.append(validation)
        in_variables = {path for each in used[1:] for path in optional.read_by(readings[each.path])}
        for each in used:
            missing = sorted(
                _path_text(path)
                for path in optional.read_by(readings[each.path]) - (in_variables if each is checked else set())
                if path not in demanded and not any(guard.is_guarded(path) for guard in guards)
            )
            if missing and (each.path, missing[0]) not in reported:
                reported.add((each.path, missing[0]))
                yield _warning(policy, each.path, missing[0], is_message=is_message)


def _warning(policy: LoadedObject, field_path: str, missing: str, *, is_message: bool) -> SilenceableWarning:
    lacking = f"fails where {'a request' if missing.startswith('request.') else 'an object'} has no `{missing}`"
    if is_message:
        return warned(policy, catalogue.MESSAGE_CAN_FAIL, f"{lacking}; the message is then the fixed one", field_path)
    return warned(
        policy, catalogue.UNGUARDED_FIELD, f"{lacking}: test it with `has()` or read it with `.?`", field_path
    )


def _path_text(path: SchemaPath) -> str:
    return ".".join(path).replace(f".{ELEMENT}", ELEMENT)


def _demanded(checked: CheckedExpression) -> Iterator[SchemaPath]:
    """Yield the fields without which a validation denies in any case: `has(...)` that must be true."""
    if checked.compiled.kind is not ExpressionKind.VALIDATION or checked.compiled.program is None:
        return
    for node in conjuncts(checked.compiled.program.ast.expr):
        if isinstance(node, Select) and node.test_only and (path := path_of(node)) is not None:
            yield path


def _variables_used(
    checked: CheckedExpression, variables: dict[str, CheckedExpression], readings: dict[str, Reading]
) -> list[CheckedExpression]:
    """Return the variables that an expression reads, directly or through other variables."""
    used: dict[str, CheckedExpression] = {}
    pending = [checked]
    while pending:
        for name in sorted(readings[pending.pop().path].variables & variables.keys() - used.keys()):
            used[name] = variables[name]
            pending.append(variables[name])
    return list(used.values())


class _OptionalFields:
    """The fields that the objects and requests of a policy may lack."""

    def __init__(self, policy: LoadedObject, context: LintContext) -> None:
        resources = list(named_resources(policy, context.discovery))
        known = [resource for resource, _ in resources if resource is not None]
        is_known = len(known) == len(resources)
        self._metadata = _OPTIONAL_METADATA
        if is_known and known and all(resource.namespaced for resource in known):
            self._metadata -= {"namespace"}
        kinds = {r.subresources.get(sub) if sub else r.kind for r, sub in resources if r is not None}
        if is_known and kinds == {_LABELLED}:
            self._metadata -= {"labels"}
        is_readable = is_known and None not in kinds and len(kinds) <= _MAX_KINDS
        schemas = (context.schemas.for_kind(kind) for kind in kinds if kind is not None) if is_readable else ()
        self._schemas: list[Schema] = [schema for schema in schemas if schema is not None]
        self._request = _OPTIONAL_IN_REQUEST if _may_lack_subresource(policy) else frozenset()

    def read_by(self, reading: Reading) -> set[SchemaPath]:
        """Return the optional fields that an expression reads."""
        return {part for path in reading.paths for part in self._parts(path)}

    def _parts(self, path: SchemaPath) -> Iterable[SchemaPath]:
        if path[:2] in self._request:
            yield path[:2]
        if path[0] not in _OBJECTS or len(path) < 2:
            return
        if path[1] == "metadata":
            if len(path) > 2 and path[2] in self._metadata:
                yield path[:3]
            return
        for schema in self._schemas:
            for end in _optional_fields(schema, path[1:]):
                yield path[: end + 1]


def _may_lack_subresource(policy: LoadedObject) -> bool:
    """Return whether a rule matches requests without a subresource. An AdmissionRequest omits empty fields."""
    return any(
        "/" not in entry or entry.endswith("/*") for rule in rules_of(policy) for entry in rule.get("resources") or ()
    )

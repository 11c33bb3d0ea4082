"""Problems of a custom object under a changed definition.

Source: `k8s.io/apiextensions-apiserver/pkg/registry/customresource/strategy.go` (`Validate`, `ValidateUpdate`). The
schema comes first, then the CEL rules. The log's object was valid, so only additions of the new schema can be a reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from msgspec import Struct

from replay.cel.ast.issues import Issues
from replay.cel.declare.library import Library, VariableDecl
from replay.cel.env import Env
from replay.cel.program import Program
from replay.cel.value.types import DYN
from replay.cellib.activation import partial_value
from replay.cellib.declared_type import escape
from replay.cellib.environment import base_env
from replay.cellib.version import KubernetesVersion
from replay.go.format import aggregate, quote
from replay.json import JSON
from replay.kube.custom_schema import defaulted, problems, pruned

# Places of a custom object with their schemas, the old values, and the schemas that were in force.
# `k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/validation.go` and `pkg/apiserver/validation/ratcheting.go` define which
# old value belongs to a place: fields by name, items of `map` lists by their keys, and no others.

_ABSENT = object()
"""Marker for a place without an old value."""
_ATOMIC = "atomic"


class _SchemaNode(NamedTuple):
    """One place of a value. `before` is None if the schema in force is unknown or has no such place."""

    path: str
    schema: Mapping[str, JSON]
    before: Mapping[str, JSON] | None
    value: JSON
    old: object

    @property
    def is_unchanged(self) -> bool:
        """Return whether an update leaves the value unchanged. Its problems are then no reason to refuse the update."""
        return self.old is not _ABSENT and self.old == self.value


def _nodes(schema: JSON, before: JSON, value: JSON, old: object = _ABSENT, path: str = "") -> Iterator[_SchemaNode]:
    """Yield the places of a value from the top, fields sorted by name.

    Parts that the schema does not describe are skipped.
    """
    if not isinstance(schema, dict) or value is None:
        return
    known = before if isinstance(before, dict) else None
    yield _SchemaNode(path, schema, known, value, old)
    if isinstance(value, dict):
        for name in sorted(value):
            part = _field(schema, name)
            at = f"{path}.{name}" if path else name
            yield from _nodes(part, _field(known or {}, name), value[name], _old_field(schema, old, name), at)
    elif isinstance(value, list):
        items = (known or {}).get("items")
        for place, item in enumerate(value):
            yield from _nodes(schema.get("items"), items, item, _old_item(schema, old, item), f"{path}[{place}]")


def _field(schema: Mapping[str, JSON], name: str) -> JSON:
    others = schema.get("additionalProperties")
    return (schema.get("properties") or {}).get(name, others if isinstance(others, dict) else None)


def _old_field(schema: Mapping[str, JSON], old: object, name: str) -> object:
    if not isinstance(old, dict) or schema.get("x-kubernetes-map-type") == _ATOMIC:
        return _ABSENT
    return old.get(name, _ABSENT)


def _old_item(schema: Mapping[str, JSON], old: object, item: JSON) -> object:
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    if not isinstance(old, list) or schema.get("x-kubernetes-list-type") != "map" or not isinstance(item, dict):
        return _ABSENT
    same = (each for each in old if isinstance(each, dict) and all(each.get(key) == item.get(key) for key in keys))
    return next(same, _ABSENT)


# Evaluation of a custom kind's CEL rules (`x-kubernetes-validations`) on one value.
# Source: `k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/validation.go` (`validateExpressions`, of 1.37).

_RULES = "x-kubernetes-validations"
_COMPLEX = ("object", "array")
_TYPED_TEXTS = frozenset({"byte", "date", "date-time", "duration"})
_OLD = "oldSelf"


class _UnknownRuleError(Exception):
    """A rule whose result is unknown. `str()` says why."""


@lru_cache(maxsize=8)
def _env(version: KubernetesVersion) -> Env:
    variables = (VariableDecl("self", DYN), VariableDecl(_OLD, DYN))
    return base_env(version, version, Library(name="kubernetes.customresource", variables=variables))


@lru_cache(maxsize=1024)
def _program(rule: str, version: KubernetesVersion) -> Program | None:
    """Return the program of a rule, None if it does not compile without the types of its schema."""
    env = _env(version)
    ast = env.compile(rule)
    return None if isinstance(ast, Issues) else env.program(ast)


def _broken(node: _SchemaNode, rule: Mapping[str, JSON], version: KubernetesVersion) -> str | None:
    """Return the server's message for a broken rule, None if the rule is kept. Raise UnknownRuleError."""
    text = str(rule.get("rule") or "").strip()
    uses_old = _OLD in text
    # A rule about `oldSelf` is a transition rule. Without an old value the server does not evaluate it.
    if not text or (uses_old and node.old is _ABSENT and not rule.get("optionalOldSelf")):
        return None
    # With ratcheting, a rule that reads only the new value is not evaluated for an unchanged one.
    if node.is_unchanged and not uses_old:
        return None
    program = _program(text, version)
    if program is None or (uses_old and rule.get("optionalOldSelf")):
        raise _UnknownRuleError(f"replay does not evaluate the rule `{text}`")
    values = {"self": node.value} if node.old is _ABSENT else {"self": node.value, _OLD: node.old}
    bindings = {
        name: partial_value(_as_rules_see(node.schema, value), as_typed=False) for name, value in values.items()
    }
    result = program.eval(bindings)
    if result.unknown is not None:
        raise _UnknownRuleError(f"the values that the rule `{text}` reads are not known")
    kind = str(node.schema.get("type") or "")
    said = str(rule.get("message") or "").strip()
    if result.error is not None:
        return f'{_shown(node.path)}: Invalid value: "{kind}": {result.error} evaluating rule: {said or text}'
    if result.value is True:
        return None
    return _wording(node, rule, _message(rule, bindings, version) or said or f"failed rule: {text}", kind)


def _wording(node: _SchemaNode, rule: Mapping[str, JSON], detail: str, kind: str) -> str:
    """Return the message for a rule's reason (`fieldErrorForReason`). Objects and lists are not printed."""
    from replay.manifests.finding import forbidden, invalid, required  # noqa: PLC0415 - few sets have such rules

    path = _shown(f"{node.path}{rule.get('fieldPath') or ''}".lstrip("."))
    match rule.get("reason"):
        case "FieldValueForbidden":
            return str(forbidden(path, detail))
        case "FieldValueRequired":
            return str(required(path, detail))
    return f"{path}: Invalid value: {detail}" if kind in _COMPLEX else str(invalid(path, node.value, detail))


def _message(rule: Mapping[str, JSON], bindings: Mapping[str, object], version: KubernetesVersion) -> str:
    """Return the value of `messageExpression`, empty if it is absent or unusable."""
    expression = str(rule.get("messageExpression") or "").strip()
    program = _program(expression, version) if expression else None
    result = None if program is None else program.eval(bindings)
    value = result.value if result is not None and result.error is None else ""
    return value.strip() if isinstance(value, str) and "\n" not in value else ""


def _shown(path: str) -> str:
    return path or "<nil>"


def _as_rules_see(schema: JSON, value: JSON) -> JSON:
    """Return a value as rules see it: escaped field names, numbers of the schema's type. Raise UnknownRuleError."""
    if not isinstance(schema, dict):
        return value
    if isinstance(value, dict):
        fields, others = schema.get("properties") or {}, schema.get("additionalProperties")
        return {
            (escape(name) or name if name in fields else name): _as_rules_see(fields.get(name, others), item)
            for name, item in value.items()
            if item is not None or name not in fields
        }
    if isinstance(value, list):
        return [_as_rules_see(schema.get("items"), item) for item in value]
    if isinstance(value, str) and schema.get("format") in _TYPED_TEXTS:
        raise _UnknownRuleError(f"replay does not evaluate rules on values of format `{schema['format']}`")
    is_number = isinstance(value, int) and not isinstance(value, bool) and schema.get("type") == "number"
    return float(value) if is_number else value


_BELOW = ("properties", "items", "additionalProperties")
_UNCHECKED = (
    *("allOf", "anyOf", "format", "multipleOf", "uniqueItems", "minProperties", "maxProperties"),
    "x-kubernetes-embedded-resource",
)
"""Schema keywords that are not checked here. If only the new schema has them, the result is unknown."""
_CHOICES = ("oneOf", "not")
_NOT_CHECKED = (
    "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to "
    "complete validation"
)
_BLOCKING = ("Required value", "Unsupported value", "Too long", "Too many", "in body must be of type")


class Judgement(Struct, frozen=True):
    """Problems of an object (`errors`), and reasons why it may have more (`open`)."""

    errors: tuple[str, ...] = ()
    open: tuple[str, ...] = ()


def judged(schema: JSON, before: JSON, value: JSON, old: JSON | None, version: KubernetesVersion) -> Judgement:
    """Return the judgement of an object under a schema.

    `before` is the schema that was in force, None if unknown. `old` is the object that an update finds.
    """
    completed = defaulted(schema, pruned(schema, value, is_root=True))
    found = list(_nodes(schema, before, completed, _ABSENT if old is None else old))
    errors = tuple(error for node in found if not node.is_unchanged for error in _own_problems(node))
    has_rules = _has_rules(schema)
    if errors:
        # With such errors the server skips the CEL rules and says so (`hasBlockingErr`).
        is_blocked = has_rules and any(sign in error for error in errors for sign in _BLOCKING)
        return Judgement((*errors, _NOT_CHECKED) if is_blocked else errors)
    broken_rules: list[str] = []
    unknown = [reason for node in found if not node.is_unchanged for reason in _unchecked(node)]
    for node in found:
        for rule in _new(node, _RULES):
            try:
                error = _broken(node, rule, version)
            except _UnknownRuleError as reason:
                unknown.append(str(reason))
            else:
                broken_rules += [error] if error is not None else []
    return Judgement(tuple(broken_rules), () if broken_rules else tuple(dict.fromkeys(unknown)))


def invalid_text(kind: str, group: str, name: str, errors: tuple[str, ...]) -> str:
    """Return the server's message for an invalid object (`apierrors.NewInvalid`)."""
    return f"{kind}.{group} {quote(name)} is invalid: {aggregate(errors)}"


def _own_problems(node: _SchemaNode) -> Iterator[str]:
    """Yield the problems of a value at its own place that the schema in force did not have."""
    own = _own_keywords(node.schema)
    known = set() if node.before is None else set(problems(_own_keywords(node.before), node.value, node.path))
    yield from (problem for problem in problems(own, node.value, node.path) if problem not in known)


def _own_keywords(schema: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return the keywords of a schema about the value itself, without those that are not checked."""
    return {
        key: value
        for key, value in schema.items()
        if key not in _BELOW and not (key in _CHOICES and not _is_about_fields(value))
    }


def _is_about_fields(choices: JSON) -> bool:
    """Return whether `oneOf` or `not` only restricts which fields exist, which is checked."""
    listed = choices if isinstance(choices, list) else [choices]
    return all(isinstance(each, dict) and each.keys() <= {"required"} for each in listed)


def _unchecked(node: _SchemaNode) -> Iterator[str]:
    choices = (key for key in _CHOICES if not _is_about_fields(node.schema.get(key) or {}))
    for key in (*_UNCHECKED, *choices):
        said = node.schema.get(key)
        if said is not None and (node.before is None or node.before.get(key) != said):
            yield f"replay does not check `{key}` in the schema of `{node.path or 'the object'}`"
    if _has_twins(node):
        yield f"`{node.path}` has duplicate items, which its list type does not allow"


def _has_twins(node: _SchemaNode) -> bool:
    """Return whether a list has items that are equal for its type (`set`, `map`)."""
    kind = node.schema.get("x-kubernetes-list-type")
    if not isinstance(node.value, list) or kind not in ("set", "map"):
        return False
    keys = node.schema.get("x-kubernetes-list-map-keys") or ()
    shown = [
        [each.get(key) for key in keys] if kind == "map" and isinstance(each, dict) else each for each in node.value
    ]
    return any(each in shown[:place] for place, each in enumerate(shown))


def _new(node: _SchemaNode, key: str) -> list[Mapping[str, JSON]]:
    """Return the items of a list in a schema that the schema in force lacks."""
    before = () if node.before is None else node.before.get(key) or ()
    return [each for each in node.schema.get(key) or () if each not in before and isinstance(each, dict)]


def _has_rules(schema: JSON) -> bool:
    if isinstance(schema, dict):
        return bool(schema.get(_RULES)) or any(map(_has_rules, schema.values()))
    return isinstance(schema, list) and any(map(_has_rules, schema))

"""Problems of a custom object under a changed definition.

Source: `k8s.io/apiextensions-apiserver/pkg/registry/customresource/strategy.go` (`Validate`, `ValidateUpdate`). The
schema comes first, then the CEL rules. The log's object was valid, so only additions of the new schema can be a reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from replay.admission.custom_resource.rules import RULES, UnknownRuleError, broken
from replay.admission.custom_resource.schema_node import ABSENT, SchemaNode, nodes
from replay.cellib.version import KubernetesVersion
from replay.go.format import quote
from replay.json import JSON
from replay.kube.custom_schema import defaulted, problems, pruned

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
    found = list(nodes(schema, before, completed, ABSENT if old is None else old))
    errors = tuple(error for node in found if not node.is_unchanged for error in _own_problems(node))
    has_rules = _has_rules(schema)
    if errors:
        # With such errors the server skips the CEL rules and says so (`hasBlockingErr`).
        is_blocked = has_rules and any(sign in error for error in errors for sign in _BLOCKING)
        return Judgement((*errors, _NOT_CHECKED) if is_blocked else errors)
    broken_rules: list[str] = []
    unknown = [reason for node in found if not node.is_unchanged for reason in _unchecked(node)]
    for node in found:
        for rule in _new(node, RULES):
            try:
                error = broken(node, rule, version)
            except UnknownRuleError as reason:
                unknown.append(str(reason))
            else:
                broken_rules += [error] if error is not None else []
    return Judgement(tuple(broken_rules), () if broken_rules else tuple(dict.fromkeys(unknown)))


def invalid_text(kind: str, group: str, name: str, errors: tuple[str, ...]) -> str:
    """Return the server's message for an invalid object (`apierrors.NewInvalid`)."""
    listed = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
    return f"{kind}.{group} {quote(name)} is invalid: {listed}"


def _own_problems(node: SchemaNode) -> Iterator[str]:
    """Yield the problems of a value at its own place that the schema in force did not have."""
    own = _own(node.schema)
    known = set() if node.before is None else set(problems(_own(node.before), node.value, node.path))
    yield from (problem for problem in problems(own, node.value, node.path) if problem not in known)


def _own(schema: Mapping[str, JSON]) -> dict[str, JSON]:
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


def _unchecked(node: SchemaNode) -> Iterator[str]:
    choices = (key for key in _CHOICES if not _is_about_fields(node.schema.get(key) or {}))
    for key in (*_UNCHECKED, *choices):
        said = node.schema.get(key)
        if said is not None and (node.before is None or node.before.get(key) != said):
            yield f"`{key}` of the schema of `{node.path or 'the object'}` is not checked"
    if _has_twins(node):
        yield f"`{node.path}` has equal items, which its list type does not allow"


def _has_twins(node: SchemaNode) -> bool:
    """Return whether a list has items that are equal for its type (`set`, `map`)."""
    kind = node.schema.get("x-kubernetes-list-type")
    if not isinstance(node.value, list) or kind not in ("set", "map"):
        return False
    keys = node.schema.get("x-kubernetes-list-map-keys") or ()
    shown = [
        [each.get(key) for key in keys] if kind == "map" and isinstance(each, dict) else each for each in node.value
    ]
    return any(each in shown[:place] for place, each in enumerate(shown))


def _new(node: SchemaNode, key: str) -> list[Mapping[str, JSON]]:
    """Return the items of a list in a schema that the schema in force lacks."""
    before = () if node.before is None else node.before.get(key) or ()
    return [each for each in node.schema.get(key) or () if each not in before and isinstance(each, dict)]


def _has_rules(schema: JSON) -> bool:
    if isinstance(schema, dict):
        return bool(schema.get(RULES)) or any(map(_has_rules, schema.values()))
    return isinstance(schema, list) and any(map(_has_rules, schema))

"""The input of an expression by name (apiserver `pkg/admission/plugin/cel/activation.go`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from replay.cel.partial import PartialValue
from replay.cel.typed import TypedList, TypedMap, typed, untyped
from replay.cel.values import Unknown, Value
from replay.cellib.environment import ExpressionKind
from replay.kube.attributes import JSON, Missing, PartialObject

if TYPE_CHECKING:
    from replay.cellib.variables import VariableValues

OBJECTS = ("object", "oldObject")
_UNAUTHORIZED = frozenset({ExpressionKind.MESSAGE_EXPRESSION, ExpressionKind.AUDIT_ANNOTATION})
_TYPED = ("request", "namespaceObject")


class Activation:
    """The bindings of one evaluation, as the strict engine reads them.

    `request` and `namespaceObject` are Go structs on the server; an object of a built-in kind comes as a `TypedMap`, but
    mutations see it as a plain map.
    """

    def __init__(self, bindings: Mapping[str, Value], *, mutation: bool) -> None:
        """`object`, `oldObject` and `namespaceObject` are null where they are absent."""
        self._bindings: dict[str, Value] = {"object": None, "oldObject": None, "namespaceObject": None}
        for name, value in bindings.items():
            self._bindings[name] = _bound(name, value, mutation=mutation)
        self._kind = ExpressionKind.VALIDATION

    def for_kind(self, kind: ExpressionKind, variables: VariableValues) -> Mapping[str, Value]:
        """What expressions of a kind can read: messages and audit annotations have no authorizer."""
        self._kind = kind
        return self.with_variables(variables)

    def with_variables(self, variables: VariableValues) -> Mapping[str, Value]:
        """The same for the variables that such an expression reads."""
        names = {**self._bindings, "variables": variables}
        if self._kind in _UNAUTHORIZED:
            names.pop("authorizer", None)
            names.pop("authorizer.requestResource", None)
        if self._kind is ExpressionKind.MATCH_CONDITION:
            names["namespaceObject"] = None
        return names


def _bound(name: str, value: Value, *, mutation: bool) -> Value:
    if isinstance(value, Missing):
        return Unknown((value,))
    as_typed = name in _TYPED or (isinstance(value, TypedMap | TypedList) and not (mutation and name in OBJECTS))
    value = untyped(value)
    if isinstance(value, PartialObject):
        return partial_value(value.value, as_typed=as_typed)
    return typed(value) if as_typed else value


def partial_value(value: JSON, *, as_typed: bool) -> Value:
    """JSON with `Missing` leaves: containers above a leaf become `PartialValue`s, leaves unknowns."""
    if isinstance(value, Missing):
        return Unknown((value,))
    value = untyped(value)
    if not isinstance(value, dict | list):
        return value
    items = value.items() if isinstance(value, dict) else enumerate(value)
    parts = {key: partial_value(item, as_typed=as_typed) for key, item in items}
    missing = [part for part in parts.values() if isinstance(part, Unknown | PartialValue)]
    if not missing:
        return typed(value) if as_typed else value
    unknown = None
    for part in missing:
        found = part if isinstance(part, Unknown) else part.unknown
        unknown = found if unknown is None else unknown.merge(found)
    assert unknown is not None
    return PartialValue(typed(value) if as_typed else value, parts, unknown)

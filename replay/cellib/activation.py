"""The input of an expression by name (apiserver `pkg/admission/plugin/cel/activation.go`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from replay.cel.program import Program, Result
from replay.cel.value.partial import PartialValue
from replay.cel.value.typed import TypedList, TypedMap, typed, untyped
from replay.cel.value.values import Unknown, UnknownParts, Value
from replay.cellib.environment import ExpressionKind
from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject

if TYPE_CHECKING:
    from replay.cellib.variables import VariableValues

_TYPED = ("request", "namespaceObject")


class Activation:
    """The bindings of one request, for any number of evaluations: as compiled code reads them, and for the strict engine.

    `object`, `oldObject` and `namespaceObject` are null where they are absent. What is missing, in whole or in part, is not
    there for compiled code.
    """

    __slots__ = ("_bindings", "_plain", "_scope")

    def __init__(self, bindings: Mapping[str, Value]) -> None:
        """The bindings are not copied and must not change."""
        self._bindings = bindings
        self._plain: dict[str, dict[str, Value]] = {}
        self._scope: Scope | None = None

    @property
    def bindings(self) -> Mapping[str, Value]:
        """The bindings as they were given."""
        return self._bindings

    def plain(self, kind: ExpressionKind) -> Mapping[str, Value]:
        """The names that compiled code of a kind reads, with plain JSON."""
        group = _GROUPS.get(kind, "")
        plain = self._plain.get(group)
        if plain is None and group and "" in self._plain:
            plain = self._plain[group] = self._plain[""].copy()
            _restrict(plain, group)
        if plain is None:
            plain = self._plain[group] = {"object": None, "oldObject": None, "namespaceObject": None, **self._bindings}
            for name, value in self._bindings.items():
                kind_of_value = type(value)
                if kind_of_value is TypedMap or kind_of_value is TypedList:
                    plain[name] = value = value.value  # noqa: PLW2901 - the same value, unwrapped
                    kind_of_value = type(value)
                if kind_of_value is Missing or kind_of_value is PartialObject:
                    del plain[name]
            _restrict(plain, group)
        return plain

    def scope(self) -> Scope:
        """The names for the strict engine."""
        if self._scope is None:
            self._scope = Scope(self._bindings)
        return self._scope


_UNAUTHORIZED = "unauthorized"
_MATCHING = "matching"
_GROUPS = {
    ExpressionKind.MESSAGE_EXPRESSION: _UNAUTHORIZED,
    ExpressionKind.AUDIT_ANNOTATION: _UNAUTHORIZED,
    ExpressionKind.MATCH_CONDITION: _MATCHING,
}
"""Kinds that do not see all: messages and audit annotations have no authorizer, match conditions no namespace."""


def _restrict(names: dict[str, Value], group: str) -> None:
    if group == _UNAUTHORIZED:
        names.pop("authorizer", None)
        names.pop("authorizer.requestResource", None)
    if group == _MATCHING:
        names["namespaceObject"] = None


class Scope:
    """The bindings as the strict engine reads them: views of typed objects, unknowns for what is missing."""

    __slots__ = ("_group", "_names", "_results")

    def __init__(self, bindings: Mapping[str, Value]) -> None:
        """`request` and `namespaceObject` are Go structs on the server; an object of a built-in kind is a `TypedMap`."""
        self._names: dict[str, Value] = {"object": None, "oldObject": None, "namespaceObject": None}
        for name, value in bindings.items():
            self._names[name] = _bound(name, value)
        self._group = ""
        self._results: dict[tuple[str, int, int], Result] = {}

    def use_kind(self, kind: ExpressionKind) -> None:
        """The expressions to come, and the variables that they read, are of a kind."""
        self._group = _GROUPS.get(kind, "")

    def eval(self, program: Program, variables: VariableValues) -> Result:
        """Evaluate a program for the kind at hand; the same program gives the same result, so it runs once."""
        # The program and the variables are kept alive by whoever evaluates, longer than this.
        key = (self._group, id(program), id(variables))
        result = self._results.get(key)
        if result is None:
            result = self._results[key] = program.eval(self.with_variables(variables))
        return result

    def with_variables(self, variables: VariableValues) -> Mapping[str, Value]:
        """The same for the variables that such an expression reads."""
        names = {**self._names, "variables": variables}
        _restrict(names, self._group)
        return names


def _bound(name: str, value: Value) -> Value:
    if isinstance(value, Missing):
        return Unknown((value,))
    as_typed = name in _TYPED or isinstance(value, TypedMap | TypedList)
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
    return PartialValue(typed(value) if as_typed else value, parts, UnknownParts(unknown.missing))

"""The input of an expression by name (apiserver `pkg/admission/plugin/cel/activation.go`)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING

from msgspec import Struct, field

from replay.cel.program import EvalResult, Program
from replay.cel.value.partial import PartialValue
from replay.cel.value.values import TypedList, TypedMap, Unknown, UnknownParts, Value, typed, untyped
from replay.cellib.environment import ExpressionKind
from replay.cellib.version import KubernetesVersion
from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject
from replay.kube.default import WRITTEN_UNTIL, with_creation_timestamps

if TYPE_CHECKING:
    from replay.cellib.variables import VariableValues

_TYPED = ("request", "namespaceObject")


TYPED_SINCE = 37
"""First minor version that reads built-in kinds, `request`, `namespaceObject` and params as Go values.

See `SchemalessTypedToVal`.
"""


class Views(Enum):
    """Representation of the objects that expressions read, in the server.

    TYPED objects are Go values. They differ from maps in the keys that they accept. Before `TYPED_SINCE` all objects
    are PLAIN, which means converted to maps (`convertObjectToUnstructured`). They are TIMED if the conversion also
    writes times that are zero.
    """

    TIMED = "timed"
    PLAIN = "plain"
    TYPED = "typed"

    @classmethod
    def for_server(cls, server: KubernetesVersion) -> Views:
        """Return the representation of a server."""
        if server.minor >= TYPED_SINCE:
            return cls.TYPED
        return cls.PLAIN if server.minor > WRITTEN_UNTIL else cls.TIMED

    @property
    def is_plain(self) -> bool:
        """Whether all objects are maps."""
        return self in _PLAIN_VIEWS


_PLAIN_VIEWS = frozenset({Views.TIMED, Views.PLAIN})


class Activation(Struct, eq=False):
    """The bindings of one request, for any number of evaluations by compiled code and by the strict engine.

    `object`, `oldObject` and `namespaceObject` are null if they are absent. Compiled code does not see bindings that
    are missing in whole or in part. `bindings` are not copied and must not change.
    """

    bindings: Mapping[str, Value]
    _plain: dict[str, dict[str, Value]] = field(default_factory=dict)
    _scopes: dict[Views, Scope] = field(default_factory=dict)

    def plain(self, kind: ExpressionKind, views: Views) -> Mapping[str, Value]:
        """Return the names that compiled code of a kind reads, as plain JSON.

        An activation serves one server version.
        """
        group = _GROUPS.get(kind, "")
        plain = self._plain.get(group)
        # The names of most expressions exist already, so a group with fewer names starts from a copy.
        if plain is None and group and "" in self._plain:
            plain = self._plain[group] = self._plain[""].copy()
            _restrict(plain, group)
        if plain is None:
            plain = self._plain[group] = {"object": None, "oldObject": None, "namespaceObject": None, **self.bindings}
            for name, value in self.bindings.items():
                kind_of_value = type(value)
                if kind_of_value is TypedMap or kind_of_value is TypedList:
                    value = value.value  # noqa: PLW2901 - the same value, unwrapped
                    kind_of_value = type(value)
                    plain[name] = with_creation_timestamps(value) if views is Views.TIMED else value
                elif name == "namespaceObject" and views is Views.TIMED:
                    plain[name] = with_creation_timestamps(value)
                if kind_of_value is Missing or kind_of_value is PartialObject:
                    del plain[name]
            if group:
                _restrict(plain, group)
        return plain

    def scope(self, views: Views) -> Scope:
        """Return the names for the strict engine."""
        scope = self._scopes.get(views)
        if scope is None:
            scope = self._scopes[views] = Scope(self.bindings, views)
        return scope


_UNAUTHORIZED = "unauthorized"
_MATCHING = "matching"
_GROUPS = {
    ExpressionKind.MESSAGE_EXPRESSION: _UNAUTHORIZED,
    ExpressionKind.AUDIT_ANNOTATION: _UNAUTHORIZED,
    ExpressionKind.MATCH_CONDITION: _MATCHING,
}
"""Kinds of expressions with fewer names.

Messages and audit annotations have no authorizer, and match conditions have no namespace.
"""


def _restrict(names: dict[str, Value], group: str) -> None:
    if group == _UNAUTHORIZED:
        names.pop("authorizer", None)
        names.pop("authorizer.requestResource", None)
    # The server evaluates match conditions without a namespace (`matchconditions.matcher.Match`).
    if group == _MATCHING:
        names["namespaceObject"] = None


class Scope:
    """Bindings for the strict engine: views of typed objects, unknowns for missing values."""

    __slots__ = ("_group", "_names", "_results")

    def __init__(self, bindings: Mapping[str, Value], views: Views) -> None:
        """`request` and `namespaceObject` are Go structs in the server. An object of a built-in kind is a `TypedMap`."""
        self._names: dict[str, Value] = {"object": None, "oldObject": None, "namespaceObject": None}
        for name, value in bindings.items():
            self._names[name] = _bound(name, value, views)
        self._group = ""
        self._results: dict[tuple[str, int, int], EvalResult] = {}

    def use_kind(self, kind: ExpressionKind) -> None:
        """Set the kind of the following expressions and of the variables that they read."""
        self._group = _GROUPS.get(kind, "")

    def eval(self, program: Program, variables: VariableValues) -> EvalResult:
        """Evaluate a program for the current kind. The same program gives the same result, so it runs once."""
        # The program and the variables are kept alive by whoever evaluates, longer than this.
        key = (self._group, id(program), id(variables))
        result = self._results.get(key)
        if result is None:
            result = self._results[key] = program.eval(self.with_variables(variables))
        return result

    def with_variables(self, variables: VariableValues) -> Mapping[str, Value]:
        """Return the names for an expression of the current kind, with these variables."""
        names = {**self._names, "variables": variables}
        _restrict(names, self._group)
        return names


_NOT_NULL = frozenset({"object", "oldObject"})
"""Bindings that the API may set to null. If such a binding is unknown, it is not null."""


def _bound(name: str, value: Value, views: Views) -> Value:
    if isinstance(value, Missing):
        return UnknownParts((value,)) if name in _NOT_NULL else Unknown((value,))
    is_struct = name in _TYPED or isinstance(value, TypedMap | TypedList)
    as_typed = is_struct and not views.is_plain
    if is_struct and name != "request":
        value = _with_creation_timestamp(untyped(value), views)
    value = untyped(value)
    if isinstance(value, PartialObject):
        return partial_value(value.value, as_typed=as_typed)
    return typed(value) if as_typed else value


def _with_creation_timestamp(value: Value, views: Views) -> Value:
    """Return an object of a built-in kind in the server's representation."""
    return with_creation_timestamps(value) if views is Views.TIMED else value


def partial_value(value: JSON, *, as_typed: bool) -> Value:
    """Return JSON with `Missing` leaves as a CEL value.

    Leaves become unknowns, and containers above them become `PartialValue`s.
    """
    if isinstance(value, Missing):
        return Unknown((value,))
    value = untyped(value)
    if not isinstance(value, dict | list):
        return value
    items = value.items() if isinstance(value, dict) else enumerate(value)
    parts = {key: partial_value(item, as_typed=as_typed) for key, item in items}
    missing = [part for part in parts.values() if isinstance(part, Unknown)]
    if not missing:
        return typed(value) if as_typed else value
    unknown = None
    for part in missing:
        unknown = part if unknown is None else unknown.merge(part)
    assert unknown is not None
    return PartialValue(unknown.missing, typed(value) if as_typed else value, parts)

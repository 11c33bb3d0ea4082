"""Optional values (cel-go `cel/library.go`, `OptionalTypes`). The evaluator implements `or`, `orValue` and `.?`."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from replay.cel.ast import operator
from replay.cel.ast.factory import ExprFactory
from replay.cel.ast.tree import Expr
from replay.cel.declare.library import Function, Library, Overload, overloaded
from replay.cel.declare.macros import Expander, Macro, let, receiver, simple_name
from replay.cel.release import Release
from replay.cel.value.conversion import to_type
from replay.cel.value.equality import elements
from replay.cel.value.text import display
from replay.cel.value.timestamp import MIN_UNIX, Duration, Timestamp
from replay.cel.value.types import (
    BOOL,
    DYN,
    INT,
    STRING,
    list_type,
    map_type,
    opaque_type,
    optional_type,
    type_param,
)
from replay.cel.value.values import OPTIONAL_NONE, EvalError, ObjectValue, OpaqueValue, OptionalValue, TypeValue, Value
from replay.cellib.version import KubernetesVersion

_K, _V = type_param("K"), type_param("V")
_LIST, _MAP, _OPTIONAL = list_type(_V), map_type(_K, _V), optional_type(_V)


def is_zero(value: Value) -> bool:
    """Return whether a value is the zero value of its type (cel-go `traits.Zeroer`).

    Types without a zero value are never zero: optionals, opaque types, and lists and objects of built-in kinds.
    """
    if isinstance(value, Timestamp):
        # The zero value of Go's `time.Time` is the first instant of the year 1.
        return (value.seconds, value.nanos) == (MIN_UNIX, 0)
    if isinstance(value, Duration):
        return value.nanos == 0
    if isinstance(value, ObjectValue):
        return not value.fields
    if isinstance(value, OpaqueValue):
        return bool(getattr(value, "is_zero", False))
    if isinstance(value, list | tuple | dict):
        return len(value) == 0
    return value is None or (isinstance(value, bool | int | float | str | bytes) and not value)


def _optional_of_non_zero(value: Value) -> Value:
    return OPTIONAL_NONE if is_zero(value) else OptionalValue(value)


def _first_item(value: Value) -> Value:
    return OptionalValue(value[0]) if len(value) else OPTIONAL_NONE


def _last(value: Value) -> Value:
    return OptionalValue(value[len(value) - 1]) if len(value) else OPTIONAL_NONE


def _unwrap(value: Value) -> Value:
    unwrapped = []
    for element in elements(value):
        if not isinstance(element, OptionalValue):
            raise EvalError(f"value {display(element)} is not optional")
        if element.has_value:
            unwrapped.append(element.value)
    return unwrapped


def _optional_map(function: str, wrap: bool) -> Expander:
    def expand(factory: ExprFactory, target: Expr | None, args: tuple[Expr, ...]) -> Expr:
        name = simple_name(args[0], f"{function}() variable name must be a simple identifier")
        present = factory.member_call("hasValue", receiver(target))
        nothing = factory.list()
        # Until cel-go 0.20 both calls have the very same receiver, with the same ids.
        again = receiver(target)
        value = factory.member_call("value", factory.copy(again) if factory.release >= Release.V0_22 else again)
        mapped = let(factory, nothing, name, value, args[1])
        if wrap:
            mapped = factory.call("optional.of", mapped)
        return factory.call(operator.CONDITIONAL, present, mapped, factory.call("optional.none"))

    return expand


OPTIONAL_MACROS: Final = (
    Macro("optMap", (2,), _optional_map("optMap", wrap=True)),
    Macro("optFlatMap", (2,), _optional_map("optFlatMap", wrap=False)),
)

OPTIONALS = Library(
    name="cel.lib.optional",
    functions=(
        overloaded("optional.of", ("optional_of", (_V,), _OPTIONAL, OptionalValue)),
        overloaded("optional.ofNonZeroValue", ("optional_ofNonZeroValue", (_V,), _OPTIONAL, _optional_of_non_zero)),
        overloaded("optional.none", ("optional_none", (), _OPTIONAL, lambda: OPTIONAL_NONE)),
        overloaded("value", ("optional_value", (_OPTIONAL,), _V, lambda optional: optional.get()), member=True),
        overloaded(
            "hasValue", ("optional_hasValue", (_OPTIONAL,), BOOL, lambda optional: optional.has_value), member=True
        ),
        Function("or", (Overload("optional_or_optional", (_OPTIONAL, _OPTIONAL), _OPTIONAL, member=True),)),
        Function("orValue", (Overload("optional_orValue_value", (_OPTIONAL, _V), _V, member=True),)),
        Function(operator.OPT_SELECT, (Overload("select_optional_field", (DYN, STRING), _OPTIONAL),)),
        Function(
            operator.OPT_INDEX,
            (
                Overload("list_optindex_optional_int", (_LIST, INT), _OPTIONAL),
                Overload("optional_list_optindex_optional_int", (optional_type(_LIST), INT), _OPTIONAL),
                Overload("map_optindex_optional_value", (_MAP, _K), _OPTIONAL),
                Overload("optional_map_optindex_optional_value", (optional_type(_MAP), _K), _OPTIONAL),
            ),
        ),
        Function(
            operator.INDEX,
            (
                Overload("optional_list_index_int", (optional_type(_LIST), INT), _OPTIONAL),
                Overload("optional_map_index_value", (optional_type(_MAP), _K), _OPTIONAL),
            ),
        ),
        overloaded("last", ("list_last", (_LIST,), _OPTIONAL, _last), member=True),
        overloaded("first", ("list_first", (_LIST,), _OPTIONAL, _first_item), member=True),
        overloaded("optional.unwrap", ("optional_unwrap", (list_type(_OPTIONAL),), _LIST, _unwrap)),
        overloaded("unwrapOpt", ("optional_unwrapOpt", (list_type(_OPTIONAL),), _LIST, _unwrap), member=True),
    ),
    types=(optional_type(DYN),),
    macros=OPTIONAL_MACROS,
    optional_syntax=True,
)
"""Optional types and their functions."""

_SECOND = frozenset({"first", "last", "optional.unwrap", "unwrapOpt"})
"""Functions that version 2 of the library added."""

_FIRST_VERSION = replace(
    OPTIONALS, functions=tuple(function for function in OPTIONALS.functions if function.name not in _SECOND)
)


def _type_of(value: Value) -> TypeValue:
    return TypeValue("optional") if isinstance(value, OptionalValue) else to_type(value)


def optionals(server: KubernetesVersion) -> Library:
    """Return the library of a server's cel-go. The server asks for no version, so it gets the newest."""
    release = server.cel_go
    if release >= Release.V0_29:
        return OPTIONALS
    library = replace(
        OPTIONALS if release >= Release.V0_23 else _FIRST_VERSION,
        types=(opaque_type("optional_type"),) if release >= Release.V0_20 else (),
    )
    if release >= Release.V0_20:
        return library
    return replace(library, functions=(*library.functions, Function("type", (), singleton=_type_of)))

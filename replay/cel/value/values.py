"""CEL values as Python values.

Plain JSON is used as it was decoded, never wrapped:

| CEL | Python |
| --- | --- |
| null, bool, string, bytes | `None`, `bool`, `str` (code points), `bytes` |
| int | `int` (exactly that type; a bool is never an int; always within int64) |
| uint | `Uint`, a subclass of int |
| double | `float` |
| list, map | `list` (or tuple), `dict` |
| timestamp, duration | `Timestamp`, `Duration` |
| type | `TypeValue` |
| optional | `OptionalValue` |
| opaque types (quantity, ip, ...) and objects | subclasses of `OpaqueValue`, `ObjectValue` |
| unknown | `Unknown`, never inside a list or map |

An evaluation that fails raises `EvalError`. Errors are values only where `&&`, `||` and folds absorb them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from replay.cel.value.types import Type

Value = Any
"""A value in any of the representations in the table above."""


class Uint(int):
    """An unsigned 64-bit integer.

    As a subclass it is told apart from int, but it hashes like the same int.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        """Return the value as CEL source."""
        return f"{int(self)}u"


class OpaqueValue:
    """Base class of values of an abstract type: each has its type, its equality and further members of its own."""

    __slots__ = ()
    cel_type: Type
    native_go_type = ""
    """The Go type of the wrapped value. It is empty if `Value` returns the value itself."""

    def equal(self, other: Value) -> Value:
        """Return CEL `==` with any other value: True or False, or raise an `EvalError` (`no such overload`)."""
        raise NotImplementedError


class EvalError(Exception):
    """Failed evaluation. `message` is the text that the API server would report.

    Raised by implementations of functions and by the engines. `&&`, `||` and comprehensions absorb it, `Program.eval`
    catches it.
    """

    def __init__(self, message: str) -> None:
        """Keep the text apart from `args`, so that it stays typed."""
        super().__init__(message)
        self.message = message


class CostLimitExceeded(Exception):  # noqa: N818 - named after the event, as in cel-go
    """Cancelled evaluation. Nothing absorbs this error.

    `str()` is the text that the API server reports for the expression.
    """

    def __init__(self) -> None:
        """The text is the same for every expression."""
        super().__init__("operation cancelled: actual cost limit exceeded")


class PanicError(Exception):
    """A crash of the server's code, which the server turns into the error `internal error: ...`. Nothing absorbs it."""


class Unknown(Struct, frozen=True):
    """A result that depends on missing parts of the input. `missing` names them without duplicates.

    The elements of `missing` are opaque here (`replay.kube.attributes.Missing` in admission).
    """

    missing: tuple[Hashable, ...]

    def merge(self, other: Unknown | None) -> Unknown:
        """Return both sets as one, in the order of occurrence (cel-go `types.MergeUnknowns`)."""
        if other is None or other == self:
            return self
        return Unknown(tuple(dict.fromkeys((*self.missing, *other.missing))))


class UnknownParts(Unknown, frozen=True):
    """A map or list with unknown parts, which is certainly not null."""


class TypeValue(Struct, frozen=True):
    """A type as a value. Only the name counts at run time (`types.Type.Equal`)."""

    name: str


class OptionalValue(Struct, frozen=True):
    """`optional.of(value)`, or `optional.none()` if `has_value` is false."""

    value: Value = None
    has_value: bool = True

    def get(self) -> Value:
        """Return the value inside. Raises `EvalError` if there is none."""
        if not self.has_value:
            raise EvalError("optional.none() dereference")
        return self.value


OPTIONAL_NONE = OptionalValue(None, has_value=False)


class ObjectValue(Struct, frozen=True, eq=False):
    """A message built by `TypeName{field: value}`, with only the fields that were set.

    A library whose messages are read, compared or converted differently builds them from a subclass.
    """

    type_name: str
    fields: Mapping[str, Value]

    def field(self, name: Value) -> Value:
        """Return a field that the checker knows, as it is read back, or null if it is not set."""
        return self.fields.get(name)

    def part(self, key: Value, *, testing: bool) -> tuple[Value, bool]:  # noqa: ARG002
        """Return `(part, present)` for a key known only at run time. `testing` asks only whether it is present."""
        return None, False

    def equal_by(self, other: ObjectValue, equal: Callable[[Value, Value], Value]) -> Value:
        """Return whether a message of the same type is equal: the same fields, of the same types and with equal values."""
        return len(self.fields) == len(other.fields) and all(
            name in other.fields
            and type(value) is type(other.fields[name])
            and equal(value, other.fields[name]) is True
            for name, value in self.fields.items()
        )


class MessageValue(OpaqueValue):
    """A protobuf message without fields, which stands only for itself (cel-go `protoObj`)."""

    __slots__ = ("cel_type",)
    traits = frozenset({"field tester", "indexer"})
    go_type = "*types.protoObj"
    is_zero = True

    def __init__(self, cel_type: Type) -> None:
        """Make the message of a type."""
        self.cel_type = cel_type

    def equal(self, other: Value) -> bool:
        """Return whether the other value is a message of the same type."""
        return isinstance(other, MessageValue) and other.cel_type == self.cel_type

    def field(self, key: Value) -> EvalError:
        """Return the error for a field that it does not have."""
        if not isinstance(key, str):
            return EvalError("no such overload")
        return EvalError(f"no such field '{key}'")


class MapKey:
    """A `dict` key that Python would confuse with another one: bool, uint, double or bytes next to int and str.

    Strings and ints are keys as they are, so that decoded JSON is a CEL map. All other keys are wrapped. `plain_key`
    unwraps them.
    """

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        """Wrap a key that is neither exactly `str` nor exactly `int`."""
        self.value = value

    def __eq__(self, other: object) -> bool:
        """Compare values of the same Python type. A value without a hash is equal only to itself."""
        if not isinstance(other, MapKey) or type(self.value) is not type(other.value):
            return False
        return self.value is other.value or (_is_hashable(self.value) and bool(self.value == other.value))

    def __hash__(self) -> int:
        """Return a hash that differs from that of an int of the same value."""
        value = self.value
        return hash((type(value).__name__, value if _is_hashable(value) else id(value)))

    def __repr__(self) -> str:
        """Show the key."""
        return f"MapKey({self.value!r})"


def _is_hashable(value: Value) -> bool:
    return not isinstance(value, list | dict) and type(value).__hash__ is not None


def map_key(value: Value) -> Value:
    """Return a CEL value as a key of a `dict`."""
    kind = type(value)
    return value if kind is str or kind is int else MapKey(value)


def plain_key(key: Value) -> Value:
    """Return the CEL value of a `dict` key."""
    return key.value if type(key) is MapKey else key


# Objects of built-in kinds: the API server shows them to CEL by reflection over Go structs, not as plain maps.
# The content is the same as in JSON, but some operations differ (apiserver `pkg/cel/common/valuesschemalesstyped.go`): comparing a
# list or map with anything else is `no such overload` instead of false, only an int indexes a list, and only strings are keys.
# `TypedMap` and `TypedList` are views of decoded JSON that keep these differences. Their children are wrapped when they are read.


class TypedMap:
    """A view of a struct or Go map of a built-in kind, over its decoded JSON."""

    __slots__ = ("value",)

    def __init__(self, value: dict[str, Any]) -> None:
        """Wrap the value without copying it."""
        self.value = value

    def __len__(self) -> int:
        """Return the number of fields that are set."""
        return len(self.value)


class TypedList:
    """A view of a Go slice of a built-in kind, over its decoded JSON."""

    __slots__ = ("value",)

    def __init__(self, value: list[Any]) -> None:
        """Wrap the value without copying it."""
        self.value = value

    def __len__(self) -> int:
        """Return the number of elements."""
        return len(self.value)

    def __getitem__(self, index: int) -> Any:
        """Return an element, wrapped."""
        return typed(self.value[index])

    def __iter__(self) -> Iterator[Any]:
        """Return the elements, wrapped."""
        return map(typed, self.value)


def typed(value: Any) -> Any:
    """Return a decoded JSON value as it appears inside an object of a built-in kind."""
    kind = type(value)
    if kind is dict:
        return TypedMap(value)
    return TypedList(value) if kind is list else value


def untyped(value: Any) -> Any:
    """Return the decoded JSON value behind a view. Anything else is returned unchanged."""
    return value.value if type(value) is TypedMap or type(value) is TypedList else value

"""The types of CEL (cel-go `common/types`): a kind, a name and parameters."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class Kind(Enum):
    """Kind of a type. Types are equal if their kinds, names and parameters are."""

    ANY = "any"
    BOOL = "bool"
    BYTES = "bytes"
    DOUBLE = "double"
    DURATION = "google.protobuf.Duration"
    DYN = "dyn"
    ERROR = "*error*"
    INT = "int"
    LIST = "list"
    MAP = "map"
    NULL = "null_type"
    OPAQUE = "opaque"
    STRING = "string"
    STRUCT = "struct"
    TIMESTAMP = "google.protobuf.Timestamp"
    TYPE = "type"
    TYPE_PARAM = "type_param"
    UINT = "uint"
    UNKNOWN = "*unknown*"
    WRAPPER = "wrapper"


@dataclass(frozen=True, slots=True)
class Type:
    """A type. `parameters` are element, key and value, or those of an opaque type such as `optional_type(int)`.

    `parametric` tells whether a type parameter occurs anywhere in it.
    """

    kind: Kind
    name: str
    parameters: tuple[Type, ...] = ()
    parametric: bool = field(init=False, repr=False, compare=False)
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Compute once what the checker asks for again and again."""
        parametric = self.kind is Kind.TYPE_PARAM or any(parameter.parametric for parameter in self.parameters)
        object.__setattr__(self, "parametric", parametric)
        object.__setattr__(self, "_hash", hash((self.kind.value, self.name, self.parameters)))

    def __hash__(self) -> int:
        """Return the hash of kind, name and parameters."""
        return self._hash

    def __reduce__(self) -> tuple[type[Type], tuple[Kind, str, tuple[Type, ...]]]:
        """Pickle without the hash: hashes of text differ between processes."""
        return Type, (self.kind, self.name, self.parameters)

    def __str__(self) -> str:
        """Return the name of a finished expression's type, as the server prints it (`common/types`, `Type.String`)."""
        if self.kind is Kind.TYPE_PARAM:
            return f"<{self.name}>"
        if not self.parameters:
            return self.name
        return f"{self.name}({', '.join(map(str, self.parameters))})"

    @property
    def display(self) -> str:
        """The name of the type in the checker's messages (`checker.FormatCELType`)."""
        if self.kind in _DISPLAY:
            return _DISPLAY[self.kind]
        if not self.parameters:
            return self.name
        return f"{self.name}({', '.join([parameter.display for parameter in self.parameters])})"


_DISPLAY = {
    Kind.ANY: "any",
    Kind.DURATION: "duration",
    Kind.ERROR: "!error!",
    Kind.NULL: "null",
    Kind.TIMESTAMP: "timestamp",
}


ANY = Type(Kind.ANY, "google.protobuf.Any")
BOOL = Type(Kind.BOOL, "bool")
BYTES = Type(Kind.BYTES, "bytes")
DOUBLE = Type(Kind.DOUBLE, "double")
DURATION = Type(Kind.DURATION, "google.protobuf.Duration")
DYN = Type(Kind.DYN, "dyn")
ERROR = Type(Kind.ERROR, "*error*")
INT = Type(Kind.INT, "int")
NULL = Type(Kind.NULL, "null_type")
STRING = Type(Kind.STRING, "string")
TIMESTAMP = Type(Kind.TIMESTAMP, "google.protobuf.Timestamp")
TYPE = Type(Kind.TYPE, "type")
UINT = Type(Kind.UINT, "uint")
UNSPECIFIED = Type(Kind.UNKNOWN, "")
"""The type of a value that has no type in cel-go. It has no name and equals nothing, not even itself."""


def list_type(element: Type) -> Type:
    """Return `list(element)`."""
    return Type(Kind.LIST, "list", (element,))


def map_type(key: Type, value: Type) -> Type:
    """Return `map(key, value)`."""
    return Type(Kind.MAP, "map", (key, value))


def optional_type(parameter: Type) -> Type:
    """Return `optional_type(parameter)`."""
    return Type(Kind.OPAQUE, "optional_type", (parameter,))


def type_type(parameter: Type) -> Type:
    """Return `type(parameter)`, the type of a type."""
    return Type(Kind.TYPE, "type", (parameter,))


def type_param(name: str) -> Type:
    """Return a type parameter of a declaration, such as `T`."""
    return Type(Kind.TYPE_PARAM, name)


def opaque_type(name: str, *parameters: Type) -> Type:
    """Return an abstract type such as `kubernetes.Quantity`."""
    return Type(Kind.OPAQUE, name, parameters)


def struct_type(name: str) -> Type:
    """Return a message type with declared fields, such as `kubernetes.AdmissionRequest`."""
    return Type(Kind.STRUCT, name)


def wrapper_type(wrapped: Type) -> Type:
    """Return `wrapper(wrapped)`: a primitive or null, such as the type of `google.protobuf.Int64Value`."""
    return Type(Kind.WRAPPER, "wrapper", (wrapped,))

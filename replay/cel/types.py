"""The types of CEL (`common/types` of cel-go): a kind, a name, parameters."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """What a type is; equality of types is that of kind, name and parameters."""

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
    """A type; `parameters` are element, key and value, or those of an opaque type such as `optional_type(int)`."""

    kind: Kind
    name: str
    parameters: tuple[Type, ...] = ()


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


def list_type(element: Type) -> Type:
    """`list(element)`."""
    return Type(Kind.LIST, "list", (element,))


def map_type(key: Type, value: Type) -> Type:
    """`map(key, value)`."""
    return Type(Kind.MAP, "map", (key, value))


def optional_type(parameter: Type) -> Type:
    """`optional_type(parameter)`."""
    return Type(Kind.OPAQUE, "optional_type", (parameter,))


def type_type(parameter: Type) -> Type:
    """`type(parameter)`, the type of a type."""
    return Type(Kind.TYPE, "type", (parameter,))


def type_param(name: str) -> Type:
    """A type parameter of a declaration, such as `T`."""
    return Type(Kind.TYPE_PARAM, name)


def opaque_type(name: str, *parameters: Type) -> Type:
    """An abstract type such as `kubernetes.Quantity`."""
    return Type(Kind.OPAQUE, name, parameters)


def struct_type(name: str) -> Type:
    """A message type with declared fields, such as `kubernetes.AdmissionRequest`."""
    return Type(Kind.STRUCT, name)

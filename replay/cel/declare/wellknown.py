"""Well-known protobuf messages, which CEL knows by name: their values and fields.

A registry of cel-go always has them (`common/types/provider.go`, `common/types/types.go`), so Kubernetes accepts them
too.
"""

from __future__ import annotations

from typing import Final

from replay.cel.declare.library import Library, Messages, VariableDecl
from replay.cel.value.types import (
    ANY,
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    Kind,
    Type,
    list_type,
    map_type,
    struct_type,
    wrapper_type,
)
from replay.cel.value.wellknown_value import new_well_known

_PREFIX = "google.protobuf."
_WRAPPED = {
    "BoolValue": BOOL,
    "BytesValue": BYTES,
    "DoubleValue": DOUBLE,
    "FloatValue": DOUBLE,
    "Int64Value": INT,
    "Int32Value": INT,
    "UInt64Value": UINT,
    "UInt32Value": UINT,
    "StringValue": STRING,
}

WELL_KNOWN_TYPES: Final[dict[str, Type]] = {
    **{_PREFIX + name: wrapper_type(wrapped) for name, wrapped in _WRAPPED.items()},
    _PREFIX + "Any": ANY,
    _PREFIX + "Duration": DURATION,
    _PREFIX + "Timestamp": TIMESTAMP,
    _PREFIX + "ListValue": list_type(DYN),
    _PREFIX + "Struct": map_type(STRING, DYN),
    _PREFIX + "Value": DYN,
}
"""Type of the value of a well-known message."""

WELL_KNOWN_MESSAGES: Final[dict[Kind, str]] = {
    Kind.ANY: _PREFIX + "Any",
    Kind.DURATION: _PREFIX + "Duration",
    Kind.DYN: _PREFIX + "Value",
    Kind.LIST: _PREFIX + "ListValue",
    Kind.NULL: _PREFIX + "NullValue",
    Kind.TIMESTAMP: _PREFIX + "Timestamp",
}
"""The message whose fields a value of a well-known type is made with."""

EMPTY: Final = struct_type(_PREFIX + "Empty")
"""The only message that is a value itself, and a type with a name."""

_TIME = {"seconds": INT, "nanos": INT}

WELL_KNOWN_BUILDER: Final = Messages(
    is_built=lambda type_name: type_name.startswith(_PREFIX),
    new=new_well_known,
    reads_fields=lambda _: False,
)
"""How they are built; they yield to those of other libraries."""

WELL_KNOWN_LIBRARY: Final = Library(
    "wellknown",
    types=(EMPTY,),
    variables=(VariableDecl(_PREFIX + "NullValue.NULL_VALUE", INT, value=0, is_constant=True),),
    struct_fields={
        **{_PREFIX + name: {"value": wrapped} for name, wrapped in _WRAPPED.items()},
        _PREFIX + "Any": {"type_url": STRING, "value": BYTES},
        _PREFIX + "Duration": _TIME,
        _PREFIX + "Timestamp": _TIME,
        _PREFIX + "ListValue": {"values": list_type(DYN)},
        _PREFIX + "Struct": {"fields": map_type(STRING, DYN)},
        _PREFIX + "Value": {
            "null_value": INT,
            "number_value": DOUBLE,
            "string_value": STRING,
            "bool_value": BOOL,
            "struct_value": map_type(STRING, DYN),
            "list_value": list_type(DYN),
        },
        EMPTY.name: {},
    },
)
"""The messages' fields, for their construction, and the one value of the one enumeration."""

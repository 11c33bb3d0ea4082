"""A fast check whether a JSON text decodes into the Go type of its kind. Every body of a log is checked.

A body that does not decode never reaches admission (`k8s.io/apimachinery/pkg/runtime/serializer/json`, 400 BadRequest),
so a server cannot have logged it. Unknown fields and null are not errors there.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

import msgspec

from replay.json import JSON
from replay.kube.go_object import QUANTITY, RAW, TIMES
from replay.kube.gvk import GroupVersionKind, split_api_version
from replay.kube.schema import OBJECT_META, Schema, Schemas

_SCALARS: Mapping[str, Any] = {
    "string": str | None,
    "int-or-string": int | str | None,
    "integer": int | float | None,
    "number": int | float | None,
    "boolean": bool | None,
}
_NAMED: Mapping[str, Any] = {
    **dict.fromkeys(TIMES, str | None),
    **dict.fromkeys(RAW, msgspec.Raw),
    QUANTITY: str | int | float | None,
}


def misfit(text: str, api_version: JSON, kind: JSON) -> str:
    """Return where and why a body does not fit (`spec.containers: expected an array, got str`), empty if it does.

    `api_version` and `kind` are what the body says. For custom kinds, only the metadata has a type.
    """
    is_named = isinstance(api_version, str) and isinstance(kind, str)
    try:
        (_decoder(api_version, kind) if is_named else _untyped()).decode(text)
    except msgspec.ValidationError as error:
        wrong, _, path = str(error).replace(" | null", "").partition(" - at `$")
        place = f"`{path.rstrip('`').lstrip('.')}`" if path.strip("`") else "the body"
        return f"{place}: {wrong[:1].lower()}{wrong[1:]}"
    except msgspec.DecodeError as error:
        return str(error)
    except RecursionError:
        return "it is nested too deep"
    return ""


@lru_cache(maxsize=1024)
def _decoder(api_version: str, kind: str) -> msgspec.json.Decoder[Any]:
    schema = _schemas().for_kind(GroupVersionKind(*split_api_version(api_version), kind))
    return _untyped() if schema is None else msgspec.json.Decoder(_types().type_for(schema))


@cache
def _untyped() -> msgspec.json.Decoder[Any]:
    """Return the decoder of any object, shared by all custom kinds."""
    metadata = _types().type_for(Schema({"$ref": OBJECT_META}, _schemas().types))
    return msgspec.json.Decoder(msgspec.defstruct("Object", [("metadata", metadata, None)], gc=False))


@cache
def _schemas() -> Schemas:
    return Schemas()


@cache
def _types() -> _Types:
    """Return the factory of all kinds' types. Kinds share most types, so each type is made once."""
    return _Types()


class _Types:
    """The types of kinds. A type that several kinds share is made once."""

    def __init__(self) -> None:
        self._structs: dict[str, Any] = {}

    def type_for(self, schema: Schema) -> Any:
        """Return the type that decodes a part of an object. A type that contains itself is not checked any deeper."""
        if schema.name in _NAMED:
            return _NAMED[schema.name]
        if schema.fields:
            return self._struct(schema)
        if schema.type == "array" and schema.items is not None:
            return list[self.type_for(schema.items)] | None  # type: ignore[misc]
        if schema.type == "object" and schema.values is not None:
            return dict[str, self.type_for(schema.values)] | None  # type: ignore[misc]
        return _SCALARS.get("int-or-string" if schema.format == "int-or-string" else schema.type, msgspec.Raw)

    def _struct(self, schema: Schema) -> Any:
        assert schema.name, "built-in types with fields have names"
        if schema.name in self._structs:
            return self._structs[schema.name]
        self._structs[schema.name] = Any
        names = {f"field_{number}": name for number, name in enumerate(schema.fields)}
        fields = [(own, self.type_for(schema.fields[name]), None) for own, name in names.items()]
        struct = msgspec.defstruct(schema.name.rpartition(".")[2], fields, rename=names, gc=False) | None
        self._structs[schema.name] = struct
        return struct

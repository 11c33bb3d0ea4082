"""Conversion of an object through its Go type, as the API server decodes and writes it.

Unknown fields are dropped, omitted empty values are dropped, structs that are always written are added, and quantities
and times get their canonical form. Custom kinds have no Go type, so their objects stay unchanged.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from replay.go.time import RFC3339, RFC3339_MICRO, TimeError, parse_time
from replay.json import JSON
from replay.kube.quantity import FORMAT_WRONG, QuantityError, parse_quantity
from replay.kube.schema import Encoding, Schema

_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
TIMES = {_META + "Time": (RFC3339, 0), _META + "MicroTime": (RFC3339_MICRO, 6)}
"""The layouts that times must have, and the digits of the fraction that the server writes."""
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
RAW = {"io.k8s.apimachinery.pkg.runtime.RawExtension", _META + "FieldsV1"}
_INTEGERS = {"int32": 2**31, "int64": 2**63}
_NOTHING: dict[str, JSON] = {}
_TEXT = Schema({"type": "string"}, {})


class DecodeError(Exception):
    """An object does not fit its Go type. `str()` is the decoder's text."""


def round_trip(
    schema: Schema, value: JSON, old: JSON = None, unknown: list[str] | None = None, *, lenient: bool = False
) -> JSON:
    """Return the object as its Go type writes it. Containers are new wherever it differs in identity from `old`.

    `old` is an object that is known to be so written. Parts of `value` that are identical there are taken as they are.
    `unknown` collects the paths of fields that the type lacks (strict decoding). With `lenient`, numbers are converted
    as in the server's conversion without JSON text. Raise `DecodeError`.
    """
    root = schema.name.rpartition(".")[2]
    return _Decoder(root, lenient, [] if unknown is None else unknown, []).value(schema, value, old)


class _Decoder(Struct):
    """The decoding of one object. `root` is its Go struct. `unknown` collects the paths of fields that the type lacks."""

    _root: str
    _lenient: bool
    _unknown: list[str]
    _place: list[tuple[str | None, str | int]]
    """The path to the current value: (struct, name) for a field, (None, key) for a map entry or list item."""

    def value(self, schema: Schema, value: JSON, old: JSON) -> JSON:
        if value is old and isinstance(value, (dict, list)):
            return value
        if value is None:
            return _zero(schema)
        if schema.fields:
            return self._struct(schema, value, old)
        if schema.type == "array" and schema.items is not None:
            return self._list(schema, schema.items, value, old)
        if schema.type == "object" and schema.values is not None:
            return self._map(schema.values, value, old)
        converted = self._lenient and schema.type == "integer" and type(value) in {int, float}
        return _converted(schema, value) if converted else self._leaf(schema, value)

    def _struct(self, schema: Schema, value: JSON, old: JSON) -> dict[str, JSON]:
        if not isinstance(value, dict):
            raise self._mismatch(value, schema)
        struct = schema.name.rpartition(".")[2]
        old_fields = old if isinstance(old, dict) else _NOTHING
        fields, place = schema.fields, self._place
        written: dict[str, JSON] = {}
        for name, item in value.items():
            field = fields.get(name)
            if field is None:
                self._unknown.append(_path([*place, (struct, name)]))
                continue
            # Go leaves a field with null at its zero value, like a missing one.
            if item is None:
                continue
            # A part that is identical in `old` already has the form of the Go type.
            if item is old_fields.get(name):
                written[name] = item
                continue
            decoded = item
            if type(item) is not str or not field.is_text:
                place.append((struct, name))
                # Identical parts and null were told apart above.
                make = self._struct if field.fields else self.value
                decoded = make(field, item, old_fields.get(name))
                place.pop()
            if decoded or not _is_omitted(field, decoded):
                written[name] = decoded
        for name, field in schema.always_written.items():
            if written.get(name) is None:
                written[name] = None if field.encoding is Encoding.NULL else _zero(field)
        return written

    def _list(self, schema: Schema, items: Schema, value: JSON, old: JSON) -> list[JSON]:
        if not isinstance(value, list):
            raise self._mismatch(value, schema)
        decoded = []
        make = self._struct if items.fields else self.value
        for index, (item, old_item) in enumerate(zip(value, counterparts(value, old), strict=True)):
            if item is old_item and isinstance(item, (dict, list)):
                decoded.append(item)
                continue
            self._place.append((None, index))
            decoded.append(_zero(items) if item is None else make(items, item, old_item))
            self._place.pop()
        return decoded

    def _map(self, values: Schema, value: JSON, old: JSON) -> dict[str, JSON]:
        if not isinstance(value, dict):
            raise self._mismatch(value, values, "map[string]")
        old_entries = old if isinstance(old, dict) else {}
        decoded = {}
        for name, inner in value.items():
            self._place.append((None, name))
            is_settled = type(inner) is str and values.is_text
            decoded[name] = inner if is_settled else self.value(values, inner, old_entries.get(name))
            self._place.pop()
        return decoded

    def _leaf(self, schema: Schema, value: JSON) -> JSON:
        """Return a value without fields or items in the schema, in canonical form."""
        if schema.name in TIMES:
            if not isinstance(value, str):
                raise self._mismatch(value, _TEXT)
            return _time(value, *TIMES[schema.name])
        if schema.name == QUANTITY:
            return _quantity(value)
        if schema.format == "byte":
            if not isinstance(value, str):
                raise self._mismatch(value, schema)
            return _bytes(value)
        fits = _SCALARS.get("int-or-string" if schema.format == "int-or-string" else schema.type)
        if fits is not None and not fits(value, _INTEGERS.get(schema.format, 2**63)):
            raise self._mismatch(value, schema, "int32" if schema.format == "int-or-string" else "")
        return value

    def _mismatch(self, value: JSON, schema: Schema, go_type: str = "") -> DecodeError:
        """Return the error that encoding/json has for a value of another type."""
        json_type = {dict: "object", list: "array", str: "string", bool: "bool"}.get(type(value))
        if json_type is None:  # encoding/json prints the digits only if a field of a number type cannot hold them
            json_type = f"number {value}" if schema.type in ("integer", "number") or go_type else "number"
        target = go_type + go_type_name(schema) if go_type != "int32" else go_type
        fields = [(struct, name) for struct, name in self._place if struct is not None]
        struct = fields[-1][0] if fields else self._root
        field = ".".join(str(name) for _, name in fields)
        return DecodeError(f"json: cannot unmarshal {json_type} into Go struct field {struct}.{field} of type {target}")


def _path(place: list[tuple[str | None, str | int]]) -> str:
    """Return a path with names and indices, such as `spec.containers[0].name`."""
    return "".join(f"[{name}]" if isinstance(name, int) else f".{name}" for _, name in place).removeprefix(".")


def counterparts(items: list[JSON], old: JSON) -> list[JSON]:
    """Return the likely old item of each item: the identical item of `old`, else the one at its position."""
    if not isinstance(old, list):
        return [None] * len(items)
    identities = set(map(id, old))
    likely: list[JSON] = [*old[: len(items)], *[None] * (len(items) - len(old))]
    for index, item in enumerate(items):
        if id(item) in identities:
            likely[index] = item
    return likely


def _is_omitted(field: Schema, value: JSON) -> bool:
    if value is None:
        return True
    return not value and field.encoding is Encoding.OMIT_EMPTY and (value in ("", 0, [], {}) or value is False)


def _zero(schema: Schema) -> JSON:
    """Return what Go writes for the zero value of the type."""
    if schema.name in TIMES or schema.name in RAW:
        return None
    if schema.name == QUANTITY:
        return "0"
    if schema.fields:
        return {
            name: None if field.encoding is Encoding.NULL else _zero(field)
            for name, field in schema.always_written.items()
        }
    if schema.format == "int-or-string":
        return 0
    zeros: dict[str, Any] = {"string": "", "integer": 0, "number": 0, "boolean": False}
    return None if schema.format == "byte" else zeros.get(schema.type)


_SCALARS: dict[str, Callable[[JSON, int], bool]] = {
    "int-or-string": lambda value, _: isinstance(value, int | str) and not isinstance(value, bool),
    "string": lambda value, _: isinstance(value, str),
    "boolean": lambda value, _: isinstance(value, bool),
    "integer": lambda value, limit: type(value) is int and -limit <= value < limit,
    "number": lambda value, _: isinstance(value, int | float) and not isinstance(value, bool),
}
"""The checks of a value against a type. The second argument limits integers."""


def _converted(schema: Schema, value: float) -> int:
    """Return a number as an integer field (apimachinery `runtime.DefaultUnstructuredConverter`).

    It must be whole, and is cut to the field's bits.
    """
    if isinstance(value, float) and not value.is_integer():
        raise DecodeError(f"cannot convert float64 to {schema.format or 'int64'}")
    limit = _INTEGERS.get(schema.format, 2**63)
    return (int(value) + limit) % (2 * limit) - limit


def _bytes(value: str) -> str:
    try:
        return base64.b64encode(base64.b64decode(value.replace("\n", "").replace("\r", ""), validate=True)).decode()
    except binascii.Error:
        raise DecodeError("illegal base64 data at input byte 0") from None


def _quantity(value: JSON) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise DecodeError(FORMAT_WRONG)
    try:
        return str(parse_quantity(str(value).strip()))
    except QuantityError as error:
        raise DecodeError(str(error)) from None


def _time(value: str, layout: str, digits: int) -> str:
    try:
        return parse_time(layout, value).in_utc().rfc3339(digits)
    except TimeError as error:
        raise DecodeError(str(error)) from None


def go_type_name(schema: Schema) -> str:
    """Return the name of a Go type as `%T` prints it: `v1.PodSpec`, `[]v1.Container`, `map[string]string`."""
    if schema.name:
        return ".".join(schema.name.rsplit(".", 2)[1:])
    if schema.format == "byte":
        return "[]uint8"
    if schema.type == "array" and schema.items is not None:
        return f"[]{go_type_name(schema.items)}"
    if schema.type == "object" and schema.values is not None:
        # Every map of quantities in the API is of this type.
        return "v1.ResourceList" if schema.values.name == QUANTITY else f"map[string]{go_type_name(schema.values)}"
    if schema.type == "integer":
        return schema.format or "int64"
    return {"boolean": "bool", "number": "float64"}.get(schema.type, schema.type)

"""Reader of protobuf manifests. The server's deserializer accepts them after `k8s` and a zero byte.

The message becomes nodes by the field numbers of `schema`, and is then decoded like a JSON document. Such manifests are
not used in practice, but a directory with one must give the server's answer.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import UTC, datetime

from replay.json import JSON
from replay.manifests.go_type.schema import Field, Registered, struct
from replay.manifests.read.node import Mapping, Node, Position, node_from_json

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_TYPE_META, _RAW = 1, 2


class ProtobufError(Exception):
    """Bytes that are not a valid message. `str()` resembles the wording of the server's generated decoders."""


def envelope(data: bytes) -> tuple[str, str, bytes]:
    """Return `(apiVersion, kind, message)` of a `runtime.Unknown`, which follows the four bytes. Raises ProtobufError."""
    fields = dict(_fields(data))
    meta = dict(_fields(_as_bytes(fields.get(_TYPE_META, b""))))
    api_version, kind = (_as_bytes(meta.get(number, b"")).decode(errors="replace") for number in (1, 2))
    return api_version, kind, _as_bytes(fields.get(_RAW, b""))


def node_from_message(message: bytes, registered: Registered, position: Position) -> Node:
    """Return the nodes of an object, all at `position`. Raises ProtobufError."""
    value = _struct(message, registered.go_type)
    node = node_from_json(value)
    assert isinstance(node, Mapping)
    return Mapping(position, node.entries)


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the field numbers and values of a message, in order."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        if wire == _BYTES:
            length, at = _varint(data, at)
        elif wire in (_FIXED32, _FIXED64):
            length = 4 if wire == _FIXED32 else 8
        else:
            raise ProtobufError(f"proto: illegal wireType {wire}")
        if at + length > len(data):
            raise ProtobufError("unexpected EOF")
        yield number, data[at : at + length]
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data):
            raise ProtobufError("unexpected EOF")
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
        if shift >= 64:
            raise ProtobufError("proto: integer overflow")


def _struct(message: bytes, go_type: str) -> dict[str, JSON]:
    """Return a message as JSON. Embedded structs are separate messages in it."""
    target = struct(go_type)
    assert target is not None
    value: dict[str, JSON] = {}
    own = {field.number: field for field in target.fields.values() if not field.embedded}
    embedded = {field.embedded_numbers[0]: field.embedded[0] for field in target.fields.values() if field.embedded}
    for number, raw in _fields(message):
        if number in own:
            _set(value, own[number], raw)
        elif number in embedded and embedded[number] != "TypeMeta":
            value |= _struct(_as_bytes(raw), f"v1.{embedded[number]}")
    return value


def _set(value: dict[str, JSON], field: Field, raw: int | bytes) -> None:
    go_type = field.go_type.removeprefix("*")
    if go_type == "map[string]string":
        pair = dict(_fields(_as_bytes(raw)))
        key, item = (_as_bytes(pair.get(number, b"")).decode(errors="replace") for number in (1, 2))
        value.setdefault(field.name, {})[key] = item
    elif go_type.startswith("[]") and go_type != "[]byte":
        value.setdefault(field.name, []).append(_value(raw, go_type[2:]))
    else:
        value[field.name] = _value(raw, go_type)


def _value(raw: int | bytes, go_type: str) -> JSON:
    if struct(go_type) is not None:
        return _struct(_as_bytes(raw), go_type)
    if go_type in ("bool", "int32", "int64"):
        number = raw if isinstance(raw, int) else 0
        # A negative number is written as its complement of 64 bits.
        return bool(number) if go_type == "bool" else number - 2**64 if number >= 2**63 else number
    data = _as_bytes(raw)
    if go_type == "[]byte":
        return base64.b64encode(data).decode()
    if go_type == "v1.Time":
        return _time(data)
    return _fields_v1(data) if go_type == "v1.FieldsV1" else data.decode(errors="replace")


def _fields_v1(message: bytes) -> JSON:
    import orjson  # noqa: PLC0415 - managed fields in a protobuf manifest

    try:
        return orjson.loads(_as_bytes(dict(_fields(message)).get(1, b"null")))
    except orjson.JSONDecodeError as error:
        raise ProtobufError(str(error)) from error


def _time(message: bytes) -> str | None:
    seconds = dict(_fields(message)).get(1, 0)
    if not isinstance(seconds, int) or not seconds:
        return None
    return datetime.fromtimestamp(seconds, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _as_bytes(raw: int | bytes) -> bytes:
    if isinstance(raw, int):
        raise ProtobufError("proto: wrong wireType = 0")
    return raw

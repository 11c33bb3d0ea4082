"""Strict decoding of nodes into the Go types of `schema` (`sigs.k8s.io/json.UnmarshalStrict`).

The result is the JSON that the server would write for the decoded object: without empty optional fields, and with times
in UTC. Problems are collected and not raised. Of the wrong types, the server reports the first. If there are none, it
reports all unknown and duplicate fields.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence as AbstractSequence
from typing import Any

from msgspec import Struct, field

from replay.go.encoding import Base64Error, decode_base64
from replay.go.format import quote
from replay.go.time import RFC3339, DurationError, TimeError, duration_text, parse_duration, parse_time
from replay.json import JSON
from replay.manifests.go_type.schema import Field, GoStruct, struct
from replay.manifests.read.node import Entry, Mapping, Node, Number, Position, Scalar, Sequence

_BITS = {"int32": 31, "int64": 63}
_RAW_TYPES = frozenset({"runtime.RawExtension", "runtime.Unknown", "v1.FieldsV1"})
_MAX_STRICT_ERRORS = 100
_INTEGER = re.compile(r"-?[0-9]+")


class Problem(Struct, frozen=True):
    """A problem at one place. `message` is the server's wording for it alone, `path` the field path."""

    message: str
    position: Position
    path: str = ""


class Decoded(Struct):
    """A decoded value and its problems. A type error makes decoding fail."""

    value: JSON = None
    type_errors: list[Problem] = field(default_factory=list)
    strict_errors: list[Problem] = field(default_factory=list)


def decode(node: Node, go_type: str, api_group_package: str = "v1") -> Decoded:
    """Decode a document into a Go type. `api_group_package` replaces `v1` in the names of types in error texts."""
    decoder = _Decoder(api_group_package)
    try:
        decoder.decoded.value = decoder.value(node, go_type, _Context())
    except _AbortError as abort:
        # An error of a type's own decoder ends decoding at once and is told before the type errors met earlier.
        decoder.decoded.type_errors.insert(0, abort.problem)
    return decoder.decoded


class _AbortError(Exception):
    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


class _Context(Struct, frozen=True):
    """Position of decoding: the struct and fields that a type error names, and the path with indexes."""

    struct_name: str = ""
    fields: tuple[str, ...] = ()
    path: str = ""

    def into_field(self, owner: GoStruct, target: Field) -> _Context:
        name = owner.go_type.partition(".")[2]
        path = f"{self.path}.{target.name}" if self.path else target.name
        return _Context(name, (*self.fields, *target.embedded, target.name), path)

    def into_key(self, key: str) -> _Context:
        # Go's errors name fields of structs, but no keys of maps and no indexes.
        return _Context(self.struct_name, self.fields, f"{self.path}.{key}" if self.path else key)

    def into_index(self, index: int) -> _Context:
        return _Context(self.struct_name, self.fields, f"{self.path}[{index}]")


class _Decoder:
    def __init__(self, package: str) -> None:
        self.decoded = Decoded()
        self._package = package
        self._messages: set[str] = set()

    def value(self, node: Node, go_type: str, context: _Context) -> JSON:
        """Return the JSON of a value of that type. None for null and for a value that cannot be decoded."""
        if go_type.startswith("*"):
            return None if _is_null(node) else self.value(node, go_type[1:], context)
        if (target := struct(go_type)) is not None:
            return self._struct(node, target, context)
        if go_type in _RAW_TYPES:
            return plain(node)
        return self._unnamed(node, go_type, context)

    def _unnamed(self, node: Node, go_type: str, context: _Context) -> JSON:
        """Return a value of a type that is not a struct."""
        if go_type == "[]byte":
            return self._bytes(node, context)
        if go_type.startswith("[]"):
            return self._list(node, go_type, context)
        if go_type.startswith("map["):
            return self._map(node, go_type, context)
        if go_type == "v1.Duration":
            return self._duration(node, context)
        return self._scalar(node, go_type, context)

    def _struct(self, node: Node, target: GoStruct, context: _Context) -> dict[str, JSON]:
        value: dict[str, JSON] = {}
        if not isinstance(node, Mapping):
            if not _is_null(node):
                self._mismatch(node, target.go_type, context)
            return _written(target, value)
        keys: set[str] = set()
        for entry in node.entries:
            field_ = target.fields.get(entry.key)
            if field_ is None:
                self._strict("unknown field", entry, context)
                continue
            if entry.key in keys:
                self._strict("duplicate field", entry, context)
            keys.add(entry.key)
            value[entry.key] = self.value(entry.value, field_.go_type, context.into_field(target, field_))
        return _written(target, value)

    def _map(self, node: Node, go_type: str, context: _Context) -> dict[str, JSON] | None:
        if not isinstance(node, Mapping):
            return None if _is_null(node) else self._mismatch(node, go_type, context)
        element = go_type.partition("]")[2]
        value: dict[str, JSON] = {}
        for entry in node.entries:
            if entry.key in value:
                self._strict("duplicate field", entry, context)
            value[entry.key] = self.value(entry.value, element, context.into_key(entry.key))
        # In Go, null sets nothing: the new value stays the empty string.
        return {key: "" if item is None else item for key, item in value.items()}

    def _list(self, node: Node, go_type: str, context: _Context) -> list[JSON] | None:
        if not isinstance(node, Sequence):
            return None if _is_null(node) else self._mismatch(node, go_type, context)
        element = go_type[2:]
        items = [self.value(item, element, context.into_index(index)) for index, item in enumerate(node.items)]
        return ["" if item is None and _is_text(element) else item for item in items]

    def _bytes(self, node: Node, context: _Context) -> JSON:
        """Return Base64 text without its line breaks."""
        if _is_null(node):
            return None
        if not isinstance(node, Scalar) or not isinstance(node.value, str):
            # encoding/json also reads a list of numbers into `[]byte`.
            if isinstance(node, Sequence):
                return self._byte_list(node, context)
            return self._mismatch(node, "[]uint8", context)
        try:
            return base64.b64encode(decode_base64(node.value)).decode()
        except Base64Error as error:
            self.decoded.type_errors.append(Problem(str(error), node.position, context.path))
            return None

    def _byte_list(self, node: Sequence, context: _Context) -> str:
        data = [self.value(item, "uint8", context.into_index(index)) for index, item in enumerate(node.items)]
        return base64.b64encode(bytes(item or 0 for item in data)).decode()

    def _scalar(self, node: Node, go_type: str, context: _Context) -> JSON:
        if _is_null(node):
            return None
        if go_type == "v1.Time":
            return self._time(node, context)
        value = node.value if isinstance(node, Scalar) else None
        if go_type == "bool" and isinstance(value, bool):
            return value
        if go_type in ("int32", "int64", "uint8") and isinstance(value, Number):
            return self._integer(node, value.text, go_type, context)
        if go_type not in ("bool", "int32", "int64", "uint8") and isinstance(value, str):
            return value
        return self._mismatch(node, go_type, context)

    def _integer(self, node: Node, text: str, go_type: str, context: _Context) -> JSON:
        low, high = (0, 2**8) if go_type == "uint8" else (-(2 ** _BITS[go_type]), 2 ** _BITS[go_type])
        # A longer text is beyond 64 bits, and `int` refuses very long texts.
        if _INTEGER.fullmatch(text) and len(text) < 25 and low <= int(text) < high:
            return int(text)
        return self._mismatch(node, go_type, context, f"number {text}")

    def _time(self, node: Node, context: _Context) -> str:
        if not isinstance(node, Scalar) or not isinstance(node.value, str):
            raise _AbortError(self._type_problem(node, "string", context, json_type(node)))
        try:
            return parse_time(RFC3339, node.value).in_utc().rfc3339()
        except TimeError as error:
            raise _AbortError(Problem(str(error), node.position, context.path)) from error

    def _duration(self, node: Node, context: _Context) -> str:
        """Return a duration as Go prints it. Null is read as the empty text, which is invalid."""
        text = "" if _is_null(node) else node.value if isinstance(node, Scalar) else None
        if not isinstance(text, str):
            raise _AbortError(self._type_problem(node, "string", context, json_type(node)))
        try:
            return duration_text(parse_duration(text))
        except DurationError as error:
            raise _AbortError(Problem(str(error), node.position, context.path)) from error

    def _mismatch(self, node: Node, go_type: str, context: _Context, shown: str = "") -> Any:
        """Add a type error and return None."""
        self.decoded.type_errors.append(self._type_problem(node, go_type, context, shown or json_type(node)))
        return None

    def _type_problem(self, node: Node, go_type: str, context: _Context, shown: str) -> Problem:
        target = self._in_package(go_type)
        if not context.fields:
            message = f"json: cannot unmarshal {shown} into Go value of type {target}"
        else:
            where = f"{context.struct_name}.{'.'.join(context.fields)}"
            message = f"json: cannot unmarshal {shown} into Go struct field {where} of type {target}"
        return Problem(message, node.position, context.path)

    def _in_package(self, go_type: str) -> str:
        """Return the type's name in messages: beta types have their own package, those of `meta/v1` have `v1`."""
        if self._package == "v1" or go_type.lstrip("[]*") in _SHARED_TYPES:
            return go_type
        return go_type.replace("v1.", f"{self._package}.")

    def _strict(self, what: str, entry: Entry, context: _Context) -> None:
        path = f"{context.path}.{entry.key}" if context.path else entry.key
        message = f"{what} {quote(path)}"
        # `decodeState.saveStrictError` keeps each text once, and no more than this number.
        if message not in self._messages and len(self._messages) < _MAX_STRICT_ERRORS:
            self._messages.add(message)
            self.decoded.strict_errors.append(Problem(message, entry.position, path))


_SHARED_TYPES = frozenset(
    [
        "v1.ObjectMeta",
        "v1.ListMeta",
        "v1.OwnerReference",
        "v1.ManagedFieldsEntry",
        "v1.ManagedFieldsOperationType",
        "v1.Condition",
        "v1.ConditionStatus",
        "v1.LabelSelector",
        "v1.LabelSelectorRequirement",
        "v1.LabelSelectorOperator",
        "v1.StatusReason",
        "v1.Time",
        "v1.Duration",
        "v1.Rule",
        "v1.RuleWithOperations",
        "v1.OperationType",
        "v1.ScopeType",
    ]
)


def json_type(node: Node) -> str:
    """Return Go's name for the JSON type of a node."""
    if isinstance(node, Mapping):
        return "object"
    if isinstance(node, Sequence):
        return "array"
    if isinstance(node.value, bool):
        return "bool"
    return "string" if isinstance(node.value, str) else "number" if node.value is not None else "null"


def plain(node: Node) -> JSON:
    """Return a node as plain JSON values. A number with a fraction or an exponent is a float."""
    if isinstance(node, Mapping):
        return {entry.key: plain(entry.value) for entry in node.entries}
    if isinstance(node, Sequence):
        return [plain(item) for item in node.items]
    if isinstance(node.value, Number):
        return int(node.value.text) if _INTEGER.fullmatch(node.value.text) else float(node.value.text)
    return node.value


def _is_null(node: Node) -> bool:
    return isinstance(node, Scalar) and node.value is None


def _is_text(go_type: str) -> bool:
    return go_type == "string" or (struct(go_type) is None and go_type.startswith("v1."))


def _written(target: GoStruct, value: dict[str, JSON]) -> dict[str, JSON]:
    """Return the fields that the server writes, in order: set ones, always written ones, and structs."""
    written: dict[str, JSON] = {}
    for name, field_ in target.fields.items():
        item = value.get(name)
        inner = struct(field_.go_type)
        if item is None and inner is not None:
            item = _written(inner, {})
        pointer = field_.go_type.startswith("*")
        # Go's `omitempty` never omits a struct.
        if inner is not None or (item is not None and (pointer or not _is_empty(item))):
            written[name] = item
        elif field_.always:
            written[name] = _zero(field_.go_type) if item is None else item
    return written


def _is_empty(item: JSON) -> bool:
    return item in ("", 0, False) or (isinstance(item, list | dict) and not item)


def _zero(go_type: str) -> JSON:
    if go_type.startswith(("*", "[", "map")) or go_type == "v1.Time":
        return None
    return 0 if go_type.startswith("int") else "" if go_type != "bool" else False


def strict_decoding_error(messages: AbstractSequence[str]) -> str:
    """Return the text of several strict decoding problems."""
    return f"strict decoding error: {', '.join(messages)}"

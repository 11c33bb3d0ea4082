"""Strict decoding of one document into a known kind, as in the server's universal deserializer.

A document is JSON if its text begins with a brace, protobuf if it begins with four certain bytes, and otherwise YAML.
The kind is read first, with keys compared without case. Then the scheme resolves it, and the document is decoded into
the kind's type.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from replay.go.format import marshal, quote
from replay.json import JSON
from replay.manifests.go_type.decode import Problem, decode, json_type, plain, strict_decoding_error
from replay.manifests.go_type.schema import SCHEME_NAME, Registered, Scheme
from replay.manifests.read.json_reader import JSONSyntaxError, read_json, text_from_bytes
from replay.manifests.read.node import Mapping, Node, Position, Scalar, position_of

_JSON_PREFIX = re.compile(
    rb"(?:[\t\n\v\f\r ]|\xc2[\x85\xa0]|\xe1\x9a\x80|\xe2\x80[\x80-\x8a\xa8\xa9\xaf]|\xe2\x81\x9f|\xe3\x80\x80)*\{"
)
_PROTOBUF_PREFIX = b"k8s\x00"
_ANONYMOUS = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'


class DecodedObject(Struct, frozen=True):
    """A decoded document: its Go type, its JSON as the server would write it, and its nodes with positions."""

    registered: Registered
    value: JSON
    node: Node


class UndecodableError(Exception):
    """A document that the server cannot decode. `str()` is its text, `problems` are its parts and further problems."""

    def __init__(
        self, text: str, problems: Iterable[Problem], text_count: int = 1, *, untyped: Node | None = None
    ) -> None:
        """`text_count` is the number of `problems`, from the first, in the text.

        `untyped` is set if the kind is the problem.
        """
        super().__init__(text)
        self.problems = tuple(problems)
        self.text_count = text_count
        self.untyped = untyped


def read_object(data: bytes, line: int, scheme: Scheme) -> DecodedObject:
    """Decode a document that begins at `line` of its file. Raises UndecodableError."""
    if _JSON_PREFIX.match(data):
        try:
            node = read_json(data, Position(line, 1))
        except JSONSyntaxError as error:
            text = f"couldn't get version/kind; json parse error: {error}"
            raise UndecodableError(text, [Problem(text, error.position)]) from error
        return _typed(node, data, scheme, [])
    if data.startswith(_PROTOBUF_PREFIX):
        return _read_protobuf_object(data, line, scheme)
    return _read_yaml_object(data, line, scheme)


def read_untyped(data: bytes, api_version: str, kind: str) -> Node | None:
    """Return the nodes of a YAML or JSON document of this kind or without a kind. None for an empty document.

    Raises UndecodableError, also for another kind.
    """
    from replay.manifests.read.yaml_reader import YAMLSyntaxError, read_yaml  # noqa: PLC0415 - as below

    try:
        node = read_yaml(data).node
    except YAMLSyntaxError as error:
        raise UndecodableError(str(error), [Problem(str(error), error.position)]) from error
    if isinstance(node, Scalar) and node.value is None:
        return None
    version_and_kind = _declared_version_and_kind(node)
    type_meta = (version_and_kind["apiversion"] or api_version, version_and_kind["kind"] or kind)
    if type_meta != (api_version, kind):
        raise _not_registered(type_meta[1], type_meta[0], node, Scheme({}, {}, SCHEME_NAME))
    return node


def read_item(node: Node, scheme: Scheme) -> DecodedObject:
    """Decode an item of a `List`, which the server decodes from its JSON text. Raises UndecodableError."""
    if isinstance(node, Mapping):
        return _typed(node, node.raw or marshal(plain(node)).encode(), scheme, [])
    # A null item has no text at all; of other values only the type is told.
    return _typed(node, b"", scheme, [])


def _read_yaml_object(data: bytes, line: int, scheme: Scheme) -> DecodedObject:
    from replay.manifests.read.yaml_reader import YAMLSyntaxError, read_yaml  # noqa: PLC0415 - a set in JSON needs none

    try:
        document = read_yaml(data, line)
    except YAMLSyntaxError as error:
        raise UndecodableError(str(error), [Problem(str(error), error.position)]) from error
    duplicates = [Problem(duplicate.message, duplicate.position) for duplicate in document.duplicates]
    return _typed(document.node, data, scheme, duplicates)


def _read_protobuf_object(data: bytes, line: int, scheme: Scheme) -> DecodedObject:
    from replay.manifests.read.protobuf_reader import ProtobufError, envelope, node_from_message  # noqa: PLC0415 - rare

    position = Position(line, 1)
    try:
        api_version, kind, message = envelope(data[len(_PROTOBUF_PREFIX) :])
        registered = scheme.lookup(api_version, kind)
        if registered is None:
            raise _not_registered(kind, api_version, Mapping(position, ()), scheme)
        node = node_from_message(message, registered, position)
    except ProtobufError as error:
        text = str(error)
        raise UndecodableError(text, [Problem(text, position)]) from error
    return DecodedObject(registered, decode(node, registered.go_type, registered.package).value, node)


def _typed(node: Node, data: bytes, scheme: Scheme, duplicates: list[Problem]) -> DecodedObject:
    """Decode a document into the type of its kind. `duplicates` are the keys that YAML repeats."""
    api_version, kind = _version_and_kind(node, data)
    registered = scheme.lookup(api_version, kind)
    if registered is None:
        raise _not_registered(kind, api_version, node, scheme)
    decoded = decode(node, registered.go_type, registered.package)
    strict = [*duplicates, *decoded.strict_errors]
    if decoded.type_errors:
        raise UndecodableError(decoded.type_errors[0].message, [*decoded.type_errors, *strict])
    if strict:
        texts = [problem.message for problem in decoded.strict_errors]
        if duplicates:
            joined = "\n  ".join(problem.message for problem in duplicates)
            texts.insert(0, f"yaml: unmarshal errors:\n  {joined}")
        raise UndecodableError(strict_decoding_error(texts), strict, len(strict))
    return DecodedObject(registered, decoded.value, node)


def _version_and_kind(node: Node, data: bytes) -> tuple[str, str]:
    """Return `apiVersion` and `kind`, which are required. Raises UndecodableError."""
    type_meta = _declared_version_and_kind(node)
    if type_meta["apiversion"].count("/") > 1:
        text = f"unexpected GroupVersion string: {type_meta['apiversion']}"
        raise UndecodableError(text, [Problem(text, node.position, "apiVersion")])
    for name, shown in (("kind", "Kind"), ("apiversion", "apiVersion")):
        if not type_meta[name] or (name == "apiversion" and not type_meta[name].rpartition("/")[2]):
            text = f"Object '{shown}' is missing in '{text_from_bytes(data)}'"
            message = f"Object '{shown}' is missing"
            raise UndecodableError(text, [Problem(message, node.position)], untyped=node)
    return type_meta["apiversion"], type_meta["kind"]


def _declared_version_and_kind(node: Node) -> dict[str, str]:
    """Return `apiversion` and `kind`, or "" if they are missing. Keys are compared without case. Raises UndecodableError."""
    type_meta = {"apiversion": "", "kind": ""}
    if isinstance(node, Mapping):
        for entry in node.entries:
            name = entry.key.casefold()
            if name not in type_meta or (isinstance(entry.value, Scalar) and entry.value.value is None):
                continue
            if not isinstance(entry.value, Scalar) or not isinstance(entry.value.value, str):
                field = "apiVersion" if name == "apiversion" else "kind"
                raise _meta_error(f"Go struct field .{field} of type string", entry.value, field)
            type_meta[name] = entry.value.value
    elif not isinstance(node, Scalar) or node.value is not None:
        raise _meta_error(f"Go value of type {_ANONYMOUS}", node, "")
    return type_meta


def _meta_error(target: str, value: Node, field: str) -> UndecodableError:
    text = f"couldn't get version/kind; json parse error: json: cannot unmarshal {json_type(value)} into {target}"
    return UndecodableError(text, [Problem(text, value.position, field)])


def _not_registered(kind: str, api_version: str, node: Node, scheme: Scheme) -> UndecodableError:
    """Return the error for a kind that the scheme does not know.

    The name of the scheme is a place in the server's source code.
    """
    group, _, version = api_version.rpartition("/")
    where = f"the internal version of group {quote(group)}"
    if version != "__internal":
        where = f"version {quote(api_version if group else version)}"
    text = f'no kind {quote(kind)} is registered for {where} in scheme "{scheme.name}"'
    return UndecodableError(text, [Problem(text, position_of(node, "kind"), "kind")], untyped=node)

"""RFC 6902 patches of rules (`pkg/engine/mutate/patch`; evanphx/json-patch v5 with Kyverno's options).

`add` creates the containers along its path. `remove` of a missing value changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from replay.go.format import marshal, quote
from replay.json import JSON, decode_json
from replay.kube.json_patch import JSONPatchError, apply, tokens
from replay.kyverno.rules.go_value import json_kind
from replay.kyverno.rules.response import RuleError
from replay.manifests.go_type.decode import plain
from replay.manifests.read.json_reader import JSONSyntaxError, read_json
from replay.manifests.read.yaml_reader import YAMLSyntaxError, read_yaml

# Path within a rule as a JMESPath expression, for the variable `@` (`pkg/utils/jsonpointer`).

_UNQUOTED = re.compile(r"[A-Z_a-z][)0-9A-Z_a-z]*", re.ASCII)
_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "/": "\\/",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
}


def parsed_path(path: str) -> list[str]:
    """Return the parts of a path. A backslash escapes the next character, and quotation marks keep slashes."""
    parts: list[str] = []
    part, is_escaped, is_quoted = "", False, False
    for character in path:
        if is_escaped:
            part, is_escaped = part + character, False
        elif character == "\\":
            is_escaped = True
        elif character == '"':
            is_quoted = not is_quoted
        elif character == "/" and not is_quoted:
            parts, part = ([*parts, part] if part else parts), ""
        else:
            part += character
    return [*parts, part] if part else parts


def jmespath_of(parts: Sequence[str]) -> str:
    """Return the JMESPath expression for the parts. A number is an index."""
    text = ""
    for part in parts:
        if part.isascii() and part.isdigit():
            text += f"[{part}]"
            continue
        text += "." if text else ""
        text += part if _UNQUOTED.fullmatch(part) else '"' + "".join(map(_quoted, part)) + '"'
    return text


def _quoted(character: str) -> str:
    if character in _ESCAPES and character in '"\\':
        return _ESCAPES[character]
    if " " <= character <= "\u1eff" or character >= "\U00001000":
        return character
    return _ESCAPES.get(character) or f"\\u{ord(character) & 0xFFFF:04x}"


_INDEX = re.compile(r"-|-?[0-9]+", re.ASCII)
_NUMBER = re.compile(r"-?[0-9]+", re.ASCII)
_NO_TEXT = "json: cannot unmarshal {} into Go value of type string"
_MOST_INDEX = 10_000
"""Limit of ours for the index at which `add` creates items."""


def apply_json6902(resource: JSON, text: str) -> JSON:
    """Return an object with a JSON or YAML patch applied. Raises RuleError."""
    operations = read_operations(text)
    wrong = next(filter(None, map(invalid_operation, operations)), "")
    if wrong:
        raise RuleError(f"failed to decode patches: {wrong}")
    original = resource
    for operation in operations:
        try:
            resource = _applied(resource, operation, original)
        except JSONPatchError as error:
            raise RuleError(str(error)) from None
    if resource is None and operations:  # operations that all change nothing leave no object to write
        raise RuleError(
            "json: error calling MarshalJSON for type *jsonpatch.partialDoc: invalid value, expected object"
        )
    return resource


def _applied(resource: JSON, operation: Mapping[str, Any], original: JSON) -> JSON:
    """Return the object after an operation. Raises RuleError and JSONPatchError.

    The field with the empty name holds the `original` object for those who read it, as in the library of Kyverno.
    """
    op, path = operation["op"], operation["path"]
    way = tokens(path)
    # Kyverno's patch options: paths are created for `add`, and may be missing for `remove`.
    if op == "add":
        if path == "":
            return operation["value"]
        resource = _with_path(resource, way)
    elif op == "remove" and not (way and _is_there(resource, way)):
        if way and isinstance(_value_at(resource, way[:-1]), list) and not _NUMBER.fullmatch(way[-1]):
            raise RuleError(
                f"error in remove for path: '{path}': strconv.Atoi: parsing {quote(way[-1])}: invalid syntax"
            )
        return resource
    elif op == "replace" and way[-1:] == ("",) and isinstance(_value_at(resource, way[:-1]), dict):
        operation = {**operation, "op": "add"}
    elif op == "replace" and not _is_there(resource, way) and _is_there(resource, way[:-1]):
        raise RuleError(f"replace operation does not apply: doc is missing key: {path}: missing value")
    elif op in ("copy", "move"):
        source = operation["from"]
        if path == "":  # the field with the empty name, as `/`, and not the whole object
            path, way, operation = "/", ("",), {**operation, "path": "/"}
        if source == "" and op == "move":
            raise RuleError("unable to move entire document to another path: invalid state detected")
        if source in ("", "/"):
            if op == "move":
                resource = {key: value for key, value in resource.items() if key}
            if not _is_there(resource, way[:-1]):
                raise RuleError(
                    f"{op} operation does not apply: doc is missing destination path: {path}: missing value"
                )
            operation = {"op": "add", "path": path, "value": original}
        else:
            _check_source(resource, op, source)
    return apply(resource, [operation])


def _check_source(resource: JSON, op: str, source: str) -> None:
    """Raise RuleError if the source of a copy or move is absent. The API server's library would copy null."""
    *above, key = tokens(source) or ("",)
    if not _is_there(resource, (*above,)):
        if op == "copy":
            raise RuleError(f'copy operation does not apply: doc is missing from path: "{source}": missing value')
        return
    container = _value_at(resource, (*above,))
    if isinstance(container, dict) and key and key not in container:
        where = f"for from: '{source}'" if op == "copy" else f"for path: '{key}'"
        raise RuleError(f"error in {op} {where}: unable to get nonexistent key: {key}: missing value")


def read_operations(text: str) -> list[Mapping[str, Any]]:
    """Parse the operations of a JSON or YAML patch. Raises RuleError."""
    try:
        if text.startswith("["):
            read_json(text.encode())
            decoded = decode_json(text)
        else:
            decoded = plain(read_yaml(text.encode()).node)
    except JSONSyntaxError as error:
        raise RuleError(f"failed to decode patches: {error}") from None
    except YAMLSyntaxError as error:
        raise RuleError(f"failed to convert patchesJSON6902 to JSON: {error}") from None
    if not isinstance(decoded, list) or not all(isinstance(each, dict) for each in decoded):
        wrong, of = (
            (decoded, "jsonpatch.Patch") if not isinstance(decoded, list) else (_no_map(decoded), "jsonpatch.Operation")
        )
        text = f"json: cannot unmarshal {json_kind(wrong)} into Go value of type {of}"
        raise RuleError(f"failed to decode patches: {text}")
    return decoded


def invalid_operation(operation: Mapping[str, Any]) -> str:
    """Return what is wrong with the fields of an operation, or an empty text."""
    wrong = _wrong_field(operation)
    return f"invalid operation {marshal(operation)}: {wrong}" if wrong else ""


def _wrong_field(operation: Mapping[str, Any]) -> str:
    match operation.get("op"):
        case "add" | "replace":
            if "value" not in operation:
                return "failed to decode 'value': operation, missing value field: missing value"
        case "copy" | "move":
            if operation.get("from") is None:
                return "failed to decode 'from': operation, missing from field: missing value"
            if not isinstance(operation["from"], str):
                return f"failed to decode 'from': {_NO_TEXT.format(json_kind(operation['from']))}"
        case "remove" | "test":
            pass
        case _:
            return "unsupported operation"
    if operation.get("path") is None:
        return "failed to decode 'path': operation missing path field: missing value"
    if not isinstance(operation["path"], str):
        return f"failed to decode 'path': {_NO_TEXT.format(json_kind(operation['path']))}"
    return ""


def _no_map(items: list[JSON]) -> JSON:
    return next(each for each in items if not isinstance(each, dict))


_NOTHING: Final = object()


def _is_there(node: JSON, path: tuple[str, ...]) -> bool:
    return _value_at(node, path) is not _NOTHING


def _value_at(node: JSON, path: tuple[str, ...]) -> Any:
    """Return the value at a path, or `_NOTHING`."""
    for key in path:
        if isinstance(node, dict):
            if key not in node:
                return _NOTHING
            node = node[key]
        elif isinstance(node, list) and _NUMBER.fullmatch(key):
            if not -len(node) <= int(key) < len(node):
                return _NOTHING
            node = node[int(key)]
        else:
            return _NOTHING
    return node


def _with_path(node: JSON, path: tuple[str, ...]) -> JSON:
    """Return a node with containers created along a path: a list before an index, otherwise an object."""
    if len(path) < 2:
        return node
    key, following = path[0], path[1]
    if isinstance(node, dict):
        inner = node.get(key)
        return {**node, key: _with_path(_container(following) if inner is None else inner, path[1:])}
    if isinstance(node, list) and _INDEX.fullmatch(key) and key != "-":
        index = int(key)
        if index == -1 and not node:
            return [_with_path(_container(following), path[1:])]
        if index > _MOST_INDEX:
            return node
        items = [*node, *[None] * (index + 1 - len(node))] if index >= len(node) else list(node)
        if -len(items) <= index < len(items):
            items[index] = _with_path(_container(following) if items[index] is None else items[index], path[1:])
        return items
    return node


def _container(key: str) -> JSON:
    """Return the container for a missing key: a list with nulls before an index, or an object. Raises RuleError."""
    if not _INDEX.fullmatch(key):
        return {}
    index = 0 if key == "-" else int(key)
    if index < -1:
        raise RuleError(f"Unable to ensure path for negative index other than -1: {key}: invalid index referenced")
    return [None] * max(0, min(index, _MOST_INDEX))

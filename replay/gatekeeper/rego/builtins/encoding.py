"""Builtins for JSON, YAML, base64, hexadecimal, URLs and hashes (`opa/v1/topdown/encoding.go`, `crypto.go`; `sigs.k8s.io/yaml`)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote_plus

from replay.gatekeeper.rego.builtins.operand import BuiltinError, builtin, is_valid, plain, strings_of
from replay.gatekeeper.rego.lexer import LONGEST, TooLargeError, limited
from replay.gatekeeper.rego.value import (
    Number,
    Object,
    PartialObject,
    Set,
    UnknownValue,
    Value,
    iterate,
    members_of,
    number_of,
    pairs_of,
    text_of_number,
)
from replay.go.encoding import Base64Error, decode_base64, without_surrogates
from replay.go.format import marshal_string
from replay.manifests.read.node import Mapping, Node, Scalar, Sequence
from replay.manifests.read.node import Number as NodeNumber
from replay.manifests.read.yaml_reader import YAMLSyntaxError, read_yaml


def octets_of(text: str) -> bytes:
    """Return the bytes of a text."""
    return text.encode("utf-8", "surrogateescape")


def text_of(octets: bytes) -> str:
    """Return bytes as text. Invalid UTF-8 is kept."""
    return octets.decode("utf-8", "surrogateescape")


@plain("json.marshal", 1)
def _marshal(value: Value) -> Value:
    parts: list[str] = []
    _write(value, parts, [LONGEST])
    return "".join(parts)


def _write(value: Value, parts: list[str], left: list[int]) -> None:
    match value:
        case str():
            parts.append(marshal_string(value))
        case bool() | None:
            parts.append({True: "true", False: "false", None: "null"}[value])
        case int() | Number():
            parts.append(text_of_number(value))
        case list() | Set():
            parts.append("[")
            for place, item in enumerate(value if isinstance(value, list) else members_of(value)):
                parts.append("," if place else "")
                _write(item, parts, left)
            parts.append("]")
        case dict() | Object():
            parts.append("{")
            named = (
                # Keys that are no strings are written as JSON, and Go's encoder sorts the texts.
                sorted((key if type(key) is str else _marshal(key), item) for key, item in pairs_of(value))
                if isinstance(value, Object)
                else pairs_of(value)
            )
            for place, (key, item) in enumerate(named):
                parts += ["," if place else "", marshal_string(key), ":"]
                _write(item, parts, left)
            parts.append("}")
        case UnknownValue() | PartialObject():
            value.touched()
    left[0] -= len(parts[-1])
    if left[0] < 0:
        raise TooLargeError


@builtin("json.marshal_with_options", "xo")
def _marshal_with_options(value: Value, options: Value) -> Value:
    known = {"pretty", "indent", "prefix"}
    if isinstance(options, Object) or set(options) - known:
        raise BuiltinError
    indent, prefix = options.get("indent", "\t"), options.get("prefix", "")
    pretty = options.get("pretty", bool({"indent", "prefix"} & set(options)))
    if type(indent) is not str or type(prefix) is not str or type(pretty) is not bool:
        raise BuiltinError
    if not pretty:
        return _marshal(value)
    return _indented(value, prefix, indent)


def _indented(value: Value, prefix: str, indent: str) -> str:
    """Return indented JSON (`json.MarshalIndent`)."""
    out: list[str] = []

    def write(item: Value, depth: int) -> None:
        if isinstance(item, list | Set):
            items = item if isinstance(item, list) else members_of(item)
            if not items:
                out.append("[]")
                return
            out.append("[")
            for place, part in enumerate(items):
                out.append(("," if place else "") + "\n" + prefix + indent * (depth + 1))
                write(part, depth + 1)
            out.append("\n" + prefix + indent * depth + "]")
        elif isinstance(item, dict | Object):
            pairs = pairs_of(item)
            if not pairs:
                out.append("{}")
                return
            out.append("{")
            for place, (key, part) in enumerate(pairs):
                name = key if type(key) is str else _marshal(key)
                out.append(("," if place else "") + "\n" + prefix + indent * (depth + 1) + marshal_string(name) + ": ")
                write(part, depth + 1)
            out.append("\n" + prefix + indent * depth + "}")
        else:
            out.append(_marshal(item))
        limited(len(out) * len(out[-1]))

    write(value, 0)
    return prefix + "".join(out)


def decoded_json(text: str) -> Value:
    """Return the value of a JSON text, with numbers as written. Raises BuiltinError."""
    try:
        return json.loads(
            without_surrogates(text), parse_int=number_of, parse_float=number_of, parse_constant=_no_constant
        )
    except (ValueError, RecursionError):
        raise BuiltinError from None


def _no_constant(_: str) -> Any:
    raise ValueError


@builtin("json.unmarshal", "s")
def _unmarshal(text: str) -> Value:
    return decoded_json(text)


@plain("json.is_valid", 1)
def _json_is_valid(text: Value) -> Value:
    return is_valid(decoded_json, text)


@builtin("base64.encode", "s")
def _base64_encode(text: str) -> Value:
    return base64.b64encode(octets_of(text)).decode()


def _base64_decoded(text: str) -> str:
    try:
        return text_of(decode_base64(text))
    except Base64Error:
        raise BuiltinError from None


@builtin("base64.decode", "s")
def _base64_decode(text: str) -> Value:
    return _base64_decoded(text)


@plain("base64.is_valid", 1)
def _base64_is_valid(text: Value) -> Value:
    return is_valid(_base64_decoded, text)


@builtin("base64url.encode", "s")
def _base64url_encode(text: str) -> Value:
    return base64.urlsafe_b64encode(octets_of(text)).decode()


@builtin("base64url.encode_no_pad", "s")
def _base64url_encode_no_pad(text: str) -> Value:
    return base64.urlsafe_b64encode(octets_of(text)).decode().rstrip("=")


@builtin("base64url.decode", "s")
def _base64url_decode(text: str) -> Value:
    if not text.endswith("="):
        if len(text) % 4 == 1:
            raise BuiltinError
        text += "=" * (-len(text) % 4)
    if "+" in text or "/" in text:
        raise BuiltinError
    return _base64_decoded(text.replace("-", "+").replace("_", "/"))


@builtin("hex.encode", "s")
def _hex_encode(text: str) -> Value:
    return octets_of(text).hex()


@builtin("hex.decode", "s")
def _hex_decode(text: str) -> Value:
    if not re.fullmatch(r"(?:[0-9a-fA-F]{2})*", text):
        raise BuiltinError
    return text_of(bytes.fromhex(text))


def _hash(name: str, function: Callable[[bytes], Any]) -> None:
    @builtin(f"crypto.{name}", "s")
    def hashed(text: str) -> Value:
        return function(octets_of(text)).hexdigest()


def _hmac(name: str) -> None:
    @builtin(f"crypto.hmac.{name}", "ss")
    def hashed(text: str, key: str) -> Value:
        return hmac.new(octets_of(key), octets_of(text), name).hexdigest()


for _name in ("md5", "sha1", "sha256"):
    _hash(_name, getattr(hashlib, _name))
for _name in ("md5", "sha1", "sha256", "sha512"):
    _hmac(_name)


@builtin("crypto.hmac.equal", "ss")
def _hmac_equal(one: str, other: str) -> Value:
    return one == other


def _escaped(text: str) -> str:
    return quote_plus(octets_of(text), safe="~")


def _unescaped(text: str) -> str:
    if re.search(r"%(?![0-9a-fA-F]{2})", text):
        raise BuiltinError
    octets = octets_of(text.replace("+", " "))
    return text_of(re.sub(rb"%([0-9a-fA-F]{2})", lambda found: bytes([int(found.group(1), 16)]), octets))


@builtin("urlquery.encode", "s")
def _query_encode(text: str) -> Value:
    return _escaped(text)


@builtin("urlquery.decode", "s")
def _query_decode(text: str) -> Value:
    return _unescaped(text)


@builtin("urlquery.encode_object", "o")
def _query_encode_object(value: Value) -> Value:
    if isinstance(value, Object):
        raise BuiltinError
    parts = []
    for key, item in pairs_of(value):
        items = [item] if type(item) is str else strings_of(iterate(item)) if type(item) in (list, Set) else None
        if items is None:
            raise BuiltinError
        parts += [f"{_escaped(key)}={_escaped(part)}" for part in items]
    return "&".join(parts)


@builtin("urlquery.decode_object", "s")
def _query_decode_object(text: str) -> Value:
    found: dict[str, list[str]] = {}
    for pair in text.split("&"):
        # Go's `url.ParseQuery` refuses semicolons.
        if ";" in pair:
            raise BuiltinError
        if pair:
            key, _, item = pair.partition("=")
            found.setdefault(_unescaped(key), []).append(_unescaped(item))
    return found


def _decoded_yaml(text: str) -> Value:
    """Return the value of a YAML text. Raises BuiltinError."""
    try:
        document = read_yaml(text.encode("utf-8", "surrogateescape"))
    except (YAMLSyntaxError, RecursionError):
        raise BuiltinError from None
    return _of_node(document.node)


def _of_node(node: Node) -> Value:
    match node:
        case Scalar():
            return number_of(node.value.text) if isinstance(node.value, NodeNumber) else node.value
        case Sequence():
            return [_of_node(item) for item in node.items]
        case Mapping():
            return {entry.key: _of_node(entry.value) for entry in node.entries}


@builtin("yaml.unmarshal", "s")
def _unmarshal_yaml(text: str) -> Value:
    return _decoded_yaml(text)


@plain("yaml.is_valid", 1)
def _yaml_is_valid(text: Value) -> Value:
    return is_valid(_decoded_yaml, text)

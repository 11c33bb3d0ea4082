"""CEL functions for JSON, YAML, hashes, compression and lists (`libs/json`, `yaml`, `hash`, `gzip`, `transform`)."""

from __future__ import annotations

import base64
import gzip
import hashlib
import zlib
from typing import Any, Final

from replay.cel.ast.factory import ExprFactory
from replay.cel.ast.tree import Expr
from replay.cel.declare.library import Function, Implementation, Library, Overload, VariableDecl, overloaded
from replay.cel.declare.macros import Macro
from replay.cel.value.bounds import MAX_TEXT, UndeterminedError
from replay.cel.value.equality import elements, find, is_list, is_map, map_keys
from replay.cel.value.text import type_name
from replay.cel.value.timestamp import NANOS, Duration, Timestamp, field
from replay.cel.value.types import (
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    Type,
    list_type,
    map_type,
    opaque_type,
)
from replay.cel.value.values import EvalError, OpaqueValue, OptionalValue, TypeValue, Uint, Value
from replay.cellib.library.encoders import no_text
from replay.cellib.library.macros import is_namespace
from replay.cellib.library.math import rounded
from replay.go.certificate import CertificateError, UnreadKeyError, certificate_fields
from replay.go.encoding import decode_pem
from replay.go.format import marshal
from replay.json import JSON
from replay.kyverno.cel.library.image import ImageValue
from replay.kyverno.rules.go_value import with_floats
from replay.kyverno.rules.jmespath.syntax import parsed_json
from replay.kyverno.rules.response import JMESPathError
from replay.manifests.go_type.decode import plain
from replay.manifests.read.yaml_reader import YAMLSyntaxError, read_yaml

_GZIP_HEADER, _GZIP_MAGIC = 10, b"\x1f\x8b\x08"
_WRITTEN_AS_TEXT = frozenset({"kubernetes.Quantity", "net.IP", "net.CIDR"})
_JSON, _YAML = opaque_type("json.Json"), opaque_type("yaml.Yaml")


class _Parser(OpaqueValue):
    """Value of `json` or `yaml`. It records its results in `answers`."""

    __slots__ = ("answers", "cel_type")

    def __init__(self, cel_type: Type, answers: list[JSON]) -> None:
        self.cel_type = cel_type
        self.answers = answers

    def equal(self, other: Value) -> bool:
        """Return whether both are the same value."""
        return self is other

    def noted(self, answer: JSON) -> JSON:
        """Record a result and return it."""
        self.answers.append(answer)
        return answer


def data_bindings(answers: list[JSON]) -> dict[str, Value]:
    """Return the values of `json` and `yaml`, which append their results to `answers`."""
    return {"json": _Parser(_JSON, answers), "yaml": _Parser(_YAML, answers)}


def _unmarshal(parser: _Parser, text: Value) -> JSON:
    if not isinstance(text, str):
        raise no_text(text)
    try:
        return parser.noted(parsed_json(text))
    except JMESPathError as error:
        raise EvalError(str(error)) from None


def _marshal(_: Value, value: Value) -> str:
    return marshal(as_json(value))


def as_json(value: Value) -> JSON:
    """Return a CEL value as JSON. Raises EvalError for a map with other keys than strings."""
    if is_map(value):
        made: dict[str, Any] = {}
        for key in map_keys(value):
            if not isinstance(key, str):
                raise EvalError(f"json: failed to convert CEL map to native map: {no_text(key).message}")
            made[key] = as_json(find(value, key)[1])
        return made
    if is_list(value):
        return [as_json(item) for item in elements(value)]
    if isinstance(value, Timestamp):
        return value.text()
    if isinstance(value, Duration):
        # Go's encoder writes `time.Duration` as its number of nanoseconds.
        return value.nanos
    if isinstance(value, TypeValue):
        return value.name
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, OptionalValue):
        return as_json(value.value) if value.has_value else None
    if isinstance(value, ImageValue):
        return value.reference.text
    if isinstance(value, OpaqueValue) and value.cel_type.name in _WRITTEN_AS_TEXT:
        return str(value)
    if isinstance(value, Uint):
        return int(value)
    if value is None or isinstance(value, str | int | float):
        return value
    raise UndeterminedError(f"json.marshal: replay does not write values of type {type_name(value)}")


def _parse_yaml(parser: _Parser, text: str) -> JSON:
    try:
        return parser.noted(with_floats(plain(read_yaml(text.encode("utf-8", "surrogateescape")).node)))
    except YAMLSyntaxError as error:
        raise EvalError(f"error converting YAML to JSON: {error}") from None


def _digest(algorithm: str) -> Implementation:
    def digest(text: str) -> str:
        return hashlib.new(algorithm, text.encode("utf-8", "surrogateescape"), usedforsecurity=False).hexdigest()

    return digest


def _hash(name: str) -> tuple[Function, Function]:
    body = _digest(name)
    return (
        overloaded(name, (f"{name}_string_non_prefixed", (STRING,), STRING, body)),
        overloaded(f"hash.{name}", (f"{name}_string_prefixed", (STRING,), STRING, body)),
    )


def _decompress(data: bytes) -> str:
    """Return decompressed text. Raises EvalError with Go's message, and UndeterminedError above the size limit."""
    if len(data) < _GZIP_HEADER:
        raise EvalError("unexpected EOF" if data else "EOF")
    if not data.startswith(_GZIP_MAGIC):
        raise EvalError("gzip: invalid header")
    # 31 expects the header and the trailer of gzip.
    reader = zlib.decompressobj(wbits=31)
    try:
        made = reader.decompress(data, MAX_TEXT)
    except zlib.error:
        raise UndeterminedError("gzip.decompress: the data is damaged") from None
    if not reader.eof:
        if len(made) >= MAX_TEXT:
            raise UndeterminedError("gzip.decompress: the text is too long")
        raise EvalError("unexpected EOF")
    return made.decode("utf-8", "surrogateescape")


def _compress(text: Value) -> bytes:
    """Return compressed text. The bytes differ from those of Go's encoder, but decompress to the same text."""
    if not isinstance(text, str):
        raise no_text(text)
    return gzip.compress(text.encode("utf-8", "surrogateescape"), mtime=0)


def _objects_to_map(keys: Value, values: Value, key_name: str, value_name: str) -> Value:
    """Return a map from the key fields of one list's objects to the value fields of the other list's objects."""
    if len(keys) != len(values):
        raise EvalError(f"listObjToMap must take lists of equal length. list1: {len(keys)}, list2: {len(values)}")
    made: dict[str, Value] = {}
    for key_object, value_object in zip(elements(keys), elements(values), strict=True):
        key = find(key_object, key_name)[1] if is_map(key_object) else None
        if not isinstance(key, str):
            raise EvalError("the passed key name cannot be handled as a string in the key object list")
        if not is_map(value_object):
            raise EvalError("object cannot be handled as a map string to any in the value object list")
        made[key] = find(value_object, value_name)[1]
    return made


def _objects(name: str, overload: str) -> Function:
    args = (list_type(DYN), list_type(DYN), STRING, STRING)
    return overloaded(name, (overload, args, map_type(DYN, DYN), _objects_to_map))


DATA = Library(
    name="kyverno.data",
    functions=(
        overloaded("unmarshal", ("unmarshal_string_dyn", (_JSON, DYN), DYN, _unmarshal), member=True),
        overloaded("marshal", ("marshal_dyn_string", (_JSON, DYN), STRING, _marshal), member=True),
        overloaded("parse", ("parse_string_dyn", (_YAML, STRING), DYN, _parse_yaml), member=True),
        *_hash("md5"),
        *_hash("sha1"),
        *_hash("sha256"),
        overloaded("gzip.decompress", ("decompress_bytes_string", (BYTES,), STRING, _decompress)),
        overloaded("gzip.compress", ("compress_any_bytes", (DYN,), BYTES, _compress)),
        _objects("listObjToMap", "list_of_object_to_map_non_prefixed"),
        _objects("transform.listObjToMap", "list_of_object_to_map_prefixed"),
    ),
    variables=(VariableDecl("json", _JSON), VariableDecl("yaml", _YAML)),
)
"""Library of `json`, `yaml`, `hash`, `gzip` and `transform`."""


# Rounding, times, random texts and certificates in CEL (`libs/math`, `time`, `random`, `x509`).

_YEAR_1 = -62135596800
"""Start of year 1 in Unix seconds. Go truncates times relative to it."""


def _round(value: float, places: int) -> float:
    try:
        shift = 10.0**places
        return rounded(value * shift) / shift
    except (OverflowError, ZeroDivisionError):
        return float("nan")


NOW: Final = "@now"
"""Variable that `time.now()` reads. No expression can name it."""


def _now(factory: ExprFactory, target: Expr | None, args: tuple[Expr, ...]) -> Expr | None:  # noqa: ARG001 - there are none
    return factory.ident(NOW) if is_namespace(target, "time") else None


def _random(pattern: str = "") -> Value:  # noqa: ARG001 - the same whatever the pattern
    raise UndeterminedError("random() differs from one evaluation to the next")


def _certificate(text: str) -> Value:
    block = decode_pem(text.encode("utf-8", "surrogateescape"))
    if block is None:
        raise EvalError("failed to decode PEM block")
    if block.type == "CERTIFICATE REQUEST":
        raise UndeterminedError("x509.decode: replay does not decode certificate requests")
    if block.type != "CERTIFICATE":
        raise EvalError("PEM block neither contains a CERTIFICATE or CERTIFICATE REQUEST")
    try:
        return with_floats(certificate_fields(block.data))
    except UnreadKeyError as error:
        raise EvalError(str(error)) from None
    except CertificateError as error:
        raise UndeterminedError(f"x509.decode: {error}") from None


def _cron(instant: Timestamp) -> str:
    # In the zone in which the time is written.
    local = Timestamp(instant.seconds + instant.offset)
    values = [field(local, part) for part in ("getMinutes", "getHours", "getDate", "getMonth", "getDayOfWeek")]
    # CEL counts months from 0, cron from 1.
    values[3] += 1
    return " ".join(map(str, values))


def _truncate(instant: Timestamp, step: Duration) -> Timestamp:
    """Return a time rounded down to a multiple of a duration since year 1, as Go's `Time.Truncate` does."""
    if step.nanos <= 0:
        return instant
    since = (instant.seconds - _YEAR_1) * NANOS + instant.nanos
    seconds, nanos = divmod(since - since % step.nanos, NANOS)
    return Timestamp(seconds + _YEAR_1, nanos, instant.offset)


def _randoms(name: str, suffix: str) -> Function:
    return overloaded(
        name,
        (f"random_string_{suffix}", (STRING,), STRING, _random),
        (f"random_string_default_expr_{suffix}", (), STRING, _random),
    )


MOMENT = Library(
    name="kyverno.moment",
    functions=(
        overloaded("math.round", ("math_round_float_int", (DOUBLE, INT), DOUBLE, _round)),
        Function("time.now", (Overload("time_now", (), TIMESTAMP),)),
        overloaded("time.toCron", ("time_to_cron", (TIMESTAMP,), STRING, _cron)),
        overloaded("time.truncate", ("time_truncate", (TIMESTAMP, DURATION), TIMESTAMP, _truncate)),
        _randoms("random", "non_prefixed"),
        _randoms("random.random", "prefixed"),
        overloaded("x509.decode", ("x509_decode_string", (STRING,), DYN, _certificate)),
    ),
    variables=(VariableDecl(NOW, TIMESTAMP),),
    macros=(Macro("now", (0,), _now),),
)
"""Library of `math.round`, `time`, `random` and `x509`."""

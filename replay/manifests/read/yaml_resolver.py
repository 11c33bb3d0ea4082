"""Types of untagged and tagged YAML scalars, as `go.yaml.in/yaml/v2` resolves them: YAML 1.1 with deviations.

`yes` and `on` are booleans, `0o17` and `017` are octal, `1_0` is ten, `0:20` and dates stay strings.
"""

from __future__ import annotations

import base64
import binascii
import math
import re

YAMLValue = str | bool | int | float | None

_PREFIX = "tag:yaml.org,2002:"
_STR, _BOOL, _INT, _FLOAT, _NULL = (f"{_PREFIX}{name}" for name in ("str", "bool", "int", "float", "null"))
_TIMESTAMP, _BINARY, _MERGE = (f"{_PREFIX}{name}" for name in ("timestamp", "binary", "merge"))
_RESOLVABLE = frozenset({"", _STR, _BOOL, _INT, _FLOAT, _NULL, _TIMESTAMP})
_WORDS: dict[str, tuple[str, YAMLValue]] = {
    **dict.fromkeys(["y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"], (_BOOL, True)),
    **dict.fromkeys(["n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"], (_BOOL, False)),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), (_NULL, None)),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), (_FLOAT, math.nan)),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), (_FLOAT, math.inf)),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), (_FLOAT, -math.inf)),
    "<<": (_MERGE, "<<"),
}
_FLOAT_TEXT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_GO_FLOAT = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
_BASES = (
    (re.compile(r"0[xX]([0-9a-fA-F]+)"), 16),
    (re.compile(r"0[bB]([01]+)"), 2),
    (re.compile(r"0[oO]?([0-7]+)"), 8),
)
_DECIMAL = re.compile(r"(0|[1-9][0-9]*)")
_DATE = r"[0-9]{4}-(?:0?[1-9]|1[0-2])-(?:0?[1-9]|[12][0-9]|3[01])"
_TIME = r"(?:[01]?[0-9]|2[0-3]):[0-5]?[0-9]:[0-5]?[0-9](?:[.,][0-9]+)?"
_DATE_TIME = re.compile(rf"{_DATE}(?:[Tt]{_TIME}(?:Z|[-+][0-9]{{2}}:[0-9]{{2}})| {_TIME})?")


class UnresolvableError(Exception):
    """A value that does not fit its tag. `str()` is the reader's wording."""


def is_merge(text: str, tag: str, *, implicit: bool) -> bool:
    """Return whether a key is the merge key `<<`."""
    return text == "<<" and (implicit or tag == _MERGE)


def resolve_scalar(text: str, tag: str, *, implicit: bool) -> YAMLValue:
    """Return the value of a scalar. `implicit` is false for quoted and block scalars without a tag.

    Raises UnresolvableError.
    """
    if not tag and not implicit:
        return text
    if tag == _BINARY:
        return _binary(text)
    if tag not in _RESOLVABLE or tag == _STR:
        return text
    kind, value = _resolve(text, tag)
    if tag in ("", kind):
        return text if kind == _TIMESTAMP else value
    if tag == _FLOAT and kind == _INT and isinstance(value, int) and value < 2**63:
        return float(value)
    raise UnresolvableError(f"cannot decode {_short(kind)} `{text}` as a {_short(tag)}")


def _resolve(text: str, tag: str) -> tuple[str, YAMLValue]:
    if text in _WORDS and (not text or text[0] in "yYnNtTfFoO~.+-"):
        return _WORDS[text]
    if text.startswith("."):
        return (_FLOAT, float(text)) if _GO_FLOAT.fullmatch(text) and _is_finite(text) else (_STR, text)
    if not text or text[0] not in "+-0123456789":
        return _STR, text
    if tag in ("", _TIMESTAMP) and _DATE_TIME.fullmatch(text):
        return _TIMESTAMP, text
    return _number(text)


def _number(text: str) -> tuple[str, YAMLValue]:
    """Return an integer or a float, without underscores, or a string if the text is neither."""
    plain = text.replace("_", "")
    number = _integer(plain)
    if number is not None:
        return _INT, number
    if _FLOAT_TEXT.fullmatch(plain) and _is_finite(plain):
        return _FLOAT, float(plain)
    return _STR, text


def _integer(text: str) -> int | None:
    """Return the integer of `strconv.ParseInt` or `ParseUint` with base 0, or None.

    They have up to 64 bits, and a sign only if signed.
    """
    sign, digits = (text[0], text[1:]) if text[:1] in ("+", "-") else ("", text)
    value = None
    if _DECIMAL.fullmatch(digits):
        value = int(digits) if len(digits) < 30 else None  # no 64-bit number is longer
    for pattern, base in _BASES:
        if match := pattern.fullmatch(digits):
            value = int(match[1], base)
    if value is None:
        return None
    if sign == "-":
        return -value if value <= 2**63 else None
    return value if value < (2**63 if sign else 2**64) else None


def _is_finite(text: str) -> bool:
    return math.isfinite(float(text))


def _binary(text: str) -> str:
    """Return decoded Base64 without line breaks.

    Bytes that are not UTF-8 become U+FFFD when the value is written as JSON.
    """
    try:
        data = base64.b64decode(text.replace("\r", "").replace("\n", ""), validate=True)
    except binascii.Error as error:
        raise UnresolvableError("!!binary value contains invalid base64 data") from error
    return "".join("\ufffd" if "\udc80" <= c <= "\udcff" else c for c in data.decode("utf-8", errors="surrogateescape"))


def _short(tag: str) -> str:
    return f"!!{tag.removeprefix(_PREFIX)}" if tag.startswith(_PREFIX) else tag


def key_text(key: YAMLValue) -> str:
    """Return a mapping key as a JSON object key (`sigs.k8s.io/yaml`).

    Raises UnresolvableError for null and for integers over 63 bits.
    """
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, str):
        return key
    if isinstance(key, int) and key < 2**63:
        return str(key)
    if isinstance(key, float):
        return _float_key(key)
    raise UnresolvableError("%!s(<nil>)" if key is None else "uint64")


def _float_key(key: float) -> str:
    if not math.isfinite(key):
        return ".nan" if math.isnan(key) else (".inf" if key > 0 else "-.inf")
    return _shortest_single(key)


def _shortest_single(key: float) -> str:
    """Return the shortest text of a single-precision number (`strconv.FormatFloat(key, 'g', -1, 32)`)."""
    import struct  # noqa: PLC0415 - float keys are curiosities

    single = struct.unpack("f", struct.pack("f", key))[0]
    for precision in range(1, 18):
        text = f"{single:.{precision}g}"
        if struct.unpack("f", struct.pack("f", float(text)))[0] == single:
            break
    mantissa, _, exponent = f"{float(text):e}".partition("e")
    if -4 <= int(exponent) < 21:
        return f"{float(text):f}".rstrip("0").rstrip(".") if "e" in text else text
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent):+03d}"

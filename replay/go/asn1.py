"""DER as Go decodes it into structs (`encoding/asn1`), with Go's error texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

BOOLEAN, INTEGER, BIT_STRING, OCTET_STRING, OID = 1, 2, 3, 4, 6
UTF8_STRING, SEQUENCE, SET, NUMERIC_STRING, PRINTABLE_STRING = 12, 16, 17, 18, 19
T61_STRING, IA5_STRING, UTC_TIME, GENERALIZED_TIME, BMP_STRING = 20, 22, 23, 24, 30
_PLAIN_PARAMETERS: Final = "optional:false explicit:false application:false private:false defaultValue:<nil> tag:<nil>"
_MOST_LENGTH: Final = 1 << 23
_MOST_INT32: Final = 2**31 - 1
_NUMERIC: Final = frozenset(b"0123456789 ")
_PRINTABLE: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789'()+,-./ :=?*&")
"""Characters of PrintableString. Go also allows an asterisk and an ampersand."""


class ASN1Error(Exception):
    """Bytes that are not of the expected form. `str()` is Go's message."""


def syntax_error(message: str) -> ASN1Error:
    """Return the error for bytes that are not DER."""
    return ASN1Error(f"asn1: syntax error: {message}")


def structural_error(message: str) -> ASN1Error:
    """Return the error for DER of another structure than expected."""
    return ASN1Error(f"asn1: structure error: {message}")


class Header(NamedTuple):
    """Tag and length of a value."""

    tag_class: int
    tag: int
    length: int
    is_compound: bool

    def __str__(self) -> str:
        """Return the header as Go prints it."""
        compound = "true" if self.is_compound else "false"
        return f"{{class:{self.tag_class} tag:{self.tag} length:{self.length} isCompound:{compound}}}"


class DERValue(NamedTuple):
    """Value with its content, and with its encoding including tag and length."""

    header: Header
    data: bytes
    encoding: bytes


def read_header(data: bytes, at: int) -> tuple[Header, int]:
    """Return the tag and length at an offset, and the offset of the value. Raises ASN1Error."""
    first = data[at]
    tag, at = first & 0x1F, at + 1
    if tag == 0x1F:
        tag, at = _base128(data, at)
        if tag < 0x1F:
            raise syntax_error("non-minimal tag")
    if at >= len(data):
        raise syntax_error("truncated tag or length")
    length, at = _length(data, at)
    return Header(first >> 6, tag, length, bool(first & 0x20)), at


def _length(data: bytes, at: int) -> tuple[int, int]:
    first, at = data[at], at + 1
    if not first & 0x80:
        return first, at
    if first == 0x80:
        raise syntax_error("indefinite length found (not DER)")
    length = 0
    for _ in range(first & 0x7F):
        if at >= len(data):
            raise syntax_error("truncated tag or length")
        if length >= _MOST_LENGTH:
            raise structural_error("length too large")
        length, at = length << 8 | data[at], at + 1
        if not length:
            raise structural_error("superfluous leading zeros in length")
    if length < 0x80:
        raise structural_error("non-minimal length")
    return length, at


def _base128(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shifted in range(len(data) - at):
        # Go stops after five bytes, so that a number of 31 bits cannot overflow.
        if shifted == 5:
            raise structural_error("base 128 integer too large")
        byte = data[at + shifted]
        if not shifted and byte == 0x80:
            raise syntax_error("integer is not minimally encoded")
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            if value > _MOST_INT32:
                raise structural_error("base 128 integer too large")
            return value, at + shifted + 1
    raise syntax_error("truncated base 128 integer")


class DERReader:
    """Reader of the fields of a structure, in order."""

    def __init__(self, data: bytes) -> None:
        """`data` is the content of the structure."""
        self._data = data
        self._at = 0

    @property
    def rest(self) -> bytes:
        """Bytes that were not read yet."""
        return self._data[self._at :]

    def any(self) -> DERValue:
        """Return the next value of any type. Raises ASN1Error."""
        if self._at == len(self._data):
            raise syntax_error("sequence truncated")
        start = self._at
        header, at = read_header(self._data, start)
        return self._read_value(header, start, at)

    def read(self, tag: int, go_type: str, *, context: bool = False, parameters: str = "") -> DERValue:
        """Return the next value, which must have a tag. Raises ASN1Error.

        `go_type` is the Go type in the message about another tag. With `context` the tag is context-specific.
        `parameters` are the field parameters in the message.
        """
        if self._at == len(self._data):
            raise syntax_error("sequence truncated")
        start = self._at
        header, at = read_header(self._data, start)
        is_compound = context or tag in (SEQUENCE, SET)
        if (header.tag_class, header.tag, header.is_compound) != (2 if context else 0, tag, is_compound):
            parameter_text = parameters or f"{{{_PLAIN_PARAMETERS} stringType:0 timeType:0 set:false omitEmpty:false}}"
            raise structural_error(f"tags don't match ({tag} vs {header}) {parameter_text} {go_type} @{at}")
        return self._read_value(header, start, at)

    def _read_value(self, header: Header, start: int, at: int) -> DERValue:
        if at + header.length > len(self._data):
            raise syntax_error("data truncated")
        self._at = at + header.length
        return DERValue(header, self._data[at : self._at], self._data[start : self._at])


def elements(data: bytes, tag: int) -> list[DERValue]:
    """Return the values of a sequence of one tag, or of any tag if it is negative (`parseSequenceOf`). Raises ASN1Error."""
    at = 0
    while at < len(data):
        header, at = read_header(data, at)
        if tag >= 0 and (header.tag_class, header.is_compound, header.tag) != (0, True, tag):
            raise structural_error("sequence tag mismatch")
        if at + header.length > len(data):
            raise syntax_error("truncated sequence")
        at += header.length
    reader, values = DERReader(data), []
    while reader.rest:
        values.append(reader.any())
    return values


def is_minimal(data: bytes) -> bool:
    """Return whether the bytes of an integer are as few as possible, but at least one."""
    if len(data) < 2:
        return bool(data)
    return not ((data[0] == 0 and not data[1] & 0x80) or (data[0] == 0xFF and data[1] & 0x80))


def integer(data: bytes) -> int:
    """Return an int64. Raises ASN1Error."""
    if not data:
        raise structural_error("empty integer")
    if not is_minimal(data):
        raise structural_error("integer not minimally-encoded")
    if len(data) > 8:
        raise structural_error("integer too large")
    return int.from_bytes(data, signed=True)


def bit_string(data: bytes) -> bytes:
    """Return the bits of a bit string, aligned to the right. Raises ASN1Error."""
    if not data:
        raise syntax_error("zero length BIT STRING")
    padding = data[0]
    if padding > 7 or (len(data) == 1 and padding) or data[-1] & ((1 << padding) - 1):
        raise syntax_error("invalid padding bits in BIT STRING")
    return (int.from_bytes(data[1:]) >> padding).to_bytes(len(data) - 1) if padding else data[1:]


def object_identifier(data: bytes) -> tuple[int, ...]:
    """Return the numbers of an object identifier. Raises ASN1Error."""
    if not data:
        raise syntax_error("zero length OBJECT IDENTIFIER")
    first, at = _base128(data, 0)
    # The first two numbers are encoded as one: 40 times the first, which is at most 2, plus the second.
    numbers = [first // 40, first % 40] if first < 80 else [2, first - 80]
    while at < len(data):
        number, at = _base128(data, at)
        numbers.append(number)
    return tuple(numbers)


def text_of(value: DERValue) -> str | None:
    """Return the text of a string value, or None for another value. Raises ASN1Error for an invalid character.

    Other universal values are checked as Go checks them when it decodes into an interface.
    """
    if value.header.is_compound or value.header.tag_class:
        return None
    reader = _READERS.get(value.header.tag)
    return reader(value.data) if reader is not None else None


def _limited(name: str, allowed: frozenset[int]) -> Callable[[bytes], str]:
    def read(data: bytes) -> str:
        if not allowed.issuperset(data):
            raise syntax_error(f"{name} contains invalid character")
        return data.decode("ascii")

    return read


def _utf8(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise ASN1Error("asn1: invalid UTF-8 string") from None


def _bmp(data: bytes) -> str:
    points = [int.from_bytes(data[i : i + 2]) for i in range(0, len(data), 2)]
    # Go strips a terminating zero, as some encoders write one.
    if points[-1:] == [0]:
        points.pop()
    wrong = any(p >= 0xFFFE or 0xFDD0 <= p <= 0xFDEF or 0xD800 <= p <= 0xDFFF for p in points)
    if len(data) % 2 or wrong:
        raise ASN1Error("invalid BMPString")
    return "".join(map(chr, points))


def _checked(check: Callable[[bytes], object]) -> Callable[[bytes], None]:
    def read(data: bytes) -> None:
        check(data)

    return read


def boolean(data: bytes) -> bool:
    """Return a boolean. Raises ASN1Error."""
    if data not in (b"\x00", b"\xff"):
        raise syntax_error("invalid boolean")
    return data == b"\xff"


_READERS: Final[dict[int, Callable[[bytes], str | None]]] = {
    UTF8_STRING: _utf8,
    NUMERIC_STRING: _limited("NumericString", _NUMERIC),
    PRINTABLE_STRING: _limited("PrintableString", _PRINTABLE),
    T61_STRING: lambda data: data.decode("latin-1"),
    IA5_STRING: _limited("IA5String", frozenset(range(0x80))),
    BMP_STRING: _bmp,
    BOOLEAN: _checked(boolean),
    INTEGER: _checked(integer),
    BIT_STRING: _checked(bit_string),
    OID: _checked(object_identifier),
}

"""IP addresses and prefixes as Go's `net/netip` parses them, with its error texts."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address
from typing import NamedTuple

from replay.go.format import quote

_HEX = re.compile(r"[0-9a-fA-F]*", re.ASCII)
_BITS = re.compile(r"[0-9]|[1-9][0-9]*", re.ASCII)


class AddressError(ValueError):
    """Text that is not an address or prefix. `str()` is Go's message."""


class Address(NamedTuple):
    """Address as a number of 32 or 128 bits, with its IPv6 zone."""

    number: int
    bits: int
    zone: str = ""

    def __str__(self) -> str:
        """Return the canonical form, without zone."""
        return str(IPv4Address(self.number) if self.bits == 32 else IPv6Address(self.number))

    @property
    def is_mapped(self) -> bool:
        """Whether it is an IPv4 address mapped to IPv6 (`::ffff:1.2.3.4`)."""
        return self.bits == 128 and self.number >> 32 == 0xFFFF

    def masked(self, length: int) -> Address:
        """Return the address with only the first `length` bits, the others zero."""
        rest = self.bits - length
        return self._replace(number=self.number >> rest << rest)


class Prefix(NamedTuple):
    """Address with the number of its network bits."""

    address: Address
    length: int

    def __str__(self) -> str:
        """Return `address/length`."""
        return f"{self.address}/{self.length}"

    def contains(self, address: Address) -> bool:
        """Return whether the network contains an address of the same family."""
        return self.address.bits == address.bits and self.address.masked(self.length) == address.masked(self.length)

    def overlaps(self, other: Prefix) -> bool:
        """Return whether two networks of the same family share an address."""
        shorter = min(self.length, other.length)
        return self.address.bits == other.address.bits and (
            self.address.masked(shorter) == other.address.masked(shorter)
        )


def parse_address(text: str) -> Address:
    """Parse an address. Raises AddressError."""
    for char in text:
        if char == ".":
            return Address(_ipv4(text, text), 32)
        if char == ":":
            return _ipv6(text)
        if char == "%":
            raise _problem(text, "missing IPv6 address")
    raise _problem(text, "unable to parse IP")


def parse_prefix(text: str) -> Prefix:
    """Parse a prefix. Raises AddressError."""
    address_text, slash, length = text.rpartition("/")
    if not slash:
        raise _prefix_problem(text, "no '/'")
    try:
        address = parse_address(address_text)
    except AddressError as error:
        raise _prefix_problem(text, str(error)) from None
    if address.zone:
        raise _prefix_problem(text, "IPv6 zones cannot be present in a prefix")
    # Go parses the length as a 64-bit integer. A greater number is no number to it, rather than out of range.
    if not _BITS.fullmatch(length) or len(length) > 19 or int(length) >= 2**63:
        raise _prefix_problem(text, f"bad bits after slash: {quote(length)}")
    if int(length) > address.bits:
        raise _prefix_problem(text, "prefix length out of range")
    return Prefix(address, int(length))


def _problem(text: str, message: str, at: str = "") -> AddressError:
    where = f" (at {quote(at)})" if at else ""
    return AddressError(f"ParseAddr({quote(text)}): {message}{where}")


def _prefix_problem(text: str, message: str) -> AddressError:
    return AddressError(f"netip.ParsePrefix({quote(text)}): {message}")


def _ipv4(text: str, part: str) -> int:
    """Return the number of a dotted address, which is a whole text or its end. Raises AddressError."""
    fields, value, digits = [0], 0, 0
    for index, char in enumerate(part):
        if "0" <= char <= "9":
            if digits == 1 and value == 0:
                raise _problem(text, "IPv4 field has octet with leading zero")
            value, digits = value * 10 + int(char), digits + 1
            if value > 255:
                raise _problem(text, "IPv4 field has value >255")
            fields[-1] = value
        elif char == ".":
            if index in (0, len(part) - 1) or part[index - 1] == ".":
                raise _problem(text, "IPv4 field must have at least one digit", part[index:])
            if len(fields) == 4:
                raise _problem(text, "IPv4 address too long")
            fields.append(0)
            value = digits = 0
        else:
            raise _problem(text, "unexpected character", part[index:])
    if len(fields) < 4:
        raise _problem(text, "IPv4 address too short")
    return int.from_bytes(bytes(fields), "big")


def _ipv6(text: str) -> Address:
    rest, percent, zone = text.partition("%")
    if percent and not zone:
        raise _problem(text, "zone must be a non-empty string")
    if rest == "::":
        return Address(0, 128, zone)
    groups: list[int] = []
    ellipsis = 0 if rest.startswith("::") else None
    rest = rest[2:] if ellipsis == 0 else rest
    while len(groups) < 8:
        digits = _hex_group(text, rest)
        if rest[len(digits) : len(digits) + 1] == ".":
            groups.extend(_embedded_ipv4(text, rest, len(groups), ellipsis))
            rest = ""
        else:
            groups.append(int(digits, 16))
            rest = rest[len(digits) :]
        if rest:
            rest = _after_colon(text, rest)
            if rest.startswith(":"):
                ellipsis, rest = _after_ellipsis(text, rest, len(groups), ellipsis)
        if not rest:
            break
    if rest:
        raise _problem(text, "trailing garbage after address", rest)
    return Address(_number(text, groups, ellipsis), 128, zone)


def _after_ellipsis(text: str, rest: str, count: int, ellipsis: int | None) -> tuple[int, str]:
    if ellipsis is not None:
        raise _problem(text, "multiple :: in address", rest)
    return count, rest[1:]


def _hex_group(text: str, rest: str) -> str:
    match = _HEX.match(rest)
    digits = match[0] if match else ""
    if len(digits) > 4:
        raise _problem(text, "each group must have 4 or less digits", rest)
    if not digits:
        raise _problem(text, "each colon-separated field must have at least one digit", rest)
    return digits


def _embedded_ipv4(text: str, rest: str, count: int, ellipsis: int | None) -> tuple[int, int]:
    if ellipsis is None and count != 6:
        raise _problem(text, "embedded IPv4 address must replace the final 2 fields of the address", rest)
    if count > 6:
        raise _problem(text, "too many hex fields to fit an embedded IPv4 at the end of the address", rest)
    return divmod(_ipv4(text, rest), 0x10000)


def _after_colon(text: str, rest: str) -> str:
    if not rest.startswith(":"):
        raise _problem(text, "unexpected character, want colon", rest)
    if len(rest) == 1:
        raise _problem(text, "colon must be followed by more characters", rest)
    return rest[1:]


def _number(text: str, groups: list[int], ellipsis: int | None) -> int:
    missing = 8 - len(groups)
    if missing and ellipsis is None:
        raise _problem(text, "address string too short")
    if not missing and ellipsis is not None:
        raise _problem(text, "the :: must expand to at least one field of zeros")
    if ellipsis is not None:
        groups = [*groups[:ellipsis], *[0] * missing, *groups[ellipsis:]]
    return sum(group << 16 * (7 - index) for index, group in enumerate(groups))

"""IP addresses in CEL (apiserver `pkg/cel/library/ip.go`, `pkg/cel/ip.go`)."""

from __future__ import annotations

from replay.cel.declare.cost import ONE, STRING_FACTOR
from replay.cel.declare.library import Function, Implementation, Library, overloaded
from replay.cel.value.equality import NO_SUCH_OVERLOAD
from replay.cel.value.types import BOOL, INT, STRING, opaque_type
from replay.cel.value.values import EvalError, OpaqueValue, Value
from replay.cellib.library.cost import argument_estimate, first_double_traversal, first_traversal, nominal_cost
from replay.go.format import quote
from replay.go.netip import Address, AddressError, parse_address

IP_TYPE = opaque_type("net.IP")


class IPValue(OpaqueValue):
    """An IPv4 or IPv6 address."""

    __slots__ = ("address",)
    cel_type = IP_TYPE
    go_type = "cel.IP"
    native_go_type = "netip.Addr"

    def __init__(self, address: Address) -> None:
        """`address` is an address without a zone."""
        self.address = address

    @property
    def size(self) -> int:
        """Length in bytes, for costs."""
        return self.address.bits // 8

    def __str__(self) -> str:
        """Return the canonical form."""
        return str(self.address)

    def equal(self, other: Value) -> bool:
        """Return whether the addresses are equal. Raises `EvalError` for a value other than an address."""
        if not isinstance(other, IPValue):
            raise EvalError(NO_SUCH_OVERLOAD)
        return self.address == other.address


def parse_ip(text: str) -> IPValue:
    """Implement `ip(text)`. Raises `EvalError` for other texts, for zones, and for IPv4 addresses mapped to IPv6."""
    try:
        address = parse_address(text)
    except AddressError as error:
        raise EvalError(f"IP Address {quote(text)} parse error during conversion from string: {error}") from None
    if address.zone:
        raise EvalError(f"IP address {quote(text)} with zone value is not allowed")
    if address.is_mapped:
        raise EvalError(f"IPv4-mapped IPv6 address {quote(text)} is not allowed")
    return IPValue(address)


def _is_ip(text: str) -> bool:
    try:
        parse_ip(text)
    except EvalError:
        return False
    return True


def _is_canonical(text: str) -> bool:
    # A text that is no address is an error here, not false (`ipIsCanonical`).
    return str(parse_ip(text)) == text


def _top(address: Address, bits: int) -> int:
    return address.number >> address.bits - bits


def _is_loopback(address: Address) -> bool:
    return _top(address, 8) == 127 if address.bits == 32 else address.number == 1


def _is_link_local_unicast(address: Address) -> bool:
    # The prefix has ten bits: fe80::/10.
    return _top(address, 16) == 0xA9FE if address.bits == 32 else _top(address, 10) == 0xFE80 >> 6


def _is_link_local_multicast(address: Address) -> bool:
    # The mask leaves out the flags of the address, as `netip.Addr.IsLinkLocalMulticast` does.
    return _top(address, 24) == 0xE00000 if address.bits == 32 else _top(address, 16) & 0xFF0F == 0xFF02


def _is_multicast(address: Address) -> bool:
    return _top(address, 4) == 0xE if address.bits == 32 else _top(address, 8) == 0xFF


def _is_global_unicast(address: Address) -> bool:
    if address.number == 0 or (address.bits == 32 and address.number == 0xFFFFFFFF):
        return False
    # Private addresses count as global too (`netip.Addr.IsGlobalUnicast`).
    return not (_is_loopback(address) or _is_multicast(address) or _is_link_local_unicast(address))


def _member(name: str, id_: str, body: Implementation) -> Function:
    result = INT if name == "family" else BOOL
    return overloaded(name, (id_, (IP_TYPE,), result, lambda ip: body(ip.address)), member=True, cost=nominal_cost)


IP = Library(
    name="kubernetes.net.ip",
    functions=(
        overloaded(
            "ip", ("string_to_ip", (STRING,), IP_TYPE, parse_ip), cost=first_traversal, estimate=argument_estimate()
        ),
        _member("family", "ip_family", lambda address: 4 if address.bits == 32 else 6),
        overloaded(
            "ip.isCanonical",
            ("ip_is_canonical", (STRING,), BOOL, _is_canonical),
            cost=first_double_traversal,
            estimate=argument_estimate(2 * STRING_FACTOR),
        ),
        _member("isUnspecified", "ip_is_unspecified", lambda address: address.number == 0),
        _member("isLoopback", "ip_is_loopback", _is_loopback),
        _member("isLinkLocalMulticast", "ip_is_link_local_multicast", _is_link_local_multicast),
        _member("isLinkLocalUnicast", "ip_is_link_local_unicast", _is_link_local_unicast),
        _member("isGlobalUnicast", "ip_is_global_unicast", _is_global_unicast),
        overloaded("isIP", ("is_ip", (STRING,), BOOL, _is_ip), cost=first_traversal, estimate=argument_estimate()),
        overloaded("string", ("ip_to_string", (IP_TYPE,), STRING, str)),
    ),
    types=(IP_TYPE,),
    equality={IP_TYPE.name: ONE},
)
"""`ip`, `isIP` and the members of addresses."""

"""Networks in CEL (apiserver `pkg/cel/library/cidr.go`, `pkg/cel/cidr.go`)."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from replay.cel.declare.cost import ONE, STRING_FACTOR, AstNode, CallEstimate, CallEstimator, Range, scaled, sizer_size
from replay.cel.declare.library import Args, Function, Implementation, Library, Overload, overloaded
from replay.cel.value.equality import NO_SUCH_OVERLOAD
from replay.cel.value.types import BOOL, INT, STRING, opaque_type
from replay.cel.value.values import EvalError, OpaqueValue, Value
from replay.cellib.library.cost import argument_estimate, first_traversal, nominal_cost
from replay.cellib.library.ip import IP_TYPE, IPValue, parse_ip
from replay.cellib.version import KubernetesVersion
from replay.go.format import quote
from replay.go.netip import AddressError, Prefix, parse_prefix

CIDR_TYPE = opaque_type("net.CIDR")


class CIDRValue(OpaqueValue):
    """A network: an address and a prefix length."""

    __slots__ = ("prefix",)
    cel_type = CIDR_TYPE
    go_type = "cel.CIDR"
    native_go_type = "netip.Prefix"

    def __init__(self, prefix: Prefix) -> None:
        """`prefix` is the parsed network."""
        self.prefix = prefix

    @property
    def size(self) -> int:
        """Number of bytes that the prefix length covers, for costs."""
        # The double negation rounds up.
        return -(-self.prefix.length // 8)

    def __str__(self) -> str:
        """Return the network as `address/length`."""
        return str(self.prefix)

    def equal(self, other: Value) -> bool:
        """Return whether address and length are equal. Raises `EvalError` for a value other than a network."""
        if not isinstance(other, CIDRValue):
            raise EvalError(NO_SUCH_OVERLOAD)
        return self.prefix == other.prefix


def parse_cidr(text: str) -> CIDRValue:
    """Implement `cidr(text)`. Raises `EvalError` for other texts and for IPv4 addresses mapped to IPv6."""
    # The server wraps the error twice in the same words.
    where = "network address parse error during conversion from string: "
    try:
        prefix = parse_prefix(text)
    except AddressError as error:
        raise EvalError(f"{where}{where}{error}") from None
    if prefix.address.is_mapped:
        raise EvalError(f"{where}IPv4-mapped IPv6 address {quote(text)} is not allowed")
    return CIDRValue(prefix)


def _is_cidr(text: str) -> bool:
    try:
        parse_cidr(text)
    except EvalError:
        return False
    return True


def _contains_ip(cidr: CIDRValue, ip: IPValue) -> bool:
    return cidr.prefix.contains(ip.address)


def _contains_cidr(cidr: CIDRValue, other: CIDRValue) -> bool:
    return cidr.prefix.overlaps(other.prefix) and cidr.prefix.length <= other.prefix.length


def _begins_as(cidr: CIDRValue, other: CIDRValue) -> bool:
    """Return `containsCIDR` of Kubernetes before 1.32: the address of the other network must be that of this one."""
    begin = cidr.prefix.address.masked(cidr.prefix.length)
    return begin == other.prefix.address and cidr.prefix.length <= other.prefix.length


def _contains_ip_text(cidr: CIDRValue, ip: str) -> bool:
    try:
        return _contains_ip(cidr, parse_ip(ip))
    except EvalError:
        # The server passes the parse error on as if it were an address.
        raise EvalError(NO_SUCH_OVERLOAD) from None


def _contains_cidr_text(cidr: CIDRValue, other: str) -> bool:
    return _contains_cidr(cidr, parse_cidr(other))


def _begins_as_text(cidr: CIDRValue, other: str) -> bool:
    return _begins_as(cidr, parse_cidr(other))


def _ip_cost(args: Args, _result: Value) -> int:
    return scaled(sizer_size(args[0]) * 2, STRING_FACTOR)


def _cidr_cost(args: Args, result: Value) -> int:
    return _ip_cost(args, result) + scaled(sizer_size(args[0]), STRING_FACTOR) + 1


def _text_cost(args: Args) -> int:
    return scaled(sizer_size(args[1]), STRING_FACTOR)


_ADDRESS = Range(4, 16)
"""Size of an address in bytes."""


def _containment(*, of_network: bool = False, of_text: bool = False) -> CallEstimator:
    """Return the estimate of `containsIP`, or of `containsCIDR` with `of_network`. With `of_text` its argument is parsed."""
    bytes_compared = _ADDRESS.plus(_ADDRESS).scaled(STRING_FACTOR)
    if of_network:
        bytes_compared = bytes_compared.plus(_ADDRESS.scaled(STRING_FACTOR)).plus(ONE)

    def estimate(_target: AstNode | None, args: Sequence[AstNode]) -> CallEstimate:
        return CallEstimate(bytes_compared.plus(args[0].any_size.scaled(STRING_FACTOR)) if of_text else bytes_compared)

    return estimate


def _contains(of_text: Implementation, of_network: Implementation) -> Function:
    """Return the function `containsCIDR` of a text or network."""
    return Function(
        "containsCIDR",
        (
            Overload(
                "cidr_contains_cidr_string",
                (CIDR_TYPE, STRING),
                BOOL,
                member=True,
                implementation=of_text,
                cost=_cidr_cost,
                cost_by_id=lambda args, result: _cidr_cost(args, result) + _text_cost(args),
                estimate=_containment(of_network=True, of_text=True),
            ),
            Overload(
                "cidr_contains_cidr",
                (CIDR_TYPE, CIDR_TYPE),
                BOOL,
                member=True,
                implementation=of_network,
                cost=_cidr_cost,
                estimate=_containment(of_network=True),
            ),
        ),
    )


CIDR = Library(
    name="kubernetes.net.cidr",
    functions=(
        overloaded(
            "cidr",
            ("string_to_cidr", (STRING,), CIDR_TYPE, parse_cidr),
            cost=first_traversal,
            estimate=argument_estimate(),
        ),
        Function(
            "containsIP",
            (
                Overload(
                    "cidr_contains_ip_string",
                    (CIDR_TYPE, STRING),
                    BOOL,
                    member=True,
                    implementation=_contains_ip_text,
                    cost=_ip_cost,
                    cost_by_id=lambda args, result: _ip_cost(args, result) + _text_cost(args),
                    estimate=_containment(of_text=True),
                ),
                Overload(
                    "cidr_contains_ip_ip",
                    (CIDR_TYPE, IP_TYPE),
                    BOOL,
                    member=True,
                    implementation=_contains_ip,
                    cost=_ip_cost,
                    estimate=_containment(),
                ),
            ),
        ),
        _contains(_contains_cidr_text, _contains_cidr),
        overloaded(
            "ip",
            ("cidr_ip", (CIDR_TYPE,), IP_TYPE, lambda cidr: IPValue(cidr.prefix.address)),
            member=True,
            cost=first_traversal,
            cost_by_id=nominal_cost,
        ),
        overloaded(
            "prefixLength",
            ("cidr_prefix_length", (CIDR_TYPE,), INT, lambda cidr: cidr.prefix.length),
            member=True,
            cost=nominal_cost,
        ),
        overloaded(
            "masked",
            (
                "cidr_masked",
                (CIDR_TYPE,),
                CIDR_TYPE,
                lambda cidr: CIDRValue(Prefix(cidr.prefix.address.masked(cidr.prefix.length), cidr.prefix.length)),
            ),
            member=True,
            cost=nominal_cost,
        ),
        overloaded(
            "isCIDR", ("is_cidr", (STRING,), BOOL, _is_cidr), cost=first_traversal, estimate=argument_estimate()
        ),
        overloaded("string", ("cidr_to_string", (CIDR_TYPE,), STRING, str)),
    ),
    types=(CIDR_TYPE,),
    equality={CIDR_TYPE.name: ONE},
)
"""`cidr`, `isCIDR` and the members of networks."""

_UNTIL_1_31 = replace(CIDR, functions=(*CIDR.functions, _contains(_begins_as_text, _begins_as)))


def networks(server: KubernetesVersion) -> Library:
    """Return the library of a server."""
    return CIDR if server.minor >= 32 else _UNTIL_1_31

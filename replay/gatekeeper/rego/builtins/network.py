"""Builtins for IP addresses and versions (`opa/v1/topdown/cidr.go`, `semver.go`)."""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from functools import lru_cache

from replay.gatekeeper.rego.builtins.operand import BuiltinError, builtin, is_valid, plain, strings_of, wrong
from replay.gatekeeper.rego.lexer import TooLargeError
from replay.gatekeeper.rego.value import Object, Set, UnknownTouchedError, Value, iterate, members_of, pairs_of

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_MOST, _MOST_DIGITS = 2**17, 4_000
_CIDR = re.compile(r"([0-9a-fA-F:.]+)/0*([0-9]{1,3})", re.ASCII)
_MAPPED = ipaddress.IPv6Network("::ffff:0:0/96")


@lru_cache(maxsize=4096)
def _network(text: str) -> Network | None:
    """Return the network of a text, or None if `net.ParseCIDR` refuses it."""
    match = _CIDR.fullmatch(text)
    if match is None:
        return None
    try:
        network = ipaddress.ip_network(f"{match[1]}/{match[2]}", strict=False)
    except ValueError:
        return None
    # Go's `net.IPNet` does not tell a network of IPv4-mapped addresses from the IPv4 network.
    if isinstance(network, ipaddress.IPv6Network) and network.subnet_of(_MAPPED):
        return ipaddress.IPv4Network((int(network[0]) & 0xFFFFFFFF, network.prefixlen - 96))
    return network


def network_of(text: str) -> Network:
    """Return the network of a text. Raises BuiltinError."""
    found = _network(text)
    if found is None:
        raise BuiltinError
    return found


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    if "%" in text:
        return None
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    # Go's `net.IP` does not tell an IPv4-mapped address from the IPv4 address.
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped or found


def _contains(cidr: str, other: str) -> bool:
    network = network_of(cidr)
    if (address := _address(other)) is not None:
        return address.version == network.version and address in network
    inner = network_of(other)
    return inner.version == network.version and inner.subnet_of(network)  # type: ignore[arg-type]


@builtin("net.cidr_contains", "ss")
def _cidr_contains(cidr: str, other: str) -> Value:
    return _contains(cidr, other)


@builtin("net.cidr_overlap", "ss")
def _cidr_overlap(cidr: str, other: str) -> Value:
    return _contains(cidr, other)


@builtin("net.cidr_intersects", "ss")
def _intersects(one: str, other: str) -> Value:
    a, b = network_of(one), network_of(other)
    return a.version == b.version and a.overlaps(b)


@plain("net.cidr_is_valid", 1)
def _is_valid(text: Value) -> Value:
    if type(text) is not str:
        wrong(text)
        return False
    return _network(text) is not None


@builtin("net.cidr_expand", "s")
def _expand(text: str) -> Value:
    network = network_of(text)
    if network.num_addresses > _MOST:
        raise TooLargeError
    return Set(str(address) for address in network)


def _indexed(value: Value) -> list[tuple[Value, Value]]:
    if type(value) is str:
        return [(value, value)]
    pairs: list[tuple[Value, Value]]
    if type(value) is list:
        pairs = [(item, place) for place, item in enumerate(value)]
    elif type(value) is Set:
        pairs = [(item, item) for item in members_of(value)]
    elif isinstance(value, dict | Object):
        pairs = [(item, key) for key, item in pairs_of(value)]
    else:
        wrong(value)
        return []
    found = []
    for item, place in pairs:
        if type(item) is not str and not (type(item) is list and item):
            wrong(item)
            raise BuiltinError
        found.append((item if type(item) is str else item[0], place))
    return found


@builtin("net.cidr_contains_matches", "xx")
def _contains_matches(cidrs: Value, others: Value) -> Value:
    return Set(
        [place, other_place]
        for cidr, place in _indexed(cidrs)
        for other, other_place in _indexed(others)
        if _contains(*strings_of((cidr, other)))
    )


@builtin("net.cidr_merge", "c")
def _merge(values: Value) -> Value:
    networks: list[Network] = []
    written: dict[str, str] = {}
    for text in iterate(values):
        if type(text) is not str:
            wrong(text)
            raise BuiltinError
        address = _address(text)
        if isinstance(address, ipaddress.IPv4Address):
            # An address without a length gets that of its class (`IP.DefaultMask`).
            first = int(address) >> 24
            length = 8 if first < 128 else 16 if first < 192 else 24
            networks.append(ipaddress.ip_network(f"{address}/{length}", strict=False))
            written[str(networks[-1])] = f"{address}/{length}"
        elif address is not None:
            raise BuiltinError
        else:
            networks.append(network_of(text))
            if ":" in text and networks[-1].version == 4:
                raise UnknownTouchedError("replay does not evaluate net.cidr_merge with IPv4-mapped addresses")
    merged: list[Network] = []
    for version in (4, 6):
        merged += ipaddress.collapse_addresses([network for network in networks if network.version == version])  # type: ignore[type-var]
    counts = Counter(networks)
    return Set(written.get(str(each), str(each)) if counts[each] == 1 else str(each) for each in merged)


_IDENTIFIERS = re.compile(r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*", re.ASCII)


def _version(text: str) -> tuple[tuple[int, int, int], str]:
    """Return the numbers of a version and its pre-release. Raises BuiltinError."""
    rest, _, metadata = text.removeprefix("v").partition("+")
    rest, _, pre = rest.partition("-")
    if (metadata and not _IDENTIFIERS.fullmatch(metadata)) or (pre and not _IDENTIFIERS.fullmatch(pre)):
        raise BuiltinError
    numbers = rest.split(".")
    if any(len(part) > _MOST_DIGITS for part in numbers):
        raise TooLargeError
    if len(numbers) != 3 or not all(
        re.fullmatch(r"[+-]?[0-9]+", part, re.ASCII) and abs(int(part)) < 2**63 for part in numbers
    ):
        raise BuiltinError
    return (int(numbers[0]), int(numbers[1]), int(numbers[2])), pre


@builtin("semver.compare", "ss")
def _compare(one: str, other: str) -> Value:
    (mine, pre), (theirs, other_pre) = _version(one), _version(other)
    if mine != theirs:
        return 1 if mine > theirs else -1
    if pre == other_pre:
        return 0
    if not pre or not other_pre:
        return -1 if pre else 1
    ours, others = pre.split("."), other_pre.split(".")
    for a, b in zip(ours, others, strict=False):
        if a.isdecimal() != b.isdecimal():
            return -1 if a.isdecimal() else 1
        one_key, other_key = (int(a), int(b)) if a.isdecimal() else (a, b)
        if one_key != other_key:
            return 1 if one_key > other_key else -1  # type: ignore[operator]
    return 1 if len(ours) > len(others) else -1


@plain("semver.is_valid", 1)
def _semver_is_valid(text: Value) -> Value:
    return is_valid(_version, text)

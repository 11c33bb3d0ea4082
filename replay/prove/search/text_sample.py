"""Texts that a regular expression finds, or just fails to find; texts of the form of others."""

from __future__ import annotations

import ipaddress
import random
import re
from collections.abc import Iterator

from replay.go.regexp import parts_of_pattern
from replay.go.regexp_class import UnsupportedRegexpError
from replay.go.regexp_part import (
    Alternatives,
    Characters,
    Concatenation,
    Ranges,
    RegexpPart,
    Repeated,
    UnlistedCharactersError,
)
from replay.go.regexp_tree import RegexpError

_MOST_REPEATS = 3
_SEED = 20
_PLEASANT = "ax1-"


def samples_of_pattern(pattern: str, most: int) -> Iterator[str]:
    """Yield some texts around a pattern, the same each time; none if its characters are unknown.

    They are guesses. The caller checks them with the matcher.
    """
    chooser = random.Random(_SEED)  # noqa: S311 - nothing depends on its being secret
    try:
        part = parts_of_pattern(pattern)
    except (RegexpError, UnsupportedRegexpError, UnlistedCharactersError, RecursionError):
        return
    for _ in range(most):
        text = "".join(_sample(part, chooser))
        yield text
    yield "x" + text + "x"
    yield text.replace(".", "x")


def _sample(part: RegexpPart, chooser: random.Random) -> Iterator[str]:
    match part:
        case Characters():
            yield _character(part.ranges, chooser)
        case Concatenation():
            for each in part.parts:
                yield from _sample(each, chooser)
        case Alternatives():
            yield from _sample(chooser.choice(part.parts), chooser)
        case Repeated():
            most = part.least + _MOST_REPEATS
            for _ in range(chooser.randint(part.least, most if part.most is None else min(part.most, most))):
                yield from _sample(part.part, chooser)


def _character(ranges: Ranges, chooser: random.Random) -> str:
    """Return one of several characters, preferably a common one."""
    if sum(high - low + 1 for low, high in ranges) > 1000:
        usual = [each for each in _PLEASANT if any(low <= ord(each) <= high for low, high in ranges)]
        if usual:
            return chooser.choice(usual)
    return chr(chooser.randint(*chooser.choice(ranges))) if ranges else ""


def samples_beside(text: str) -> Iterator[str]:
    """Texts of the form that a text has, which mean something else: addresses, versions, durations; URLs of hosts."""
    if (network := _network(text)) is not None:
        yield from _addresses(network)
    if re.fullmatch(r"\d+\.\d+\.\d+", text):
        parts = [int(each) for each in text.split(".")]
        for index in range(3):
            for step in (1, -1):
                moved = [*parts[:index], max(0, parts[index] + step), *parts[index + 1 :]]
                yield ".".join(map(str, moved))
    if (match := re.fullmatch(r"(\d+)(h|m|s|ms)", text)) is not None:
        number, unit = int(match[1]), match[2]
        yield from (f"{number + 1}{unit}", f"{max(0, number - 1)}{unit}", f"{number}{unit}1ms", "1ms", "10000h")
    if re.fullmatch(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", text):
        yield from (f"https://{text}", f"https://{text}:8443/path?a=b", f"http://www.{text}")


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None


def _addresses(network: ipaddress.IPv4Network | ipaddress.IPv6Network) -> Iterator[str]:
    """The ends of a network and what lies just outside, and networks around it."""
    first, last = network.network_address, network.broadcast_address
    yield from (str(first), str(last), str(first + 1) if first != last else str(first))
    for address, step in ((first, -1), (last, 1)):
        try:
            yield str(address + step)
        except ipaddress.AddressValueError:
            continue
    if network.prefixlen:
        yield str(network.supernet())
        larger = network.supernet(new_prefix=max(0, network.prefixlen - 8))
        yield from (str(larger.broadcast_address), str(larger))
    if network.prefixlen < network.max_prefixlen:
        yield str(next(network.subnets()))

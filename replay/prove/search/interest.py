"""Values that policies read, and the values at which their results can change.

For a regular expression these are texts that it matches, or just fails to match.
"""

from __future__ import annotations

import ipaddress
import json
import random
import re
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct, field

from replay.cel.ast import operator
from replay.cel.ast.tree import (
    Call,
    Const,
    Expr,
    Ident,
    ListExpr,
    Select,
)
from replay.cel.ast.walk import children
from replay.cellib.expression import CompiledExpression
from replay.go.regexp import parts_of_pattern
from replay.go.regexp_tree import (
    Alternatives,
    Characters,
    Concatenation,
    Ranges,
    RegexpError,
    RegexpPart,
    Repeated,
    UnlistedCharactersError,
    UnsupportedRegexpError,
)
from replay.kube.quantity import QuantityError, parse_quantity

_MOST_REPEATS = 3
_SEED = 20
_READABLE_CHARACTERS = "ax1-"


def samples_of_pattern(pattern: str, most: int) -> Iterator[str]:
    """Yield some texts around a pattern, the same each time. There are none if its characters are unknown.

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
    # A large class, such as `.`, has mostly characters that nobody reads.
    if sum(high - low + 1 for low, high in ranges) > 1000:
        usual = [each for each in _READABLE_CHARACTERS if any(low <= ord(each) <= high for low, high in ranges)]
        if usual:
            return chooser.choice(usual)
    return chr(chooser.randint(*chooser.choice(ranges))) if ranges else ""


def _similar_texts(text: str) -> Iterator[str]:
    """Yield texts of the same form with another meaning: addresses, versions, durations, and URLs of host names."""
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
    """Yield the first and last address of a network, the addresses beside it, and larger and smaller networks."""
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


PathSteps = tuple[str, ...]
"""Keys of a path. `[]` stands for any element of a list or entry of a map."""

ANY = "[]"
_SEGMENT = re.compile(r"""\.?([^.\[\]"]+)|\[(?:("(?:[^"\\]|\\.)*")|)\]""")
_MOST_SAMPLES = 6


class InterestingValues(Struct):
    """Values worth trying. `paths` are places by binding. `by_field` has values by the field that they are compared with."""

    paths: dict[str, set[PathSteps]] = field(default_factory=dict)
    texts: dict[str, None] = field(default_factory=dict)
    numbers: dict[float, None] = field(default_factory=dict)
    by_field: dict[str, dict[str, None]] = field(default_factory=dict)

    def add_path(self, path: str) -> None:
        """Add a path of a footprint."""
        root, *steps = segments(path)
        self.paths.setdefault(root, set()).add(tuple(steps))

    def add_text(self, text: str, fields: Iterable[str] = ()) -> None:
        """Add a text, and similar texts."""
        for each in _neighbouring_texts(text):
            self.texts[each] = None
            for name in fields:
                self.by_field.setdefault(name, {})[each] = None

    def add_number(self, number: float) -> None:
        """Add a number, and the numbers beside it."""
        for each in (number, number - 1, number + 1, -number):
            self.numbers[each] = None


def segments(path: str) -> PathSteps:
    """Return the parts of a path: `object.a[]["b.c"]?` gives `object`, `a`, `[]`, `b.c`."""
    names = _SEGMENT.findall(path.removesuffix("?"))
    return tuple(name or (json.loads(quoted) if quoted else ANY) for name, quoted in names)


def _neighbouring_texts(text: str) -> Iterator[str]:
    yield text
    if len(text) > 300:
        return
    yield text + "x"
    if text:
        yield text[:-1]
        yield "x" + text
        yield f"x{text}x"
    stripped = text.rstrip("/:-.@")
    if stripped != text:
        yield stripped
        yield stripped + "x"
        # A check of the prefix without its separator accepts this one, a usual mistake.
        yield f"{stripped}.evil.example/app:1"
        yield text + "app:1.0"
    if text.startswith(".") and "/" not in text:
        yield from (f"www{text}", f"www{text}x", f"https://www{text}", f"https://www{text}:8443/path")
    if text.swapcase() != text:
        yield text.upper()
        yield text.lower()
    yield from _quantities(text)
    yield from _similar_texts(text)


def _quantities(text: str) -> Iterator[str]:
    try:
        parse_quantity(text)
    except QuantityError:
        return
    match = re.match(r"[+-]?[0-9.]+", text)
    if match is None:
        return
    number, suffix = match[0], text[match.end() :]
    if number.isdigit():
        for other in (int(number) + 1, int(number) - 1, int(number) * 10, int(number) * 5):
            if other >= 0:
                yield f"{other}{suffix}"
        if not suffix:
            yield from (f"{int(number) * 1000 - 100}m", f"{int(number) * 1000 + 500}m", "500m")
    yield from ("1", "100m", "10Gi", "16Gi", "500Mi", "3000Mi", "100", "1Ti", "1k")


def interest_of(expressions: Iterable[CompiledExpression]) -> InterestingValues:
    """Return the interesting values of compiled expressions, which should include those of their variables."""
    interest = InterestingValues()
    for compiled in expressions:
        for path in compiled.footprint:
            interest.add_path(path)
        if compiled.program is not None:
            _collect(compiled.program.ast.expr, interest)
    return interest


def _collect(node: Expr, interest: InterestingValues) -> None:
    if isinstance(node, Const):
        _add_const(node, interest, ())
        return
    if isinstance(node, Call):
        operands = [each for each in (node.target, *node.args) if each is not None]
        _collect_call(node, operands, interest)
    for child in children(node):
        _collect(child, interest)


def _collect_call(node: Call, operands: list[Expr], interest: InterestingValues) -> None:
    fields = {name for operand in operands for name in _last_names(operand)}
    if node.function == "matches":
        for operand in operands:
            if isinstance(operand, Const) and isinstance(operand.value, str):
                for text in samples_of_pattern(operand.value, _MOST_SAMPLES):
                    interest.add_text(text, fields)
    for constant in _constants(operands):
        _add_const(constant, interest, fields)


def _constants(operands: list[Expr]) -> Iterator[Const]:
    for operand in operands:
        if isinstance(operand, Const):
            yield operand
        elif isinstance(operand, ListExpr):
            yield from (each for each in operand.elements if isinstance(each, Const))


def _add_const(node: Const, interest: InterestingValues, fields: Iterable[str]) -> None:
    value = node.value
    if isinstance(value, str):
        interest.add_text(value, fields)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        interest.add_number(value)


def _last_names(node: Expr) -> Iterator[str]:
    """Yield the last field names of an expression."""
    if isinstance(node, Select):
        yield node.field
    elif isinstance(node, Ident):
        yield node.name
    elif isinstance(node, Call):
        operands = [each for each in (node.target, *node.args) if each is not None]
        if node.function in {operator.INDEX, operator.OPT_INDEX, operator.OPT_SELECT} and isinstance(
            operands[1], Const
        ):
            yield str(operands[1].value)
        for operand in operands:
            yield from _last_names(operand)


Trie = dict[str, "Trie"]
"""Paths as a tree of keys."""


def merged(tries: Iterable[Mapping[str, Trie]]) -> Trie:
    """Return the union of several trees."""
    union: Trie = {}
    for trie in tries:
        for name, below in trie.items():
            union[name] = merged((union.get(name, {}), below))
    return union

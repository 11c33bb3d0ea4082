"""What a pattern is made of, as Go's parser reads it (`regexp/syntax`): parts of which somebody else may make something."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct, field

Ranges = tuple[tuple[int, int], ...]
"""Characters by the first and last of each range, in order."""

LAST: Final = 0x10FFFF
NEWLINE: Final = ((10, 10),)


class UnlistedCharactersError(ValueError):
    """A pattern has a part whose characters are not listed here."""


class Characters(Struct, frozen=True):
    """One character out of some."""

    ranges: Ranges


class Assertion(Struct, frozen=True):
    r"""A place: `\A`, `\z`, `^` and `$` of a line, `\b`, `\B`."""

    kind: str


class Concatenation(Struct, frozen=True):
    """Parts one after another."""

    parts: tuple[RegexpPart, ...]


class Alternatives(Struct, frozen=True):
    """One of some parts."""

    parts: tuple[RegexpPart, ...]


class Repeated(Struct, frozen=True):
    """A part some times; `most` is None for no end."""

    part: RegexpPart
    least: int
    most: int | None


RegexpPart = Characters | Assertion | Concatenation | Alternatives | Repeated

PERL: Final[dict[str, Ranges]] = {
    "d": ((0x30, 0x39),),
    "s": ((9, 10), (12, 13), (32, 32)),
    "w": ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)),
}
POSIX: Final[dict[str, Ranges]] = {
    "alnum": ((0x30, 0x39), (0x41, 0x5A), (0x61, 0x7A)),
    "alpha": ((0x41, 0x5A), (0x61, 0x7A)),
    "ascii": ((0, 0x7F),),
    "blank": ((9, 9), (32, 32)),
    "cntrl": ((0, 0x1F), (0x7F, 0x7F)),
    "digit": ((0x30, 0x39),),
    "graph": ((0x21, 0x7E),),
    "lower": ((0x61, 0x7A),),
    "print": ((0x20, 0x7E),),
    "punct": ((0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)),
    "space": ((9, 13), (32, 32)),
    "upper": ((0x41, 0x5A),),
    "word": PERL["w"],
    "xdigit": ((0x30, 0x39), (0x41, 0x46), (0x61, 0x66)),
}
_FOLDED_BEYOND: Final = {"k": 0x212A, "s": 0x017F}
"""What letters of ASCII fold to outside of it (`unicode.SimpleFold`): the Kelvin sign and the long s."""


def complement(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """All other characters."""
    others, at = [], 0
    for low, high in sorted(ranges):
        if low > at:
            others.append((at, low - 1))
        at = max(at, high + 1)
    if at <= LAST:
        others.append((at, LAST))
    return tuple(others)


def folded(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """With the other cases of all letters; raises `UnsaidError` beyond ASCII."""
    cased_ranges: list[tuple[int, int]] = []
    for low, high in ranges:
        cased_ranges.append((low, high))
        if high > 0x7F:
            raise UnlistedCharactersError("letters are folded beyond ASCII")
        for code in range(low, high + 1):
            letter = chr(code)
            if letter.isalpha():
                cased_ranges.append((ord(letter.swapcase()), ord(letter.swapcase())))
                beyond = _FOLDED_BEYOND.get(letter.lower())
                cased_ranges += [(beyond, beyond)] if beyond is not None else []
    return tuple(sorted(set(cased_ranges)))


class Flags(Struct, frozen=True):
    """What `(?ims)` switches."""

    folded: bool = False
    multiline: bool = False
    dotall: bool = False


class _Group(Struct):
    flags: Flags
    alternatives: list[RegexpPart] = field(default_factory=list)
    chain: list[RegexpPart] = field(default_factory=list)

    def part(self) -> RegexpPart:
        last: RegexpPart = self.chain[0] if len(self.chain) == 1 else Concatenation(tuple(self.chain))
        return Alternatives((*self.alternatives, last)) if self.alternatives else last


class Parts:
    """Takes what a parser reads, and makes parts of it; what cannot be said is kept as the reason."""

    def __init__(self) -> None:
        """Nothing read yet."""
        self._groups = [_Group(Flags())]
        self._unsaid = ""

    def characters(self, ranges: Ranges, flags: Flags) -> None:
        """One character out of some, as they are written."""
        try:
            self._add(Characters(folded(ranges) if flags.folded else tuple(sorted(ranges))))
        except UnlistedCharactersError as error:
            self.leave_unsaid(str(error))

    def excluded(self, ranges: Ranges, flags: Flags) -> None:
        """One character out of all others: letters are folded before."""
        try:
            self._add(Characters(complement(folded(ranges) if flags.folded else ranges)))
        except UnlistedCharactersError as error:
            self.leave_unsaid(str(error))

    def assertion(self, kind: str) -> None:
        """A place."""
        self._add(Assertion(kind))

    def leave_unsaid(self, reason: str) -> None:
        """Something of the pattern is not said."""
        self._unsaid = self._unsaid or reason
        self._add(Characters(()))

    def open(self, flags: Flags) -> None:
        """A group begins; `flags` are those outside of it."""
        self._groups.append(_Group(flags))

    def bar(self) -> None:
        """Another alternative begins."""
        group = self._groups[-1]
        group.alternatives.append(Concatenation(tuple(group.chain)))
        group.chain = []

    def close(self) -> Flags:
        """A group ends: the flags outside of it."""
        group = self._groups.pop()
        self._add(group.part())
        return group.flags

    def repeat(self, least: int, most: int | None) -> None:
        """The last part some times."""
        chain = self._groups[-1].chain
        chain.append(Repeated(chain.pop(), least, most))

    def whole(self) -> RegexpPart:
        """All of it; raises `UnsaidError`."""
        if self._unsaid:
            raise UnlistedCharactersError(self._unsaid)
        return self._groups[-1].part()

    def _add(self, part: RegexpPart) -> None:
        self._groups[-1].chain.append(part)

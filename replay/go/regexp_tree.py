"""Parts of regular expressions as Go's parser keeps them (`regexp/syntax`): classes, parts, the stack, and limits."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from msgspec import Struct, field


class UnsupportedRegexpError(ValueError):
    """Pattern that Go accepts and that RE2 cannot express. `str()` names the part."""


_CATEGORIES: Final = frozenset(
    """
    C Cc Cf Cn Co Cs L Lc Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl Zp Zs
    """.split()  # noqa: SIM905 - a list of them would take a page
)
_CATEGORY_ALIASES: Final = {
    "Casedletter": "Lc",
    "Closepunctuation": "Pe",
    "Combiningmark": "M",
    "Connectorpunctuation": "Pc",
    "Control": "Cc",
    "Currencysymbol": "Sc",
    "Dashpunctuation": "Pd",
    "Decimalnumber": "Nd",
    "Enclosingmark": "Me",
    "Finalpunctuation": "Pf",
    "Format": "Cf",
    "Initialpunctuation": "Pi",
    "Letter": "L",
    "Letternumber": "Nl",
    "Lineseparator": "Zl",
    "Lowercaseletter": "Ll",
    "Mark": "M",
    "Mathsymbol": "Sm",
    "Modifierletter": "Lm",
    "Modifiersymbol": "Sk",
    "Nonspacingmark": "Mn",
    "Number": "N",
    "Openpunctuation": "Ps",
    "Other": "C",
    "Otherletter": "Lo",
    "Othernumber": "No",
    "Otherpunctuation": "Po",
    "Othersymbol": "So",
    "Paragraphseparator": "Zp",
    "Privateuse": "Co",
    "Punctuation": "P",
    "Separator": "Z",
    "Spaceseparator": "Zs",
    "Spacingmark": "Mc",
    "Surrogate": "Cs",
    "Symbol": "S",
    "Titlecaseletter": "Lt",
    "Unassigned": "Cn",
    "Uppercaseletter": "Lu",
    "Cntrl": "Cc",
    "Digit": "Nd",
    "Punct": "P",
}
_SCRIPTS: Final = frozenset(
    """
    Adlam Ahom Arabic Armenian Avestan Balinese Bamum Batak Bengali Bhaiksuki Bopomofo Brahmi Braille Buginese Buhid
    Carian Chakma Cham Cherokee Chorasmian Common Coptic Cuneiform Cyrillic Deseret Devanagari Dogra Duployan Elbasan
    Elymaic Ethiopic Georgian Glagolitic Gothic Grantha Greek Gujarati Gurmukhi Han Hangul Hanunoo Hatran Hebrew
    Hiragana Inherited Javanese Kaithi Kannada Katakana Kawi Kharoshthi Khmer Khojki Khudawadi Lao Latin Lepcha Limbu
    Lisu Lycian Lydian Mahajani Makasar Malayalam Mandaic Manichaean Marchen Medefaidrin Miao Modi Mongolian Mro
    Multani Myanmar Nabataean Nandinagari Newa Nko Nushu Ogham Oriya Osage Osmanya Palmyrene Phoenician Rejang Runic
    Samaritan Saurashtra Sharada Shavian Siddham Sinhala Sogdian Soyombo Sundanese Syriac Tagalog Tagbanwa Takri
    Tamil Tangsa Tangut Telugu Thaana Thai Tibetan Tifinagh Tirhuta Toto Ugaritic Vai Vithkuqi Wancho Yezidi Yi
    """.split()  # noqa: SIM905 - a list of them would take a page
)
"""Unicode scripts that can be named.

Go removes underscores before the look-up, so scripts with an underscore in their name are never found (Unicode 15).
"""

_LETTERS_TO_SEPARATORS = r"\pL\pM\pN\pP\pS\pZ"
_ASSIGNED = rf"{_LETTERS_TO_SEPARATORS}\p{{Cc}}\p{{Cf}}\p{{Co}}\p{{Cs}}"
_CLASSES: Final = {
    "Any": (r"\x{0}-\x{10ffff}", True),
    "Ascii": (r"\x{0}-\x{7f}", True),
    "Assigned": (_ASSIGNED, True),
    "C": (_LETTERS_TO_SEPARATORS, False),
    "Cn": (_ASSIGNED, False),
    "Lc": (r"\p{Ll}\p{Lt}\p{Lu}", True),
}
"""Classes that RE2 lacks or defines differently: their members, or with False the characters that are not members."""

_POSIX_NAMES = (
    "alnum",
    "alpha",
    "ascii",
    "blank",
    "cntrl",
    "digit",
    "graph",
    "lower",
    "print",
    "punct",
    "space",
    "upper",
)
POSIX_CLASSES: Final = frozenset(
    f"[:{sign}{name}:]" for sign in ("", "^") for name in (*_POSIX_NAMES, "word", "xdigit")
)
"""POSIX classes such as `[:alpha:]`, which occur within a class."""


def canonical_class(name: str) -> str | None:
    """Return the canonical name of a class. As in Go, case and separators are ignored."""
    plain = re.sub(r"[-_ ]", "", name)
    plain = "".join(
        char if not char.isascii() else char.lower() if index else char.upper() for index, char in enumerate(plain)
    )
    if plain in _CLASSES or plain in _CATEGORIES or plain in _SCRIPTS:
        return plain
    return _CATEGORY_ALIASES.get(plain)


def class_text(name: str, *, positive: bool, inside: bool) -> str:
    """Return a class in RE2 syntax, `inside` another class or by itself. Raises UnsupportedRegexpError."""
    if name not in _CLASSES:
        return rf"\{'p' if positive else 'P'}{{{name}}}"
    members, holds = _CLASSES[name]
    if not inside:
        return f"[{'' if holds == positive else '^'}{members}]"
    if holds != positive:
        raise UnsupportedRegexpError(f"`{name}` inside another class of characters")
    return members


Ranges = tuple[tuple[int, int], ...]
"""Characters as first and last of each range, in order."""

LAST: Final = 0x10FFFF
NEWLINE: Final = ((10, 10),)


class UnlistedCharactersError(ValueError):
    """Pattern with a part whose characters are not listed here."""


class Characters(Struct, frozen=True):
    """One character of a set."""

    ranges: Ranges


class Assertion(Struct, frozen=True):
    r"""Position in a text: `\A`, `\z`, `^` and `$` of a line, `\b`, `\B`."""

    kind: str


class Concatenation(Struct, frozen=True):
    """Successive parts."""

    parts: tuple[RegexpPart, ...]


class Alternatives(Struct, frozen=True):
    """Alternative parts."""

    parts: tuple[RegexpPart, ...]


class Repeated(Struct, frozen=True):
    """Repeated part. `most` is None for no limit."""

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
"""Characters outside of ASCII to which ASCII letters fold (`unicode.SimpleFold`): the Kelvin sign and the long s."""


def complement(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Return all other characters."""
    others, at = [], 0
    for low, high in sorted(ranges):
        if low > at:
            others.append((at, low - 1))
        at = max(at, high + 1)
    if at <= LAST:
        others.append((at, LAST))
    return tuple(others)


def folded(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Return the characters with the other cases of all letters. Raises UnlistedCharactersError beyond ASCII."""
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
    """Flags that `(?ims)` sets."""

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
    """Builder of parts from what a parser reads. If a part cannot be expressed, it keeps the reason."""

    def __init__(self) -> None:
        """Start without parts."""
        self._groups = [_Group(Flags())]
        self._unsaid = ""

    def characters(self, ranges: Ranges, flags: Flags) -> None:
        """Add one character of a set."""
        try:
            self._add(Characters(folded(ranges) if flags.folded else tuple(sorted(ranges))))
        except UnlistedCharactersError as error:
            self.leave_unsaid(str(error))

    def excluded(self, ranges: Ranges, flags: Flags) -> None:
        """Add one character that is not in a set. Letters are folded before."""
        try:
            self._add(Characters(complement(folded(ranges) if flags.folded else ranges)))
        except UnlistedCharactersError as error:
            self.leave_unsaid(str(error))

    def assertion(self, kind: str) -> None:
        """Add a position."""
        self._add(Assertion(kind))

    def leave_unsaid(self, reason: str) -> None:
        """Record why a part of the pattern cannot be expressed. The first reason counts."""
        self._unsaid = self._unsaid or reason
        self._add(Characters(()))

    def open(self, flags: Flags) -> None:
        """Begin a group. `flags` are those outside of it."""
        self._groups.append(_Group(flags))

    def bar(self) -> None:
        """Begin another alternative."""
        group = self._groups[-1]
        group.alternatives.append(Concatenation(tuple(group.chain)))
        group.chain = []

    def close(self) -> Flags:
        """End a group, and return the flags outside of it."""
        group = self._groups.pop()
        self._add(group.part())
        return group.flags

    def repeat(self, least: int, most: int | None) -> None:
        """Repeat the last part."""
        chain = self._groups[-1].chain
        chain.append(Repeated(chain.pop(), least, most))

    def whole(self) -> RegexpPart:
        """Return the whole pattern. Raises UnlistedCharactersError."""
        if self._unsaid:
            raise UnlistedCharactersError(self._unsaid)
        return self._groups[-1].part()

    def _add(self, part: RegexpPart) -> None:
        self._groups[-1].chain.append(part)


MAX_HEIGHT: Final = 1000
MAX_REPEAT: Final = 1000
MAX_SIZE: Final = (128 << 20) // 40
"""Go's limits: the height of the tree, the count of a repetition, and the size of the compiled program."""


class RegexpError(ValueError):
    """Pattern that Go refuses. `str()` is its message."""

    def __init__(self, code: str, expression: str) -> None:
        """`expression` is the wrong part."""
        super().__init__(f"error parsing regexp: {code}: `{expression}`")


class RegexpNode(Struct):
    """Part of a pattern on the parser's stack, with the figures that the limits need."""

    kind: str
    size: int = 1
    height: int = 1
    repeats: int = 1
    """Largest product of nested repetitions."""
    times: int = 1
    folded: bool = False
    subs: tuple[RegexpNode, ...] = ()


PSEUDO = frozenset({"(", "(?:", "|"})
_CHARACTERS = frozenset({"literal", "class", "any"})


class Stack:
    """Stack of the parts read so far, with openings and bars between them (`regexp/syntax`, `parser.stack`)."""

    def __init__(self, text: str) -> None:
        """Start with an empty stack. `text` is shown in errors."""
        self._text = text
        self.parts: list[RegexpNode] = []
        self._nodes = 0
        self._free = 0
        self._product = 1
        self._measured = False

    def _node(self, kind: str, *, folded: bool = False) -> RegexpNode:
        """Return a new node. Go counts the nodes that it cannot reuse."""
        if self._free:
            self._free -= 1
        else:
            self._nodes += 1
        return RegexpNode(kind, folded=folded)

    def add(self, kind: str, *, folded: bool = False) -> None:
        """Push a new node."""
        self.push(self._node(kind, folded=folded))

    def push(self, node: RegexpNode) -> None:
        """Push a node. Raises RegexpError above the limits."""
        self._join_literals()
        self.parts.append(node)
        self._check_limits(node)

    def _join_literals(self) -> None:
        """Join two successive literals. Only now is it certain that no repetition follows the first one."""
        if len(self.parts) < 2:
            return
        last, previous = self.parts[-1], self.parts[-2]
        if last.kind == previous.kind == "literal" and last.folded == previous.folded:
            previous.size += last.size
            self.parts.pop()
            self._free += 1

    def _check_limits(self, node: RegexpNode) -> None:
        """Raise RegexpError for a node that is too high or too large."""
        if not self._measured:
            # Go multiplies whatever comes by here, the same repetition more than once.
            self._product = MAX_SIZE if node.times > MAX_SIZE // self._product else self._product * node.times
            self._measured = self._nodes >= MAX_SIZE // self._product
        if self._measured and node.size > MAX_SIZE:
            raise RegexpError("expression too large", self._text)
        if node.height > MAX_HEIGHT:
            raise RegexpError("expression nests too deeply", self._text)

    def _collapse(self, kind: str) -> None:
        """Replace the parts above the last opening or bar by one node."""
        start = len(self.parts)
        while start and self.parts[start - 1].kind not in PSEUDO:
            start -= 1
        subs = self.parts[start:]
        del self.parts[start:]
        if not subs:
            self.add("empty")
        elif len(subs) == 1:
            self.push(subs[0])
        else:
            node = self._node(kind)
            self._free += sum(sub.kind == kind for sub in subs)
            parts = [part for sub in subs for part in (sub.subs if sub.kind == kind else (sub,))]
            node.subs = tuple(parts)
            node.size = max(1, sum(part.size for part in parts) + (len(parts) - 1 if kind == "alternate" else 0))
            node.height = 1 + max(part.height for part in parts)
            node.repeats = max(part.repeats for part in parts)
            self.push(node)

    def bar(self) -> None:
        """Read `|`."""
        self._join_literals()
        self._collapse("concat")
        if not self._swap_bar():
            self.add("|")

    def _swap_bar(self) -> bool:
        """Put the last alternative below the bar. Two single characters become a class."""
        stack = self.parts
        if len(stack) < 2 or stack[-2].kind != "|":
            return False
        if len(stack) >= 3 and self._is_character(stack[-1]) and self._is_character(stack[-3]):
            stack.pop()
            stack[-2] = RegexpNode("class")
            self._free += 1
        else:
            stack[-2], stack[-1] = stack[-1], stack[-2]
        return True

    @staticmethod
    def _is_character(node: RegexpNode) -> bool:
        return node.kind in _CHARACTERS and node.size == 1

    def close_alternatives(self) -> None:
        """Replace the parts above the last opening by one node."""
        self._join_literals()
        self._collapse("concat")
        if self._swap_bar():
            self.parts.pop()
        self._collapse("alternate")

    def close_group(self) -> bool | None:
        """Read `)`. Return whether letters were folded before the group, or None if no group is open."""
        self.close_alternatives()
        if len(self.parts) < 2 or self.parts[-2].kind == "|":
            return None
        inner, opening = self.parts.pop(), self.parts.pop()
        if opening.kind == "(":
            inner = RegexpNode("capture", 2 + inner.size, 1 + inner.height, inner.repeats, subs=(inner,))
        self.push(inner)
        return opening.folded

    def repeat(self, kind: str, least: int = 0, most: int = 0) -> bool:
        """Put the last part under a repetition. Return whether the nested repetitions are within the limit."""
        sub = self.parts[-1]
        node = self._node(kind)
        node.height, node.repeats, node.subs = 1 + sub.height, sub.repeats, (sub,)
        if kind == "repeat":
            _measure(node, sub, least, most)
        else:
            node.size = sub.size + (2 if kind == "star" else 1)
        self.parts[-1] = node
        self._check_limits(node)
        return node.repeats <= MAX_REPEAT or max(least, most) < 2


def _measure(node: RegexpNode, sub: RegexpNode, least: int, most: int) -> None:
    """Set the figures of `sub{least,most}`. `most` is -1 for no limit."""
    node.times = max(1, least if most < 0 else most)
    if most < 0:
        node.size = 1 + least * sub.size if least else 2 + sub.size
    else:
        node.size = max(1, most * sub.size + most - least)
    node.repeats = 1 if most == 0 else sub.repeats * node.times

"""Regular expressions as Go parses them (`regexp/syntax`, Perl flags): their errors, and their RE2 form.

The syntax of Go and RE2 differs only in details, but the error messages differ. So the pattern is parsed as Go's parser
does, with its limits. An accepted pattern is rewritten for RE2, which then matches.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec.structs import replace

from replay.go.regexp_tree import (
    MAX_REPEAT,
    NEWLINE,
    PERL,
    POSIX,
    POSIX_CLASSES,
    PSEUDO,
    Flags,
    Parts,
    Ranges,
    RegexpError,
    RegexpPart,
    Stack,
    canonical_class,
    class_text,
    complement,
)

_INT_OVERFLOW = 100_000_000

_REPEAT = re.compile(r"\{(0|[1-9][0-9]*)(?:(,)(0|[1-9][0-9]*)?)?\}", re.ASCII)
_OCTAL = re.compile(r"[0-7]{0,2}")
_NAME = re.compile(r"[A-Za-z0-9_]+", re.ASCII)
_CONTROLS = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_OPERATORS = {"*": "star", "+": "plus", "?": "quest"}
_COUNTS: Mapping[str, tuple[int, int | None]] = {"star": (0, None), "plus": (1, None), "quest": (0, 1)}
_FLAGS = {"i": "folded", "m": "multiline", "s": "dotall"}
_UNICODE = "a class of Unicode"


def re2_pattern(pattern: str) -> str:
    """Return the pattern in RE2 syntax with Go's meaning. Raises RegexpError and UnsupportedRegexpError.

    The limits on height and size are checked before common prefixes of alternatives are factored out.
    """
    return _Parser(pattern).parse()


def parts_of_pattern(pattern: str) -> RegexpPart:
    """Return the parts of a pattern. Raises RegexpError, UnsupportedRegexpError and UnlistedCharactersError."""
    parser = _Parser(pattern)
    parser.parse()
    return parser.parts.whole()


class _Parser:
    """Parser of one pattern. `at` is the index after the text that was read."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.current = Flags()
        self.parts = Parts()
        self.stack = Stack(text)
        self.edits: list[tuple[int, int, str]] = []

    def parse(self) -> str:
        """Read the whole pattern."""
        repeated = -1
        while self.at < len(self.text):
            begin = self.at
            repeated = begin if self.step(repeated) else -1
        self.stack.close_alternatives()
        if len(self.stack.parts) != 1:
            raise RegexpError("missing closing )", self.text)
        parts, end_of_part = [], 0
        for start, end, text in self.edits:
            parts += [self.text[end_of_part:start], text]
            end_of_part = end
        return "".join([*parts, self.text[end_of_part:]])

    def step(self, repeated: int) -> bool:
        """Read one item. Return whether it was a repetition.

        `repeated` is where the previous item began if it was a repetition, otherwise -1.
        """
        char = self.text[self.at]
        if char in "*+?":
            self.at += 1
            self.repeat(_OPERATORS[char], self.at - 1, repeated)
            return True
        if char == "{":
            return self.counted(repeated)
        if char == "(":
            self.open()
        elif char == ")":
            self.close()
        elif char == "|":
            self.at += 1
            self.stack.bar()
            self.parts.bar()
        elif char in "^$.":
            self.at += 1
            self.add("any" if char == "." else "assertion")
            self.place(char)
        elif char == "[":
            self.character_class()
        elif char == "\\":
            self.escape()
        else:
            self.literal(self.rune())
        return False

    def add(self, kind: str) -> None:
        self.stack.add(kind, folded=self.current.folded)

    def literal(self, char: str) -> None:
        """Add one literal character."""
        self.add("literal")
        self.parts.characters(((ord(char), ord(char)),), self.current)

    def place(self, char: str) -> None:
        """Add `^`, `$` or `.`, according to the flags."""
        if char == ".":
            self.parts.excluded((), Flags()) if self.current.dotall else self.parts.excluded(NEWLINE, Flags())
        elif self.current.multiline:
            self.parts.assertion(char)
        else:
            self.parts.assertion(r"\A" if char == "^" else r"\z")

    def rune(self) -> str:
        """Return the next character. Raises RegexpError for invalid UTF-8."""
        char = self.text[self.at]
        if "\ud800" <= char <= "\udfff":
            raise RegexpError("invalid UTF-8", self.text[self.at :])
        self.at += 1
        return char

    def check_utf8(self, start: int, end: int) -> None:
        """Raise RegexpError if a part is not valid UTF-8."""
        for index in range(start, end):
            if "\ud800" <= self.text[index] <= "\udfff":
                raise RegexpError("invalid UTF-8", self.text[index:end])

    def close(self) -> None:
        folded = self.stack.close_group()
        if folded is None:
            raise RegexpError("unexpected )", self.text)
        self.current = self.parts.close()
        self.at += 1

    def open(self) -> None:
        text, start = self.text, self.at
        if not text.startswith("(?", start):
            self.at += 1
            self.add("(")
            self.parts.open(self.current)
            return
        name = start + (4 if text.startswith("(?P<", start) and len(text) > start + 4 else 3)
        if name == start + 4 or (text.startswith("(?<", start) and len(text) > start + 3):
            self.named(start, name)
        else:
            self.flags(start)

    def named(self, start: int, name: int) -> None:
        """Read `(?P<name>` or `(?<name>`.

        The name is removed, because RE2 accepts each name only once and names are not used.
        """
        end = self.text.find(">", start)
        if end < 0:
            self.check_utf8(start, len(self.text))
            raise RegexpError("invalid named capture", self.text[start:])
        self.check_utf8(name, end)
        if not _NAME.fullmatch(self.text, name, end):
            raise RegexpError("invalid named capture", self.text[start : end + 1])
        self.add("(")
        self.parts.open(self.current)
        self.at = end + 1
        self.edits.append((start, self.at, "("))

    def flags(self, start: int) -> None:
        """Read `(?flags-flags)` or `(?flags-flags:`."""
        self.at += 2
        flags, negative, saw = self.current, False, False
        while self.at < len(self.text):
            char = self.rune()
            if char in "imsU":
                name = _FLAGS.get(char)
                flags = flags if name is None else replace(flags, **{name: not negative})
                saw = True
            elif char == "-" and not negative:
                negative, saw = True, False
            elif char in ":)" and (saw or not negative):
                if char == ":":
                    self.add("(?:")
                    self.parts.open(self.current)
                self.current = flags
                return
            else:
                break
        raise RegexpError("invalid or unsupported Perl syntax", self.text[start : self.at])

    # Repetitions.

    def counted(self, repeated: int) -> bool:
        """Read `{n}`, `{n,}` or `{n,m}`. Anything else is a literal brace."""
        start = self.at
        match = _REPEAT.match(self.text, start)
        if match is None:
            self.literal(self.rune())
            return False
        self.at = match.end()
        least = _count(match[1])
        most = least if match[2] is None else -1 if match[3] is None else _count(match[3])
        if max(least, most) > MAX_REPEAT or 0 <= most < least:
            raise RegexpError("invalid repeat count", match[0])
        self.repeat("repeat", start, repeated, least, most)
        return True

    def repeat(self, kind: str, start: int, repeated: int, least: int = 0, most: int = 0) -> None:
        """Put the last item under a repetition."""
        if self.text.startswith("?", self.at):
            self.at += 1
        if repeated >= 0:
            raise RegexpError("invalid nested repetition operator", self.text[repeated : self.at])
        # The marks of "(" and "|" are on the stack too, and are nothing to repeat.
        if not self.stack.parts or self.stack.parts[-1].kind in PSEUDO:
            raise RegexpError("missing argument to repetition operator", self.text[start : self.at])
        if not self.stack.repeat(kind, least, most):
            raise RegexpError("invalid repeat count", self.text[start : self.at])
        counts = _COUNTS.get(kind, (least, None if most < 0 else most))
        self.parts.repeat(*counts)

    # Characters.

    def escape(self) -> None:
        text, start = self.text, self.at
        letter = text[start + 1 : start + 2]
        if letter == "C":
            raise RegexpError("invalid escape sequence", r"\C")
        if letter == "Q":
            self.quoted()
        elif letter and letter in "AbBz":
            self.at += 2
            self.add("assertion")
            self.parts.assertion(f"\\{letter}")
        elif letter and letter in "pPdDsSwW":
            if letter in "pP":
                self.unicode_class(inside=False)
                self.parts.leave_unsaid(_UNICODE)
            else:
                self.at += 2
                chosen = self.parts.characters if letter.islower() else self.parts.excluded
                chosen(PERL[letter.lower()], self.current)
            self.add("class")
        else:
            self.literal(self.escaped_character())

    def quoted(self) -> None:
        r"""Read `\Q...\E`."""
        start = self.at + 2
        literal, _, rest = self.text[start:].partition(r"\E")
        self.check_utf8(start, start + len(literal))
        for char in literal:
            self.literal(char)
        self.at = len(self.text) - len(rest)

    def escaped_character(self) -> str:
        r"""Read an escape sequence of one character."""
        start = self.at
        self.at += 1
        if self.at >= len(self.text):
            raise RegexpError("trailing backslash at end of expression", "")
        char = self.rune()
        octal = _OCTAL.match(self.text, self.at)
        assert octal is not None
        if char == "0" or (char in "1234567" and octal[0]):
            self.at = octal.end()
            return chr(int(char + octal[0], 8))
        if char == "x":
            return self.hexadecimal(start)
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char.isascii() and not char.isalnum():
            return char
        raise RegexpError("invalid escape sequence", self.text[start : self.at])

    def hexadecimal(self, start: int) -> str:
        r"""Read the rest of `\x7F` or `\x{10FFFF}`."""
        digits = self.rune() if self.at < len(self.text) else ""
        if digits == "{":
            digits = ""
            while self.at < len(self.text):
                char = self.rune()
                if char == "}" and digits:
                    return chr(int(digits, 16))
                digits += char
                if not _is_hex(char) or int(digits, 16) > 0x10FFFF:
                    break
        elif self.at < len(self.text):
            digits += self.rune()
            if _is_hex(digits):
                return chr(int(digits, 16))
        raise RegexpError("invalid escape sequence", self.text[start : self.at])

    # Classes.

    def character_class(self) -> None:
        """Read `[...]`."""
        start = self.at
        self.at += 1
        is_excluded = self.text.startswith("^", self.at)
        if is_excluded:
            self.at += 1
        first, ranges, is_said = True, list[tuple[int, int]](), True
        while first or not self.text.startswith("]", self.at):
            first = False
            named = self.named_class()
            is_said = is_said and named is not None
            ranges += named or ((self.range(start),) if named == () else ())
        self.at += 1
        self.add("class")
        if not is_said:
            self.parts.leave_unsaid(_UNICODE)
        else:
            (self.parts.excluded if is_excluded else self.parts.characters)(tuple(ranges), self.current)

    def named_class(self) -> Ranges | None:
        r"""Read `[:alpha:]`, `\pL` or `\d` and return its characters.

        Return None if the characters are not listed here, and nothing if there is no such class.
        """
        text, at = self.text, self.at
        if text.startswith("[:", at) and len(text) > at + 2:
            end = text.find(":]", at + 2)
            if end >= 0:
                name = text[at : end + 2]
                if name not in POSIX_CLASSES:
                    raise RegexpError("invalid character class range", name)
                self.at = end + 2
                inner = name[2:-2]
                return complement(POSIX[inner[1:]]) if inner.startswith("^") else POSIX[inner]
        letter = text[at + 1 : at + 2] if text.startswith("\\", at) else ""
        if letter in ("p", "P"):
            self.unicode_class(inside=True)
            return None
        if letter and letter in "dDsSwW":
            self.at += 2
            return PERL[letter] if letter.islower() else complement(PERL[letter.lower()])
        return ()

    def range(self, start: int) -> tuple[int, int]:
        """Read one character of a class, or two with a dash between them."""
        begin = self.at
        low = high = self.class_character(start)
        if self.text.startswith("-", self.at) and self.text[self.at + 1 : self.at + 2] not in ("", "]"):
            self.at += 1
            high = self.class_character(start)
            if high < low:
                raise RegexpError("invalid character class range", self.text[begin : self.at])
        return ord(low), ord(high)

    def class_character(self, start: int) -> str:
        if self.at >= len(self.text):
            raise RegexpError("missing closing ]", self.text[start:])
        return self.escaped_character() if self.text[self.at] == "\\" else self.rune()

    def unicode_class(self, *, inside: bool) -> None:
        r"""Read `\pL`, `\p{Greek}` or `\P{^Greek}`, and write it in RE2 syntax."""
        start = self.at
        self.at += 2
        if self.at >= len(self.text):
            raise RegexpError("invalid character class range", self.text[start:])
        name = self.rune()
        if name == "{":
            end = self.text.find("}", start)
            if end < 0:
                self.check_utf8(start, len(self.text))
                raise RegexpError("invalid character class range", self.text[start:])
            self.check_utf8(self.at, end)
            name, self.at = self.text[self.at : end], end + 1
        positive = self.text[start + 1] == "p"
        if name.startswith("^"):
            positive, name = not positive, name[1:]
        canonical = canonical_class(name)
        if canonical is None:
            raise RegexpError("invalid character class range", self.text[start : self.at])
        self.edits.append((start, self.at, class_text(canonical, positive=positive, inside=inside)))


def _count(digits: str) -> int:
    # Longer numbers exceed every limit, and `int` refuses very long ones.
    return int(digits) if len(digits) < 10 else _INT_OVERFLOW


def _is_hex(text: str) -> bool:
    return bool(re.fullmatch(r"[0-9a-fA-F]+", text, re.ASCII))

"""Reader of JSON text with the errors of Go's `encoding/json` scanner.

Positions and the text of objects are kept, because an item of a `List` is decoded again from its own text. Bytes that
are not UTF-8 and lone surrogate escapes become U+FFFD, as in Go.
"""

from __future__ import annotations

import re
from bisect import bisect_right

from msgspec import Struct, field

from replay.go.format import quote
from replay.manifests.read.node import START, Entry, Mapping, Node, Number, Position, Scalar, Sequence

_MAX_DEPTH = 10_000
_EMBEDDED_DEPTHS = (2, 3)
_SPACE = re.compile(r"[ \t\r\n]*")
_STRING_BODY = re.compile(r'(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))")
_LITERALS: dict[str, tuple[str, bool | None]] = {"t": ("true", True), "f": ("false", False), "n": ("null", None)}
_UNESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_UNPAIRED = re.compile("[\ud800-\udfff]")


class JSONSyntaxError(Exception):
    """Text that is not JSON. `str()` is Go's wording."""

    def __init__(self, message: str, position: Position) -> None:
        """`position` is that of the invalid character."""
        super().__init__(message)
        self.position = position


def read_json(document: bytes, start: Position = START) -> Node:
    """Return the JSON value of a document that begins at `start` of its file. Raises JSONSyntaxError."""
    return _Reader(document, start).read()


def text_from_bytes(data: bytes) -> str:
    """Return UTF-8 text decoded as Go ranges over a string: each invalid byte becomes one U+FFFD."""
    return _UNPAIRED.sub("\ufffd", data.decode("utf-8", errors="surrogateescape"))


class _Open(Struct):
    """An object or array whose end is not read yet."""

    start: int
    is_object: bool
    nodes: list[Node] = field(default_factory=list)
    keys: list[tuple[str, Position]] = field(default_factory=list)

    @property
    def closer(self) -> str:
        return "}" if self.is_object else "]"


class _Reader:
    """Reader of one document. It decodes Latin-1, so that an offset counts bytes, as Go's does."""

    def __init__(self, document: bytes, start: Position) -> None:
        self._text = document.decode("latin-1")
        self._at = 0
        self._start = start
        self._line_starts = [0, *(match.end() for match in re.finditer("\n", self._text))]

    def read(self) -> Node:
        """Read a document. Grammar: document = value. The stack is explicit, because the document controls the depth."""
        stack: list[_Open] = []
        while True:
            node = self._begin(stack)
            while node is not None and stack:
                node = self._continue(stack, node)
            if node is not None:
                self._skip_space()
                if self._at < len(self._text):
                    raise self._error("after top-level value")
                return node

    def _begin(self, stack: list[_Open]) -> Node | None:
        """Read the start of a value. Return None if a value must follow.

        Grammar: value = scalar | "{" [key ":" | "}"] | "[" ["]"].
        """
        self._skip_space()
        opener = self._peek()
        if opener not in "{[":
            return self._scalar(opener)
        if len(stack) >= _MAX_DEPTH:
            raise self._error("exceeded max depth")
        top = _Open(self._at, opener == "{")
        self._at += 1
        self._skip_space()
        if self._peek() == top.closer:
            return self._close(top, len(stack))
        stack.append(top)
        if top.is_object:
            self._key(top)
        return None

    def _continue(self, stack: list[_Open], node: Node) -> Node | None:
        """Read what follows a value inside `stack[-1]`: "," (returns None) or the end of the container (returns its node)."""
        top = stack[-1]
        top.nodes.append(node)
        self._skip_space()
        following = self._peek()
        if following == top.closer:
            return self._close(stack.pop(), len(stack))
        if following != ",":
            raise self._error("after object key:value pair" if top.is_object else "after array element")
        self._at += 1
        if top.is_object:
            self._skip_space()
            self._key(top)
        return None

    def _key(self, top: _Open) -> None:
        """Read a key. Grammar: key = string ":"."""
        at = self._at
        if self._peek() != '"':
            raise self._error("looking for beginning of object key string")
        top.keys.append((self._string(), self._position(at)))
        self._skip_space()
        if self._peek() != ":":
            raise self._error("after object key")
        self._at += 1

    def _close(self, top: _Open, depth: int) -> Node:
        self._at += 1
        position = self._position(top.start)
        if not top.is_object:
            return Sequence(position, tuple(top.nodes))
        # Only what is decoded on its own is asked for its text (an item of a list, the configuration of a plugin);
        # keeping all would be quadratic in depth.
        raw = self._text[top.start : self._at].encode("latin-1") if depth in _EMBEDDED_DEPTHS else None
        entries = (Entry(key, at, node) for (key, at), node in zip(top.keys, top.nodes, strict=True))
        return Mapping(position, tuple(entries), raw)

    def _scalar(self, opener: str) -> Scalar:
        """Read a scalar. Grammar: scalar = string | number | "true" | "false" | "null"."""
        position = self._position(self._at)
        if opener == '"':
            return Scalar(position, self._string())
        if opener in _LITERALS:
            return Scalar(position, self._literal(*_LITERALS[opener]))
        if opener not in "-0123456789" or self._at >= len(self._text):
            raise self._error("looking for beginning of value")
        return Scalar(position, Number(self._number()))

    def _literal(self, word: str, value: bool | None) -> bool | None:
        for expected in word:
            if self._peek() != expected:
                raise self._error(f"in literal {word} (expecting '{expected}')", spaces=False)
            self._at += 1
        return value

    def _number(self) -> str:
        start = self._at
        if match := _NUMBER.match(self._text, start):
            self._at = match.end()
        else:
            self._at += 1
            raise self._error("in numeric literal", spaces=False)
        number, following = match[0], self._peek()
        if following == "." and "." not in number and "e" not in number.lower():
            self._at += 1
            raise self._error("after decimal point in numeric literal", spaces=False)
        if following in "eE" and "e" not in number.lower():
            self._at += 1
            self._at += self._peek() in "+-"
            raise self._error("in exponent of numeric literal", spaces=False)
        return number

    def _string(self) -> str:
        start = self._at + 1
        body = _STRING_BODY.match(self._text, start)
        assert body is not None
        self._at = body.end()
        if self._peek() != '"':
            raise self._string_error()
        self._at += 1
        return _unescape(body[0])

    def _string_error(self) -> JSONSyntaxError:
        if self._peek() != "\\":
            return self._error("in string literal")
        self._at += 1
        if self._peek() != "u":
            return self._error("in string escape code", spaces=False)
        self._at += 1
        while self._peek() in "0123456789abcdefABCDEF":
            self._at += 1
        return self._error("in \\u hexadecimal character escape", spaces=False)

    def _skip_space(self) -> None:
        match = _SPACE.match(self._text, self._at)
        assert match is not None
        self._at = match.end()

    def _peek(self) -> str:
        """Return the next byte, or a space at the end, as Go's scanner does."""
        return self._text[self._at] if self._at < len(self._text) else " "

    def _error(self, context: str, *, spaces: bool = True) -> JSONSyntaxError:
        """Return the error at the next byte. With `spaces`, the end of the input is reported as such."""
        position = self._position(self._at)
        if spaces and self._at >= len(self._text):
            return JSONSyntaxError("unexpected end of JSON input", position)
        return JSONSyntaxError(f"invalid character {_quoted(self._peek())} {context}", position)

    def _position(self, at: int) -> Position:
        line = bisect_right(self._line_starts, at) - 1
        column = at - self._line_starts[line]
        return Position(self._start.line + line, column + (self._start.column if line == 0 else 1))


def _quoted(character: str) -> str:
    """Return one character in single quotes, as Go's scanner prints it."""
    if character == "'":
        return "'\\''"
    return "'\"'" if character == '"' else f"'{quote(character)[1:-1]}'"


def _unescape(body: str) -> str:
    if "\\" in body:
        body = _ESCAPE.sub(_unescaped, body.encode("latin-1").decode("utf-8", errors="surrogateescape"))
        # Two escapes may be the halves of one character; bytes kept by surrogateescape are no halves.
        body = re.sub("[\ud800-\udbff][\udc00-\udfff]", _joined, body)
        return _UNPAIRED.sub("\ufffd", body)
    return text_from_bytes(body.encode("latin-1"))


def _unescaped(match: re.Match[str]) -> str:
    return chr(int(match[1], 16)) if match[1] else _UNESCAPED.get(match[2], match[2])


def _joined(match: re.Match[str]) -> str:
    high, low = match[0][0], match[0][1]
    return chr(0x10000 + ((ord(high) - 0xD800) << 10) + (ord(low) - 0xDC00))

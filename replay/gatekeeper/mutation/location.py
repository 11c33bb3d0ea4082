"""Locations of mutators, such as `spec.containers[name: *].image`, and path tests (`gatekeeper/pkg/mutation/path`)."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from replay.gatekeeper.template import RefusedError
from replay.go.format import quote

MUST_EXIST, MUST_NOT_EXIST = "MustExist", "MustNotExist"


class FieldNode(Struct, frozen=True):
    """Field of an object."""

    name: str

    def __str__(self) -> str:
        """Return the node as it is written."""
        return _quoted(self.name)


class ListNode(Struct, frozen=True):
    """List element selected by its key, or all elements if `value` is None."""

    key: str
    value: str | int | None = None

    def __str__(self) -> str:
        """Return the node as it is written."""
        shown = "*" if self.value is None else str(self.value) if isinstance(self.value, int) else _quoted(self.value)
        return f"[{_quoted(self.key)}: {shown}]"


Node = FieldNode | ListNode
Location = tuple[Node, ...]


def location_text(location: Sequence[Node]) -> str:
    """Return a location as it is written."""
    return "".join(
        f"{'.' if place and isinstance(node, FieldNode) else ''}{node}" for place, node in enumerate(location)
    )


def _quoted(text: str) -> str:
    if not text:
        return '""'
    if any(character in "'\"\t\n \\*[]:." for character in text) or text[0].isdecimal():
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return text


class _Token(Struct, frozen=True):
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {quote(self.text)}"


_SYMBOLS = {".": "SEPARATOR", "[": "LBRACKET", "]": "RBRACKET", "*": "GLOB", ":": "COLON"}


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    at = 0
    while at < len(text):
        character = text[at]
        if character in " \t\r\n":
            at += 1
        elif character in "0123456789":
            end = at
            while end < len(text) and text[end] in "0123456789":
                end += 1
            found.append(_Token("INT", text[at:end]))
            at = end
        elif _is_plain(character):
            end = at
            while end < len(text) and _is_plain(text[end]):
                end += 1
            found.append(_Token("IDENT", text[at:end]))
            at = end
        elif character in "\"'":
            value, at, is_whole = _string(text, at)
            found.append(_Token("IDENT" if is_whole else "ERROR", value))
        else:
            found.append(_Token(_SYMBOLS.get(character, "ERROR"), character))
            at += 1
    # Two ends, because the parser looks at the token after the next one.
    return [*found, _Token("EOF", ""), _Token("EOF", "")]


def _is_plain(character: str) -> bool:
    return character in "_-" or (character.isascii() and character.isalnum())


def _string(text: str, at: int) -> tuple[str, int, bool]:
    quote, out = text[at], ""
    at += 1
    while at < len(text):
        if text[at] == quote:
            return out, at + 1, True
        if text[at] == "\\":
            at += 1
            if at >= len(text):
                break
        out += text[at]
        at += 1
    return out, at, False


def parse_location(text: str) -> Location:
    """Parse a location. Raises RefusedError."""
    tokens = _tokens(text)
    nodes: list[Node] = []
    at = 0
    while tokens[at].kind == "IDENT":
        nodes.append(FieldNode(tokens[at].text))
        if tokens[at + 1].kind == "LBRACKET":
            node, at = _list_node(tokens, at + 2)
            nodes.append(node)
        following = tokens[at + 1]
        if following.kind == "SEPARATOR":
            if tokens[at + 2].kind == "EOF":
                raise RefusedError("trailing separators are forbidden")
            at += 2
        elif following.kind == "EOF":
            at += 1
        else:
            raise RefusedError(f"unexpected token: expected '.' or eof, got: {following}")
    if tokens[at].kind != "EOF":
        raise RefusedError(f"unexpected token: expected field name or eof, got: {tokens[at]}")
    return tuple(nodes)


def _list_node(tokens: Sequence[_Token], at: int) -> tuple[ListNode, int]:
    """Parse a list element after its opening bracket. Return it with the index of the closing bracket's token."""
    if tokens[at].kind != "IDENT":
        raise RefusedError(f"unexpected token: expected keyField in listSpec, got: {tokens[at]}")
    key = tokens[at].text
    if tokens[at + 1].kind != "COLON":
        raise RefusedError(f"unexpected token: expected ':' following keyField {key}, got: {tokens[at + 1]}")
    token = tokens[at + 2]
    value: str | int | None = None
    if token.kind == "IDENT":
        value = token.text
    elif token.kind == "INT":
        value = int(token.text)
        if value >= 2**63:
            raise RefusedError(
                f"invalid integer: overflow in integer string: {token.text}: parsing key value for key: {key}"
            )
    elif token.kind != "GLOB":
        raise RefusedError(f"unexpected token: expected key value or glob in listSpec, got: {token}")
    if tokens[at + 3].kind != "RBRACKET":
        raise RefusedError(f"unexpected token: expected ']' following listSpec, got: {tokens[at + 3]}")
    return ListNode(key, value), at + 3


class PathTests(Struct, frozen=True):
    """Conditions on nodes of a location, by depth: a node must exist, or must not."""

    conditions: dict[int, str]

    def allows_existing(self, depth: int) -> bool:
        """Return whether the node may exist."""
        return self.conditions.get(depth, MUST_EXIST) == MUST_EXIST

    def allows_missing(self, depth: int) -> bool:
        """Return whether the node may be missing."""
        return self.conditions.get(depth, MUST_NOT_EXIST) == MUST_NOT_EXIST


def path_tests(location: Location, tests: Sequence[tuple[Location, str]]) -> PathTests:
    """Return the path tests of a location. Raises RefusedError."""
    for path, _ in tests:
        if location[: len(path)] != path:
            raise RefusedError(
                "all subpaths must be a prefix of the `location` value of the mutation: "
                f'subpath "{location_text(path)}" is not a prefix of location "{location_text(location)}"'
            )
    conditions = {len(path) - 1: condition for path, condition in tests}
    for path, condition in tests:
        if conditions[len(path) - 1] != condition:
            raise RefusedError(
                f'conflicting path test conditions: path "{location_text(path)}" is marked both MustExist and MustNotExist'
            )
    forbidden = [place for place, (_, condition) in enumerate(tests) if condition == MUST_NOT_EXIST]
    required = [place for place, (_, condition) in enumerate(tests) if condition == MUST_EXIST]
    if required and forbidden and max(required) > min(forbidden) and max(required) > 0:
        child, parent = (f'"{location_text(tests[place][0])}"' for place in (max(required), min(forbidden)))
        raise RefusedError(
            f"conflicting path test conditions: path {child} is marked MustExist but parent {parent} MustNotExist"
        )
    return PathTests(conditions)

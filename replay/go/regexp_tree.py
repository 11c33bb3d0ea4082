"""What Go's parser of regular expressions keeps of a pattern: a stack of its parts, and the limits on them."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

MAX_HEIGHT: Final = 1000
MAX_REPEAT: Final = 1000
MAX_SIZE: Final = (128 << 20) // 40
"""Go's limits: the height of the tree, how often one thing is repeated, and the instructions of the compiled pattern."""


class RegexpError(ValueError):
    """A pattern that Go refuses; `str()` is its text."""

    def __init__(self, code: str, expression: str) -> None:
        """`expression` is the part that is wrong."""
        super().__init__(f"error parsing regexp: {code}: `{expression}`")


class RegexpNode(Struct):
    """A part of the pattern on the parser's stack: what the limits ask of it, and what it is made of."""

    kind: str
    size: int = 1
    height: int = 1
    repeats: int = 1
    """The largest product of repetitions inside one another."""
    times: int = 1
    folded: bool = False
    subs: tuple[RegexpNode, ...] = ()


PSEUDO = frozenset({"(", "(?:", "|"})
_CHARACTERS = frozenset({"literal", "class", "any"})


class Stack:
    """The parts read so far, with openings and bars between them (`regexp/syntax`, `parser.stack`)."""

    def __init__(self, text: str) -> None:
        """An empty stack; `text` is what errors show."""
        self._text = text
        self.parts: list[RegexpNode] = []
        self._nodes = 0
        self._free = 0
        self._product = 1
        self._measured = False

    def _node(self, kind: str, *, folded: bool = False) -> RegexpNode:
        """A new node; Go counts those that it cannot use again."""
        if self._free:
            self._free -= 1
        else:
            self._nodes += 1
        return RegexpNode(kind, folded=folded)

    def add(self, kind: str, *, folded: bool = False) -> None:
        """Put a new node on the stack."""
        self.push(self._node(kind, folded=folded))

    def push(self, node: RegexpNode) -> None:
        """Put a node on the stack; raises `RegexpError` past the limits."""
        self._join_literals()
        self.parts.append(node)
        self._check_limits(node)

    def _join_literals(self) -> None:
        """Two literals in a row are one; only now is it certain that no repetition follows."""
        if len(self.parts) < 2:
            return
        last, previous = self.parts[-1], self.parts[-2]
        if last.kind == previous.kind == "literal" and last.folded == previous.folded:
            previous.size += last.size
            self.parts.pop()
            self._free += 1

    def _check_limits(self, node: RegexpNode) -> None:
        """Raise `RegexpError` for a node that is too high or too large."""
        if not self._measured:
            # Go multiplies whatever comes by here, the same repetition more than once.
            self._product = MAX_SIZE if node.times > MAX_SIZE // self._product else self._product * node.times
            self._measured = self._nodes >= MAX_SIZE // self._product
        if self._measured and node.size > MAX_SIZE:
            raise RegexpError("expression too large", self._text)
        if node.height > MAX_HEIGHT:
            raise RegexpError("expression nests too deeply", self._text)

    def _collapse(self, kind: str) -> None:
        """What stands above the last opening or bar becomes one node."""
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
        """Put the last alternative below the bar; one character after another becomes a class."""
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
        """Make one node of what stands above the last opening."""
        self._join_literals()
        self._collapse("concat")
        if self._swap_bar():
            self.parts.pop()
        self._collapse("alternate")

    def close_group(self) -> bool | None:
        """Read `)`: whether letters were folded before the group, None where none is open."""
        self.close_alternatives()
        if len(self.parts) < 2 or self.parts[-2].kind == "|":
            return None
        inner, opening = self.parts.pop(), self.parts.pop()
        if opening.kind == "(":
            inner = RegexpNode("capture", 2 + inner.size, 1 + inner.height, inner.repeats, subs=(inner,))
        self.push(inner)
        return opening.folded

    def repeat(self, kind: str, least: int = 0, most: int = 0) -> bool:
        """Put the last part below a repetition; whether the repetitions inside one another are few enough."""
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
    """The figures of `sub{least,most}`; `most` is -1 for no end."""
    node.times = max(1, least if most < 0 else most)
    if most < 0:
        node.size = 1 + least * sub.size if least else 2 + sub.size
    else:
        node.size = max(1, most * sub.size + most - least)
    node.repeats = 1 if most == 0 else sub.repeats * node.times

"""The tree that the recovering parser builds. Any part of it may be missing."""

from __future__ import annotations

from replay.cel.syntax.lexer import Token


class Tree:
    """A rule as far as it was read.

    It has the name of the rule or of the alternative, its parts by label, and the rules in it.
    """

    __slots__ = ("children", "invoking_state", "name", "parent", "parts", "start")

    def __init__(self, name: str, parent: Tree | None, invoking_state: int, start: Token) -> None:
        """`start` is the first token. `invoking_state` is the state in which `parent` invoked the rule."""
        self.name = name
        self.parent = parent
        self.invoking_state = invoking_state
        self.start = start
        self.children: list[Tree] = []
        self.parts: dict[str, list[Tree | Token]] = {}

    def keep(self, label: str, part: Tree | Token, *, repeated: bool) -> None:
        """Store a part under a label, either after earlier parts or instead of them."""
        if not label:
            return
        if repeated:
            self.parts.setdefault(label, []).append(part)
        else:
            self.parts[label] = [part]

    def token(self, label: str) -> Token | None:
        """Return the token under a label, or None if there is none."""
        for part in self.parts.get(label, ()):
            if isinstance(part, Token):
                return part
        return None

    def tree(self, label: str) -> Tree | None:
        """Return the rule under a label, or None if there is none."""
        for part in self.parts.get(label, ()):
            if isinstance(part, Tree):
                return part
        return None

    def tokens(self, label: str) -> list[Token]:
        """Return the tokens under a label."""
        return [part for part in self.parts.get(label, ()) if isinstance(part, Token)]

    def trees(self, label: str) -> list[Tree]:
        """Return the rules under a label."""
        return [part for part in self.parts.get(label, ()) if isinstance(part, Tree)]

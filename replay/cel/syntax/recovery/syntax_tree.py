"""The tree that the recovering parser builds; it may lack any part."""

from __future__ import annotations

from replay.cel.syntax.lexer import Token


class Tree:
    """A rule as far as it was read: its name or that of its alternative, its parts by label, and the rules in it."""

    __slots__ = ("children", "invoking_state", "name", "parent", "parts", "start")

    def __init__(self, name: str, parent: Tree | None, invoking_state: int, start: Token) -> None:
        """Begin at a token, invoked by another rule in a state."""
        self.name = name
        self.parent = parent
        self.invoking_state = invoking_state
        self.start = start
        self.children: list[Tree] = []
        self.parts: dict[str, list[Tree | Token]] = {}

    def keep(self, label: str, part: Tree | Token, *, repeated: bool) -> None:
        """Put a part under a label, with those before it or in their place."""
        if not label:
            return
        if repeated:
            self.parts.setdefault(label, []).append(part)
        else:
            self.parts[label] = [part]

    def token(self, label: str) -> Token | None:
        """The token under a label."""
        for part in self.parts.get(label, ()):
            if isinstance(part, Token):
                return part
        return None

    def tree(self, label: str) -> Tree | None:
        """The rule under a label."""
        for part in self.parts.get(label, ()):
            if isinstance(part, Tree):
                return part
        return None

    def tokens(self, label: str) -> list[Token]:
        """The tokens under a label."""
        return [part for part in self.parts.get(label, ()) if isinstance(part, Token)]

    def trees(self, label: str) -> list[Tree]:
        """The rules under a label."""
        return [part for part in self.parts.get(label, ()) if isinstance(part, Tree)]

"""The tokens of a text as the recovering parser reads them."""

from __future__ import annotations

from collections.abc import Callable

from replay.cel.release import NEWEST_RELEASE, Release
from replay.cel.syntax import lexer
from replay.cel.syntax.lexer import EOF, LexicalError, Token


class TokenStream:
    """The visible tokens, read as late as possible: an error in the text counts only once it is reached."""

    def __init__(self, text: str, report: Callable[[int, str], None], release: Release = NEWEST_RELEASE) -> None:
        """`report` receives errors by offset and message when they are reached."""
        self._source = lexer.tokens(text, release)
        self._report = report
        self._all: list[Token] = []
        self._visible: list[Token] = []
        self.index = 0

    def look(self, offset: int) -> Token:
        """Return the visible token `offset` places ahead, from 0. Past the end this is `EOF`."""
        index = self.index + offset
        visible = self._visible
        while len(visible) <= index:
            if visible and visible[-1].kind == EOF:
                return visible[-1]
            self._fetch()
        return visible[index]

    def kind(self, offset: int) -> int:
        """Return the kind of the visible token `offset` places ahead."""
        return self.look(offset).kind

    def previous(self) -> Token | None:
        """Return the visible token before the next one, or None at the start."""
        return self._visible[self.index - 1] if self.index else None

    def text(self, first: Token, last: Token) -> str:
        """Return the text of tokens and of the hidden tokens between them, without text that is no token."""
        tokens = self._all[first.ordinal : last.ordinal + 1]
        return "".join([token.text for token in tokens if token.kind != EOF])

    def _fetch(self) -> None:
        for token in self._source:
            if isinstance(token, LexicalError):
                self._report(token.start, f"token recognition error at: '{token.text}'")
                continue
            self._all.append(token)
            if token.kind not in (lexer.WHITESPACE, lexer.COMMENT):
                self._visible.append(token)
                return

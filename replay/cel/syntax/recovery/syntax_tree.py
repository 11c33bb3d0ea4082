"""The tree that the recovering parser builds. Any part of it may be missing."""

from __future__ import annotations

from typing import Final

from replay.cel.ast.issues import Issues
from replay.cel.release import NEWEST_RELEASE, Release
from replay.cel.syntax.lexer import Token
from replay.go.format import sprintf_without_arguments

# Syntax errors in the words of ANTLR, as cel-go reports them.

MAX_SYNTAX_ERRORS: Final = 100
"""cel-go's limit, which Kubernetes keeps."""


class AbortedError(Exception):
    """End of parsing, after its reason was reported."""


class RecognitionError(Exception):
    """Error after which a rule cannot continue. The message is complete."""

    def __init__(self, message: str, offending: Token) -> None:
        """`offending` is the token at which the error is reported."""
        super().__init__(message)
        self.message = message
        self.offending = offending


class SyntaxErrors:
    """The syntax errors of one expression."""

    def __init__(self, issues: Issues, release: Release = NEWEST_RELEASE) -> None:
        """Start with no errors."""
        self._issues = issues
        self._release = release
        self._count = 0

    def report(self, offset: int, message: str) -> None:
        """Add a syntax error. Raises `AbortedError` after too many of them."""
        if self._count >= MAX_SYNTAX_ERRORS:
            self._issues.report(0, offset, f"Syntax error: More than {MAX_SYNTAX_ERRORS} syntax errors")
            raise AbortedError
        self._count += 1
        if self._release < Release.V0_23:
            # The message itself is the format: what follows a `%` asks for arguments that are not there.
            message = sprintf_without_arguments(message)
        self._issues.report(0, offset, f"Syntax error: {message}")


def shown(token: Token) -> str:
    """Return a token as messages show it."""
    return quoted(token.text)


def quoted(text: str) -> str:
    """Return a text in quotes, on one line."""
    escaped = text.replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
    return f"'{escaped}'"


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

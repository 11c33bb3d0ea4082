"""Syntax errors in the words of ANTLR, as cel-go reports them."""

from __future__ import annotations

from typing import Final

from replay.cel.ast.issues import Issues
from replay.cel.release import NEWEST_RELEASE, Release
from replay.cel.syntax.lexer import Token
from replay.go.format import sprintf_without_arguments

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

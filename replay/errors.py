"""Errors that end a command because the user's input is unusable.

`replay.cli.app` catches them and prints one line: the location first, then what is wrong and what to do. A wrong CEL expression is no
exception but a value (`replay.cel.ast.issues`). A failed evaluation is an exception only inside `replay.cel`. A record without a needed
field becomes `Missing`.
"""

from __future__ import annotations

UNFORESEEN = (TypeError, AttributeError, LookupError, ValueError, ArithmeticError, RecursionError)
"""What Python raises where a value of a log has a form that nobody foresaw.

Around one request they are caught, so that it alone is set aside and told, and the others are decided.
"""


def reason_of(error: Exception) -> str:
    """Return the system's words for an error in lower case, without its number and path."""
    words = error.strerror if isinstance(error, OSError) else None
    return (words or str(error) or type(error).__name__).lower()


class ReplayError(Exception):
    """An error of the user's input. `str()` is the line that the user sees."""

    exit_code = 2

    def __init__(self, message: str, *, path: str = "", line: int = 0, column: int = 0) -> None:
        """Keep the location apart from the message, because some output formats need both."""
        super().__init__(message)
        self.message = message
        self.path = path
        self.line = line
        self.column = column

    def __str__(self) -> str:
        """Return `path:line:column: message`, with the known parts of the location."""
        where = [str(part) for part in (self.path, self.line, self.column) if part]
        return ": ".join([":".join(where), self.message]) if where else self.message


class AuditLogError(ReplayError):
    """An audit log that cannot be used at all. A single bad line is an unusable line, not an error."""


class NoLogError(AuditLogError):
    """An argument that names no audit log: the file or object does not exist."""


class ManifestError(ReplayError):
    """A manifest set or admission configuration that the API server refuses."""


class StoreError(ReplayError):
    """A store that has another version, is damaged, or cannot be written."""


class SnapshotError(ReplayError):
    """A snapshot that cannot be read."""

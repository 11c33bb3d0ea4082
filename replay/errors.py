"""The errors that end a command: the operator's input is unusable.

An expression that is wrong is no exception but a value (`replay.cel.ast.issues`), an evaluation that fails is one inside
`replay.cel` alone, and a record that lacks something becomes `Missing`. What is raised here is caught once, in
`replay.cli.app`, and printed as one line: location first, what is wrong, what to do.
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
    """The operator's input is unusable; `str()` is the one line shown to the operator."""

    exit_code = 2

    def __init__(self, message: str, *, path: str = "", line: int = 0, column: int = 0) -> None:
        """Keep the location apart from the message, so that formats other than text can use both."""
        super().__init__(message)
        self.message = message
        self.path = path
        self.line = line
        self.column = column

    def __str__(self) -> str:
        """`path:line:column: message`, as far as each is known."""
        where = [str(part) for part in (self.path, self.line, self.column) if part]
        return ": ".join([":".join(where), self.message]) if where else self.message


class AuditLogError(ReplayError):
    """An audit log cannot be used at all (a single bad line is a reject, not an error)."""


class NoLogError(AuditLogError):
    """An argument names no audit log: there is no such file or object."""


class ManifestError(ReplayError):
    """A manifest set or an admission configuration is refused, as the API server would refuse it."""


class StoreError(ReplayError):
    """A store is of another version, is damaged, or cannot be written."""


class SnapshotError(ReplayError):
    """A cluster snapshot cannot be read."""

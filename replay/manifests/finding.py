"""Findings of `replay check` (one error or warning at one place of a manifest), and field errors in the API server's wording.

Source of the wording: `k8s.io/apimachinery/pkg/util/validation/field`.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct

from replay.go.format import marshal, quote
from replay.json import JSON
from replay.manifests.read.node import NOWHERE, Position


class FieldError(Struct, frozen=True):
    """One error of one field. `str()` is `path: body`. `shown_path` is the server's spelling, if different."""

    path: str
    body: str
    shown_path: str = ""

    def __str__(self) -> str:
        """Return the text as in the server's list."""
        return f"{self.shown_path or self.path}: {self.body}"


def required(path: str, detail: str = "") -> FieldError:
    """Return the error for a missing or empty value."""
    return _error(path, "Required value", detail)


def invalid(path: str, value: JSON, detail: str, *, named_type: bool = False) -> FieldError:
    """Return the error for a malformed value.

    A plain string is quoted as in Go. Other values are printed as JSON with their own order of fields.
    """
    shown = quote(value) if isinstance(value, str) and not named_type else marshal(value, sort_keys=False)
    return _error(path, f"Invalid value: {shown}", detail)


def not_supported(path: str, value: str, supported: Iterable[str]) -> FieldError:
    """Return the error for an unknown value of an enumeration."""
    return not_supported_struct(path, value, supported)


def not_supported_struct(path: str, value: JSON, supported: Iterable[str]) -> FieldError:
    """Return the error for an unknown value, with a struct in its place. Its fields are in Go's order."""
    listed = ", ".join(quote(item) for item in supported)
    return _error(path, f"Unsupported value: {marshal(value, sort_keys=False)}", f"supported values: {listed}")


def duplicate(path: str, value: str) -> FieldError:
    """Return the error for a value that must be unique and is not."""
    return _error(path, f"Duplicate value: {quote(value)}", "")


def forbidden(path: str, detail: str) -> FieldError:
    """Return the error for a value that may not be set here."""
    return _error(path, "Forbidden", detail)


def too_long(path: str, limit: int) -> FieldError:
    """Return the error for a value over `limit` bytes."""
    return _error(path, "Too long", f"may not be more than {limit} bytes")


def too_many(path: str, count: int, limit: int) -> FieldError:
    """Return the error for a list of more than `limit` items."""
    return _error(path, f"Too many: {count}", f"must have at most {limit} items")


def internal(path: str, detail: str) -> FieldError:
    """Return an error that is not the fault of the manifest."""
    return _error(path, "Internal error", detail)


def _error(path: str, body: str, detail: str) -> FieldError:
    return FieldError(path, f"{body}: {detail}" if detail else body)


SERVER = "server"
"""Name of every finding that the API server itself would refuse."""


class Severity(StrEnum):
    """Severity of a finding.

    An error stops the server (or a reload). A warning is ours alone. An information needs no action.
    """

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Finding(Struct, frozen=True):
    """One finding. `name` is `server` or the name of a lint. `field_path` is empty if it is about the whole document.

    `object` is `Kind/name` of the object if one could be read. `first` marks the part that is in the server's own
    refusal. `fix` is advice if the server's words have none. It is part of the one line of an error.
    """

    severity: Severity
    name: str
    message: str
    path: str
    position: Position = NOWHERE
    field_path: str = ""
    object: str = ""
    first: bool = False
    fix: str = ""


class ManifestRefusal(Struct, frozen=True):
    """One error in the server's words (it stops at the first), with its findings."""

    text: str
    findings: tuple[Finding, ...]

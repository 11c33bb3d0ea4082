"""Choices of the command line.

They are output formats, failure conditions, forms of a request, deciding sets, and operations on objects.
"""

from __future__ import annotations

from enum import StrEnum


class Format(StrEnum):
    """Output format of a command.

    The names are the same everywhere; each command offers those that make sense for it.
    """

    TERMINAL = "terminal"
    JSON = "json"
    MARKDOWN = "markdown"
    HTML = "html"
    CSV = "csv"
    GITHUB = "github"
    SARIF = "sarif"
    JUNIT = "junit"
    GITLAB = "gitlab"


class DocumentFormat(StrEnum):
    """Output formats of a report without findings at file lines."""

    TERMINAL = "terminal"
    JSON = "json"
    MARKDOWN = "markdown"
    HTML = "html"


class FailOn(StrEnum):
    """Conditions on which a run may fail."""

    DENIED = "denied"
    LOCKOUT = "lockout"
    MUTATED = "mutated"
    UNDECIDED = "undecided"
    REMOVED = "removed"
    NONE = "none"


class CaseForm(StrEnum):
    """Form in which a request is written."""

    CASE = "case"
    REVIEW = "review"
    KAT = "kat"
    KYVERNO = "kyverno"
    GATOR = "gator"
    KUBECTL = "kubectl"


class DecidingSet(StrEnum):
    """The set that decides."""

    CURRENT = "current"
    CANDIDATE = "candidate"


class CaseOperation(StrEnum):
    """Request for each object: an unchanged update, a creation, or the check of Kyverno's background scan."""

    UPDATE = "update"
    CREATE = "create"
    BACKGROUND = "background"

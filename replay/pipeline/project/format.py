"""Choices of the command line: output formats, and conditions of failure."""

from __future__ import annotations

from enum import StrEnum


class Format(StrEnum):
    """How what a command found is printed: the same names everywhere; a command has those that make sense for it."""

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
    """Those of them that a report has which tells no findings at lines."""

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

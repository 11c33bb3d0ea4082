"""Choices of the command line: output formats, conditions of failure, form of a request, deciding set, operation on objects."""

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


class CaseForm(StrEnum):
    """How a request is written."""

    CASE = "case"
    REVIEW = "review"
    KAT = "kat"
    KYVERNO = "kyverno"
    GATOR = "gator"
    KUBECTL = "kubectl"


class DecidingSet(StrEnum):
    """Which set decides."""

    CURRENT = "current"
    CANDIDATE = "candidate"


class CaseOperation(StrEnum):
    """What is asked about each object: an unchanged update, a creation, or what Kyverno's background scan reports."""

    UPDATE = "update"
    CREATE = "create"
    BACKGROUND = "background"

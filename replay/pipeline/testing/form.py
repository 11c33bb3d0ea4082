"""Choices of the command line: form of a request, deciding set, operation on objects."""

from __future__ import annotations

from enum import StrEnum


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

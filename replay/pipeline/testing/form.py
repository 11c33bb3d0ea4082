"""How a request is written, which set decides it, what objects are asked: what the command line offers."""

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
    """What is asked of each object: its next unchanged update, or to be created anew."""

    UPDATE = "update"
    CREATE = "create"

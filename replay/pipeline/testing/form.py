"""How a request is written, and which set decides it: what the command line offers."""

from __future__ import annotations

from enum import StrEnum


class Form(StrEnum):
    """How a request is written."""

    CASE = "case"
    REVIEW = "review"
    KAT = "kat"
    KYVERNO = "kyverno"
    KUBECTL = "kubectl"


class Side(StrEnum):
    """Which set decides."""

    CURRENT = "current"
    CANDIDATE = "candidate"

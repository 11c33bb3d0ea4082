"""Requests that reach admission in one set only, because their authorizers differ."""

from __future__ import annotations

from msgspec import Struct

from replay.admission.decision import Decision, Verdict


class Gate(Struct, frozen=True):
    """Writes by sequence number: those that the candidate's authorizers refuse, and those that only they allow."""

    refused: frozenset[int] = frozenset()
    newly_allowed: frozenset[int] = frozenset()
    unknown: frozenset[int] = frozenset()
    """Allowed requests for which the candidate's authorization is unknown."""

    def candidate(self, seq: int, decision: Decision) -> Decision:
        """Return the candidate's decision about a request, given the decision of its policies."""
        return REFUSED_BY_AUTHORIZERS if seq in self.refused else decision


OPEN = Gate()
REFUSED_BY_AUTHORIZERS = Decision(Verdict.NOT_REACHED)
"""Decision of admission about a request that the authorizers refuse."""

"""Which requests come to admission under one set alone, because their authorizers differ."""

from __future__ import annotations

from msgspec import Struct

from replay.admission.decision import Decision, Undetermined, Verdict

_LET_IN = Undetermined("", "", "it was not allowed at the time, so that the log does not hold what it would bring")


class Gate(Struct, frozen=True):
    """Writes by their place in the log: those that the candidate refuses, and those that it alone lets in."""

    refused: frozenset[int] = frozenset()
    let_in: frozenset[int] = frozenset()

    def candidate(self, seq: int, decision: Decision) -> Decision:
        """What the candidate decides about a request, given what its policies alone would."""
        if seq in self.refused:
            return NOT_LET_IN
        return NOT_RECORDED if seq in self.let_in else decision


OPEN = Gate()
NOT_LET_IN = Decision(Verdict.NOT_REACHED)
"""What admission says about a request that the authorizers refuse: nothing."""
NOT_RECORDED = Decision(Verdict.UNDETERMINED, undetermined=(_LET_IN,))
"""What is known of a request that nobody let in at the time."""

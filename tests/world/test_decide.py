"""Decisions about a request that may have been to create or to update."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from replay.admission.decision import Decision, Denial, Undetermined, Verdict
from replay.world.decide import OPEN_OPERATION, common_decision

NO, NEVER = Denial("p", "b", 0, "no", "Invalid", 422), Denial("q", "b", 0, "never", "Invalid", 422)
ADMITTED = Decision(Verdict.ADMITTED)
WARNED = Decision(Verdict.ADMITTED, warnings=("careful",))
UNKNOWN = Decision(Verdict.UNDETERMINED, undetermined=(Undetermined("p", "b", "`oldObject` is not known"),))


def denied(*denials: Denial) -> Decision:
    return Decision(Verdict.DENIED, denials=denials)


def open_for(policy: str, *denials: Denial) -> Decision:
    entry = Undetermined(policy, "b" if policy else "", OPEN_OPERATION)
    return Decision(Verdict.UNDETERMINED, denials=denials, undetermined=(entry,))


class Case(NamedTuple):
    name: str
    update: Decision
    create: Decision
    expected: Decision


CASES = [
    Case("both admit", ADMITTED, ADMITTED, ADMITTED),
    Case("both deny alike", denied(NO), denied(NO), denied(NO)),
    Case("one denies", ADMITTED, denied(NO), open_for("p")),
    Case("one denies more", denied(NO, NEVER), denied(NO), open_for("q", NO)),
    Case("one warns", WARNED, ADMITTED, open_for("")),
    Case("one is open", UNKNOWN, ADMITTED, UNKNOWN),
]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_either(case: Case) -> None:
    assert common_decision(case.update, case.create) == case.expected

from __future__ import annotations

import pytest

from replay.admission.decision import Decision, Denial, Mutated, Undetermined, Verdict
from replay.compare.effect import mutation_causes, patch_shape
from replay.compare.outcome import OutcomeKind, outcome_kind

DENIAL = Denial("p", "b", 0, "no", "Invalid", 422)
ADMITTED = Decision(Verdict.ADMITTED)
DENIED = Decision(Verdict.DENIED, (DENIAL,))
UNKNOWN = Decision(Verdict.UNDETERMINED, undetermined=(Undetermined("p", "b", "not recorded"),))
DENIED_IN_PART = Decision(Verdict.UNDETERMINED, (DENIAL,), undetermined=(Undetermined("q", "b", "not recorded"),))
PATCHED = Decision(Verdict.ADMITTED, patch=({"op": "add", "path": "/a", "value": 1},))
PATCHED_OTHERWISE = Decision(Verdict.ADMITTED, patch=({"op": "add", "path": "/a", "value": 2},))
WARNED = Decision(Verdict.ADMITTED, warnings=("w",))
AUDITED = Decision(Verdict.ADMITTED, audit_annotations={"p/k": "v"})

ROWS = [
    ("same", ADMITTED, ADMITTED, OutcomeKind.UNCHANGED),
    ("newly denied", ADMITTED, DENIED, OutcomeKind.NEWLY_DENIED),
    ("newly denied for certain, though other policies are unknown", ADMITTED, DENIED_IN_PART, OutcomeKind.NEWLY_DENIED),
    ("denied, but whether newly is unknown", UNKNOWN, DENIED, OutcomeKind.UNDETERMINED),
    ("denied by both", DENIED, DENIED_IN_PART, OutcomeKind.UNCHANGED),
    ("newly admitted", DENIED, ADMITTED, OutcomeKind.NEWLY_ADMITTED),
    ("perhaps newly admitted", DENIED, UNKNOWN, OutcomeKind.UNDETERMINED),
    ("one decision for both sets", UNKNOWN, UNKNOWN, OutcomeKind.UNCHANGED),
    ("perhaps newly denied", ADMITTED, UNKNOWN, OutcomeKind.UNDETERMINED),
    ("newly mutated", ADMITTED, PATCHED, OutcomeKind.NEWLY_MUTATED),
    ("mutated otherwise", PATCHED, PATCHED_OTHERWISE, OutcomeKind.MUTATION_CHANGED),
    ("no longer mutated", PATCHED, ADMITTED, OutcomeKind.NO_LONGER_MUTATED),
    ("newly warned", ADMITTED, WARNED, OutcomeKind.NEWLY_WARNED),
    ("newly audited", WARNED, AUDITED, OutcomeKind.NEWLY_AUDITED),
    ("audited no longer", AUDITED, ADMITTED, OutcomeKind.UNCHANGED),
]


@pytest.mark.parametrize(("current", "candidate", "expected"), [r[1:] for r in ROWS], ids=[r[0] for r in ROWS])
def test_outcome_kind(current: Decision, candidate: Decision, expected: OutcomeKind) -> None:
    assert outcome_kind(current, candidate) is expected


def mutated(policy: str, *paths: str) -> Mutated:
    return Mutated(policy, "b", tuple({"op": "add", "path": path, "value": 1} for path in paths))


def test_causes_are_what_differs_between_the_sets() -> None:
    current = Decision(Verdict.ADMITTED, mutated=(mutated("same", "/a"), mutated("gone", "/b")))
    candidate = Decision(
        Verdict.ADMITTED, mutated=(mutated("same", "/a"), mutated("new", "/c/0/d", "/c/1/d"), mutated("new", "/e"))
    )
    assert mutation_causes(current, candidate) == (("new", ("add /c/*/d", "add /e")), ("gone", ("add /b",)))


def test_patch_shape() -> None:
    patch = [{"op": "add", "path": "/a/-"}, {"op": "add", "path": "/a/12"}, {"op": "remove", "path": "/b~1c"}]
    assert patch_shape(patch) == ("add /a/*", "remove /b~1c")

from __future__ import annotations

import json

from replay.admission.decision import Decision, Denial, Mutated, Undetermined, Verdict
from replay.audit.answer import VALIDATION_FAILURE
from replay.compare.weekly import (
    EffectAction,
    EffectCell,
    EffectCounts,
    EffectKey,
    EffectSide,
    PolicyEffect,
    effects_of,
)


def test_each_effect_counts_once_for_each_policy() -> None:
    failures = [
        {"policy": "audits", "message": "first"},
        {"policy": "audits", "message": "second"},
        {"policy": "both", "message": "b"},
    ]
    decision = Decision(
        Verdict.DENIED,
        denials=(Denial("p", "b", 0, "one", "Invalid", 422), Denial("p", "c", 1, "two", "Invalid", 422)),
        warnings=(
            "Validation failed for ValidatingAdmissionPolicy 'both' with binding 'other': of\ntwo lines",
            "unknown field `spec.x`",
            "Validation failed for ValidatingAdmissionPolicy 'both' with binding 'x': b",
        ),
        audit_annotations={VALIDATION_FAILURE: json.dumps(failures), "audits/key": "value"},
        undetermined=(Undetermined("u", "b", "why"),),
        mutated=(Mutated("m", "b", ()),),
    )
    assert list(effects_of(decision)) == [
        PolicyEffect(EffectAction.DENY, "p", "one"),
        PolicyEffect(EffectAction.WARN, "both", "of\ntwo lines"),
        PolicyEffect(EffectAction.AUDIT, "audits", "first"),
        PolicyEffect(EffectAction.AUDIT, "both", "b"),
        PolicyEffect(EffectAction.MUTATE, "m", ""),
        PolicyEffect(EffectAction.UNDETERMINED, "u", "why"),
    ]
    assert list(effects_of(Decision(Verdict.ADMITTED))) == []


def test_merging_does_not_depend_on_the_order() -> None:
    key = EffectKey(0, EffectSide.CURRENT, EffectAction.DENY, "p", "u", "n", "pods", "Pod/x", denied=True, owner="")
    parts = []
    for audit_id, at in (("b", 7), ("a", 7), ("c", 9)):
        part = EffectCounts()
        part.count(key, EffectCell(1, at, at, audit_id, f"message {audit_id}"), at)
        parts.append(part)
    forwards, backwards = EffectCounts(), EffectCounts()
    for part in parts:
        forwards.add(
            EffectCounts(
                {k: EffectCell(c.count, c.first, c.last, c.audit_id, c.message) for k, c in part.cells.items()},
                part.timeline,
            )
        )
    for part in reversed(parts):
        backwards.add(part)
    assert forwards == backwards
    assert forwards.cells[key] == EffectCell(3, 7, 9, "a", "message a")

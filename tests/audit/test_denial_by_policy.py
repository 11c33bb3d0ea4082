"""The policies of an engine that the message of a denial names."""

from __future__ import annotations

import pytest

from replay.audit.answer import ObservedDenial

_BLOCK = (
    "\n\nresource Pod/team-a/p was blocked due to the following policies \n\n"
    "labels:\n  autogen-team: 'validation error: the label `team` is missing. rule team\n    failed at path /metadata/labels/team/'\n"
    "  app: 'validation error: no'\nquota:\n  size: too large\n"
)
ROWS = [
    (
        "rules of Kyverno",
        "validate.kyverno.svc-fail",
        _BLOCK,
        [
            (
                "labels/team",
                "validation error: the label `team` is missing. rule team\n    failed at path /metadata/labels/team/",
            ),
            ("labels/app", "validation error: no"),
            ("quota/size", "too large"),
        ],
    ),
    (
        "policies of CEL",
        "vpol.validate.kyverno.svc-fail",
        "Policy a failed: no; really; Policy b error: error: no such key: x",
        [("a", "no; really"), ("b", "error: no such key: x")],
    ),
    ("constraints", "validation.gatekeeper.sh", "[a] no\n[b] nor this", [("a", "no"), ("b", "nor this")]),
    ("another message of Kyverno", "validate.kyverno.svc-fail", "no", [("validate.kyverno.svc-fail", "no")]),
    ("another webhook", "w.example.com", _BLOCK, [("w.example.com", _BLOCK)]),
]


@pytest.mark.parametrize(("webhook", "message", "expected"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_by_policy(webhook: str, message: str, expected: list[tuple[str, str]]) -> None:
    denial = ObservedDenial(webhook, "", message, webhook=True)
    assert [(each.policy, each.message) for each in denial.by_policy] == expected

"""Accepted findings: what lets a denial pass, what no longer occurs, what has expired."""

from __future__ import annotations

from datetime import date

import pytest
from msgspec.structs import replace

from replay.compare.accepted import Acceptance, AcceptanceLedger
from replay.compare.outcome import OutcomeKind
from replay.compare.summary import CellKey

TODAY = date(2026, 11, 22)


def key(*policies: str, namespace: str = "prod", workload: str = "Deployment/api") -> CellKey:
    return CellKey(OutcomeKind.NEWLY_DENIED, policies or ("p",), "u", namespace, "pods", "Pod", workload, follows=False)


ROWS = [
    ("a policy everywhere", [Acceptance("p")], key(), True),
    ("another policy", [Acceptance("q")], key(), False),
    ("a pattern", [Acceptance("*", "pr?d", "Deployment/*")], key(), True),
    ("another namespace", [Acceptance("p", "dev")], key(), False),
    ("no namespace", [Acceptance("p", "")], key(namespace=""), True),
    ("another workload", [Acceptance("p", "*", "Deployment/web")], key(), False),
    ("one of two policies", [Acceptance("p")], key("p", "q"), False),
    ("both of two policies", [Acceptance("p"), Acceptance("q")], key("p", "q"), True),
    ("until today", [Acceptance("p", expires=TODAY)], key(), True),
    ("until yesterday", [Acceptance("p", expires=date(2026, 11, 21))], key(), False),
    ("renewed", [Acceptance("p", expires=date(2026, 1, 1)), Acceptance("p", expires=TODAY)], key(), True),
    ("no denial", [Acceptance("p")], replace(key(), outcome=OutcomeKind.NEWLY_MUTATED), False),
]


@pytest.mark.parametrize(("entries", "asked", "accepted"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_what_is_accepted(entries: list[Acceptance], asked: CellKey, accepted: bool) -> None:
    ledger = AcceptanceLedger("file", entries, TODAY)
    assert [ledger.accepts(asked), ledger.accepts(asked)] == [accepted, accepted]
    assert ledger.facts().requests == 2 * accepted


def test_what_came_of_each_entry() -> None:
    entries = [Acceptance("p", "prod"), Acceptance("gone"), Acceptance("q", expires=date(2026, 1, 1)), Acceptance("p")]
    ledger = AcceptanceLedger("file", entries, TODAY)
    for asked in (key(), key(), key("q"), key(namespace="dev")):
        ledger.accepts(asked)
    facts = ledger.facts()
    assert [(each.requests, each.expired) for each in facts.entries] == [(2, False), (0, False), (1, True), (1, False)]
    assert facts.requests == 3
    assert [each.entry.policy for each in facts.gone] == ["gone"]
    assert [each.entry.policy for each in facts.expired] == ["q"]

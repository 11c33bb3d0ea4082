from __future__ import annotations

from collections import Counter

import pytest

from replay.compare.outcome import MUTATIONS, OutcomeKind
from replay.compare.summary import Cell, CellKey, Example, OutcomeFinding, Summary
from replay.report.run.mutations import mutation_sections
from replay.report.run.report import mutation_facts


def found(outcome: OutcomeKind, message: str) -> OutcomeFinding:
    key = CellKey(outcome, ("p",), "alice", "a", "pods", "Pod", "w", follows=False)
    return OutcomeFinding(key, Example(1, 0, "id", 0, "CREATE", "n", (message,)))


def test_each_outcome_of_a_policy_has_messages_of_its_own() -> None:
    one, other = Summary(), Summary()
    one.add_finding(found(OutcomeKind.NEWLY_DENIED, "denied"))
    other.add_finding(found(OutcomeKind.UNDETERMINED, "not known"))
    other.add_finding(found(OutcomeKind.UNDETERMINED, "not known"))
    one.add(other)
    assert one.messages == {
        (OutcomeKind.NEWLY_DENIED, "p"): Counter({"denied": 1}),
        (OutcomeKind.UNDETERMINED, "p"): Counter({"not known": 2}),
    }


@pytest.mark.parametrize(
    ("kinds", "facts", "title"),
    [
        ((), ["Newly mutated 0"], ""),
        (MUTATIONS[:1], ["Newly mutated 1"], "Newly mutated"),
        (MUTATIONS[2:], ["Newly mutated 0", "No longer mutated 1"], "No longer mutated"),
        (
            MUTATIONS,
            ["Newly mutated 1", "Mutated differently 1", "No longer mutated 1"],
            "Mutations",
        ),
    ],
    ids=["nothing", "newly", "no longer", "each"],
)
def test_what_is_no_longer_mutated_is_not_called_new(
    kinds: tuple[OutcomeKind, ...], facts: list[str], title: str
) -> None:
    summary = Summary(outcomes=Counter(kinds))
    for kind in kinds:
        key = CellKey(kind, ("p",), "alice", "a", "pods", "Pod", "w", follows=False, shapes=(("add /a",),))
        summary.cells[key] = Cell(1, 0, 0, [Example(1, 0, "id", 0, "CREATE", "n", ("",))])
    assert [f"{fact.label} {fact.value}" for fact in mutation_facts(summary)] == facts
    assert [section.title for section in mutation_sections(summary, 8)] == ([title] if title else [])

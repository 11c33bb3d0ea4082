from __future__ import annotations

from typing import NamedTuple

import pytest

from replay.admission.decision import Decision, Denial, Undetermined, Verdict
from replay.admission.validating.plugin import with_mutation_effects


def decision(*policies: str) -> Decision:
    denials = tuple(Denial(policy, "b", 0, "no", "Invalid", 422) for policy in policies)
    return Decision(Verdict.DENIED if policies else Verdict.ADMITTED, denials)


OPEN = Decision(Verdict.UNDETERMINED, undetermined=(Undetermined("p", "b", "not known"),))


class Case(NamedTuple):
    name: str
    mutated: Decision
    plain: Decision
    caused: tuple[str, ...] = ()
    healed: tuple[str, ...] = ()


CASES = [
    Case("admitted either way", decision(), decision()),
    Case("denied either way", decision("p"), decision("p")),
    Case("caused", decision("p"), decision(), caused=("p",)),
    Case("healed", decision(), decision("p"), healed=("p",)),
    Case("one caused, one healed", decision("p"), decision("q"), ("p",), ("q",)),
    Case("not known without the mutation", decision("p"), OPEN),
    Case("not known with the mutation", OPEN, decision("p")),
]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_with_mutation_effects(case: Case) -> None:
    found = with_mutation_effects(case.mutated, case.plain)
    assert tuple(each.policy for each in found.caused_by_mutation) == case.caused
    assert tuple(each.policy for each in found.healed_by_mutation) == case.healed
    assert (found.denials, found.verdict) == (case.mutated.denials, case.mutated.verdict)

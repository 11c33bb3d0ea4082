from __future__ import annotations

from typing import NamedTuple

import pytest

from replay.admission.decision import Decision, Denial, Mutated, Undetermined, Verdict, WebhookCall
from replay.compare.mutation_effect import mutation_causes, patch_shape, with_mutation_effects


def denial(policy: str, message: str = "no") -> Denial:
    return Denial(policy, "b", 0, message, "Invalid", 422)


def decision(*policies: str, **fields: object) -> Decision:
    verdict = Verdict.DENIED if policies else Verdict.ADMITTED
    return Decision(verdict, tuple(map(denial, policies)), **fields)  # type: ignore[arg-type]


OPEN = Decision(Verdict.UNDETERMINED, undetermined=(Undetermined("p", "b", "not known"),))
CALLED = decision("hook", webhooks=(WebhookCall("hook", "b", "validating", "Fail", 1, "None", "denied"),))


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
    Case("a webhook's refusal says nothing", CALLED, decision()),
]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_with_mutation_effects(case: Case) -> None:
    found = with_mutation_effects(case.mutated, case.plain)
    assert tuple(each.policy for each in found.caused_by_mutation) == case.caused
    assert tuple(each.policy for each in found.healed_by_mutation) == case.healed
    assert (found.denials, found.verdict) == (case.mutated.denials, case.mutated.verdict)


def mutated(policy: str, *paths: str) -> Mutated:
    return Mutated(policy, "b", tuple({"op": "add", "path": path, "value": 1} for path in paths))


def test_causes_are_what_differs_between_the_sets() -> None:
    current = decision(mutated=(mutated("same", "/a"), mutated("gone", "/b")))
    candidate = decision(mutated=(mutated("same", "/a"), mutated("new", "/c/0/d", "/c/1/d"), mutated("new", "/e")))
    assert mutation_causes(current, candidate) == (("new", ("add /c/*/d", "add /e")), ("gone", ("add /b",)))


def test_patch_shape() -> None:
    patch = [{"op": "add", "path": "/a/-"}, {"op": "add", "path": "/a/12"}, {"op": "remove", "path": "/b~1c"}]
    assert patch_shape(patch) == ("add /a/*", "remove /b~1c")

"""What a request tells about the policies of the current set."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from replay.admission.decision import Decision, Denial, Undetermined, Verdict
from replay.audit.answer import Observed, ObservedDenial, observed_denial
from replay.audit.event import RequestRecord
from replay.compare.fidelity import Fidelity, equal_texts
from replay.compare.in_force import Sign, evidence_of

RECORD = RequestRecord._make([0, "id", *("",) * (len(RequestRecord._fields) - 2)])
POLICIES = frozenset({"a", "b", "m"})
CONTENTION = "another request changed its namespace at the same time"


def denial(policy: str, message: str = "no") -> Denial:
    return Denial(policy, "x", 0, message, "Invalid", 422)


def denied(*denials: Denial) -> Decision:
    return Decision(Verdict.DENIED, denials=denials)


def undetermined(policy: str, *denials: Denial) -> Decision:
    return Decision(Verdict.UNDETERMINED, denials=denials, undetermined=(Undetermined(policy, "x", "?"),))


class Case(NamedTuple):
    name: str
    observed: ObservedDenial | None
    decision: Decision
    signs: list[tuple[str, Sign]]


SAID = observed_denial("policy 'm' with binding 'x' denied request: no such key: a")
CASES = [
    Case("the same", ObservedDenial("a", "x", "no"), denied(denial("a")), [("a", Sign.SEEN)]),
    Case("keys in another order", ObservedDenial("a", "x", "d,a"), denied(denial("a", "a,d")), [("a", Sign.SEEN)]),
    Case("another text", ObservedDenial("a", "x", "b"), denied(denial("a", "a,d")), [("a", Sign.OTHER)]),
    Case(
        "an earlier one",
        ObservedDenial("b", "x", "no"),
        denied(denial("a"), denial("b")),
        [("a", Sign.ABSENT), ("b", Sign.SEEN)],
    ),
    Case("an undetermined one denied", ObservedDenial("a", "x", "no"), undetermined("a", denial("b")), []),
    Case("nobody would have, as far as is known", ObservedDenial("b", "x", "no"), undetermined("a"), []),
    Case("nobody denied", None, denied(denial("a")), [("a", Sign.ABSENT)]),
    Case("a mutating policy", SAID, denied(denial("m", "no such key: a")), [("m", Sign.SEEN)]),
]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_denials(case: Case) -> None:
    found = evidence_of(RECORD, Observed(case.observed), case.decision, POLICIES, CONTENTION)
    assert [(each.policy, each.sign) for each in found] == case.signs


def test_the_order_of_keys_is_no_difference_of_fidelity() -> None:
    fidelity = Fidelity()
    fidelity.record(
        1, "id", Observed(ObservedDenial("a", "x", "keys: d,a")), denied(denial("a", "keys: a,d")), POLICIES
    )
    assert (fidelity.denials.reproduced, fidelity.denials.differs) == (1, 0)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("{a: 1, b: 2}", "{b: 2, a: 1}", True),
        ("a,b", "a,bb", False),
        ("at most 12", "at most 21", False),
        ({"message": "x y"}, {"message": "y x"}, True),
        (["x y"], ["y x", "z"], False),
        (None, ["x"], False),
    ],
)
def test_says_the_same(one: object, other: object, same: bool) -> None:
    assert equal_texts(one, other) is same

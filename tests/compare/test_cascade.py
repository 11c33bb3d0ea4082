from __future__ import annotations

import random

import pytest

from replay.compare.cascade import Cascade, Creation, Place, Subject, relevant
from replay.kube.attributes import Operation


def about(
    resource: str, name: str, *, namespace: str = "shop", uid: str = "", owners: tuple[str, ...] = (), sub: str = ""
) -> Subject:
    return Subject("", resource, sub, namespace, name, uid, owners)


CREATIONS = [
    Creation(Place(1, 0), about("namespaces", "shop", namespace="", uid="n1"), denied=False),
    Creation(Place(2, 0), about("namespaces", "lab", namespace="", uid="n2"), denied=True),
    Creation(Place(3, 0), about("deployments", "web", uid="d1"), denied=True),
    Creation(Place(4, 0), about("replicasets", "web-1", uid="r1", owners=("d1",)), denied=False),
    Creation(Place(9, 0), about("deployments", "web", uid="d2"), denied=False),
]

ROWS = [
    ("a root finding", Place(3, 0), Operation.CREATE, about("deployments", "web", uid="d1"), ""),
    (
        "an update of a denied object",
        Place(5, 0),
        Operation.UPDATE,
        about("deployments", "web"),
        "deployments shop/web",
    ),
    ("before the denial", Place(2, 5), Operation.UPDATE, about("deployments", "web"), ""),
    ("created again and admitted", Place(10, 0), Operation.UPDATE, about("deployments", "web"), ""),
    ("owned at second hand", Place(6, 0), Operation.CREATE, about("pods", "p", owners=("r1",)), "deployments shop/web"),
    ("inside a denied namespace", Place(6, 0), Operation.CREATE, about("pods", "p", namespace="lab"), "namespaces lab"),
    ("inside an admitted namespace", Place(6, 0), Operation.CREATE, about("pods", "p"), ""),
    (
        "a subresource of a denied object",
        Place(6, 0),
        Operation.CREATE,
        about("deployments", "web", sub="scale"),
        "deployments shop/web",
    ),
]


@pytest.mark.parametrize(("place", "operation", "subject", "expected"), [r[1:] for r in ROWS], ids=[r[0] for r in ROWS])
def test_follows(place: Place, operation: Operation, subject: Subject, expected: str) -> None:
    assert Cascade.of(CREATIONS).follows(place, operation, subject) == expected
    assert Cascade.of(reversed(CREATIONS)).follows(place, operation, subject) == expected


def test_relevant_keeps_denied_owned_and_renamed() -> None:
    admitted_alone = Creation(Place(7, 0), about("configmaps", "c", uid="c1"), denied=False)
    denied = {creation.subject.identity for creation in CREATIONS if creation.denied}
    assert relevant([*CREATIONS[2:], admitted_alone], denied) == CREATIONS[2:]


@pytest.mark.parametrize("seed", range(20))
def test_what_no_denial_reaches_need_not_be_looked_at(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)

    def some(place: int) -> Creation:
        number = chance.randrange(12)
        resource = chance.choice(("namespaces", "pods", "jobs"))
        namespace = "" if resource == "namespaces" else f"o{chance.randrange(6)}"
        owners = (f"u{chance.randrange(12)}",) if chance.random() < 0.4 else ()
        about = Subject(
            "", resource, "", namespace, f"o{number}", f"u{number}" if chance.random() < 0.8 else "", owners
        )
        return Creation(Place(place, 0), about, chance.random() < 0.1)

    creations = [some(place) for place in range(60)]
    few = Cascade.of(creations)
    monkeypatch.setattr("replay.compare.cascade._touched", list)
    whole = Cascade.of(creations)
    for creation in creations:
        for operation in (Operation.CREATE, Operation.UPDATE):
            asked = creation.place, operation, creation.subject
            assert few.follows(*asked) == whole.follows(*asked)

"""Which policies of a workspace may have been in force, second by second."""

from __future__ import annotations

from typing import Any

import pytest

from replay.kcp.shard.layout import SHARD_VERSION
from replay.kcp.shard.timeline import NOTHING_PLANNED, Planned, PolicyTimeline, named
from replay.kube.attributes import Missing
from replay.reconstruct.cluster import Cluster
from replay.reconstruct.history.derived import instant

BEGAN = "2026-01-01T00:00:00Z"
AT = instant(BEGAN)
SECOND = 1_000_000


def policy(name: str, expression: str = "true", created: str = "") -> Any:
    metadata = {"name": name, **({"creationTimestamp": created} if created else {})}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": metadata,
        "spec": {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": expression}]},
    }


OLD, NEW = policy("old"), policy("new", created=BEGAN)
TIMES: list[tuple[str, list[Any], Planned, int, list[tuple[set[str], set[str]]]]] = [
    ("before it was written", [OLD, NEW], NOTHING_PLANNED, -2, [({"old"}, {"old"})]),
    ("just written", [OLD, NEW], NOTHING_PLANNED, 2, [({"old"}, {"old"}), ({"old", "new"}, {"old", "new"})]),
    ("some seconds later", [OLD, NEW], NOTHING_PLANNED, 8, [({"old", "new"}, {"old", "new"})]),
    (
        "changed by the candidate",
        [OLD, NEW],
        Planned.from_objects(named([OLD, NEW]), named([OLD, policy("new", "false")])),
        -2,
        [({"old"}, {"old"})],
    ),
    (
        "added by the candidate",
        [OLD],
        Planned.from_objects(named([OLD]), named([OLD, NEW])),
        -2,
        [({"old"}, {"old", "new"})],
    ),
    (
        "removed by the candidate",
        [OLD, NEW],
        Planned.from_objects(named([OLD, NEW]), named([NEW])),
        8,
        [({"old", "new"}, {"new"})],
    ),
]


@pytest.mark.parametrize(
    ("given", "planned", "seconds", "expected"), [row[1:] for row in TIMES], ids=[row[0] for row in TIMES]
)
def test_which_policies_were_in_force(
    given: list[Any], planned: Planned, seconds: int, expected: list[tuple[set[str], set[str]]]
) -> None:
    at = AT + seconds * SECOND
    found = PolicyTimeline(Cluster(), named(given), planned, SHARD_VERSION).at(at, at)
    assert not isinstance(found, Missing)
    names = [tuple({each.name for each in side.policies} for side in sides) for sides in found]
    assert names == expected

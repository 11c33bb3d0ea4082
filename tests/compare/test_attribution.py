from __future__ import annotations

from typing import NamedTuple

import pytest

from replay.compare.attribution import (
    Actor,
    AttributedPaths,
    Attributions,
    ChangedBy,
    ChangedRequest,
    attributed,
)
from replay.json import JSON
from replay.kube.json_patch import tokens


class Case(NamedTuple):
    name: str
    operations: list[JSON]
    claims: list[AttributedPaths]
    expected: dict[tuple[Actor, str], list[str]]


def claim(actor: Actor, name: str, *paths: str) -> AttributedPaths:
    return AttributedPaths(actor, name, frozenset(map(tokens, paths)))


def add(path: str, value: JSON) -> JSON:
    return {"op": "add", "path": path, "value": value}


HOOK, POLICY = (Actor.WEBHOOK, "w"), (Actor.POLICY, "p")
CASES = [
    Case("nobody", [add("/data/b", "2")], [], {(Actor.UNKNOWN, ""): ["/data/b"]}),
    Case("the very path", [add("/data/b", "2")], [claim(*HOOK, "/data/b")], {HOOK: ["/data/b"]}),
    Case("below a claim", [add("/data/b", "2")], [claim(*POLICY, "/data")], {POLICY: ["/data/b"]}),
    Case(
        "an added map is shared out",
        [add("/metadata/labels", {"x": "1", "y": "2", "z": "3"})],
        [claim(*POLICY, "/metadata/labels/x"), claim(*HOOK, "/metadata/labels/y")],
        {POLICY: ["/metadata/labels/x"], HOOK: ["/metadata/labels/y"], (Actor.UNKNOWN, ""): ["/metadata/labels/z"]},
    ),
    Case(
        "an item of a list is one change",
        [add("/spec/containers/1", {"name": "agent", "image": "i"})],
        [claim(*HOOK, "/spec/containers/1/image")],
        {HOOK: ["/spec/containers/1"]},
    ),
    Case(
        "an annotation counts more than what a policy would do",
        [add("/data/b", "2")],
        [claim(*POLICY, "/data/b"), claim(*HOOK, "/data/b")],
        {HOOK: ["/data/b"]},
    ),
    Case("escaped keys", [add("/data/a~1b", {"~": 1})], [claim(*HOOK, "/data/a~1b/~0")], {HOOK: ["/data/a~1b/~0"]}),
    Case("an empty map", [add("/data", {})], [claim(*HOOK, "/data")], {HOOK: ["/data"]}),
]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_attributed(case: Case) -> None:
    found = attributed(case.operations, case.claims)
    assert {key: [each["path"] for each in patch] for key, patch in found.items()} == case.expected


def test_parts_may_be_added_in_any_order() -> None:
    key = ChangedBy(Actor.WEBHOOK, "w", "pods", ("add /a",))
    requests = [ChangedRequest(seq, f"id-{seq}", "CREATE", "ns", "n", "u", ()) for seq in (3, 1, 2)]
    totals = []
    for order in (requests, requests[::-1]):
        total = Attributions()
        for request in order:
            part = Attributions(compared=1, changed=1)
            part.count(key, request)
            total.add(part)
        totals.append((total.compared, total.groups[key].count, total.groups[key].example.audit_id))
    assert totals == [(3, 3, "id-1")] * 2

"""Hundreds of edits of policies: what keeps its meaning is recognised or left open, and no claim is refuted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest

from replay.prove.claim import Comparison
from replay.prove.prover import Prover, Settings
from replay.prove.symbolic.solver import is_available
from replay.prove.unit import BoundPolicy, Pair
from tests.prove.attack import Claimed, attacked
from tests.prove.edit import Edit, edits_of
from tests.prove.policies import CONFIG_MAPS, PODS, WIDGETS, unit

pytestmark = [
    pytest.mark.slow,
    pytest.mark.nightly,
    pytest.mark.skipif(not is_available(), reason="z3 is not installed"),
]

POLICIES = {
    "images": unit(
        "variables.bad.size() == 0",
        rules=[PODS],
        variables={
            "all": "object.spec.containers + (has(object.spec.initContainers) ? object.spec.initContainers : [])",
            "bad": "variables.all.map(c, c.image).filter(i, !i.matches('^(a\\\\.example\\\\.com|b\\\\.example\\\\.com)/'))",
        },
        conditions=["!request.userInfo.username.startsWith('system:node:')"],
    ),
    "labels": unit(
        "has(object.metadata.labels) && 'team' in object.metadata.labels",
        "!has(object.metadata.labels) || object.metadata.labels.all(k, k != 'bad' && object.metadata.labels[k].size() < 20)",
    ),
    "replicas": unit(
        "!has(object.spec.replicas) || object.spec.replicas <= (request.namespace.startsWith('prod-') ? 20 : 5)"
    ),
    "operations": unit(
        "request.operation == 'DELETE' || (has(object.data) && 'mode' in object.data && object.data['mode'] != 'off')",
        "request.operation != 'DELETE' || 'sre' in request.userInfo.groups",
        rules=[CONFIG_MAPS],
    ),
    "custom": unit(
        "object.spec.size <= 10",
        "object.spec.parts.exists(p, p.count > 0 && p.name.endsWith('-main'))",
        rules=[WIDGETS],
        failure_policy="Ignore",
    ),
}
MOST = 20
OBJECTS = 5_000


def _edits(name: str, original: BoundPolicy) -> Iterator[Edit]:
    found = [each for each in edits_of(original) if each.unit != original]
    Random(name).shuffle(found)
    yield from found[:MOST]


@pytest.mark.parametrize("name", POLICIES)
def test_no_claim_about_an_edit_is_refuted(name: str) -> None:
    original = POLICIES[name]
    prover = Prover(Settings(tries=200, attacks=200))
    claims: list[Claimed] = []
    wrong: list[tuple[str, Comparison, str]] = []
    for index, edit in enumerate(_edits(name, original)):
        result = prover.prove(Pair(name, original, edit.unit)).result
        claims.append(Claimed(f"{index} {edit.name}", edit.unit, result))
        if edit.keeps and result not in {Comparison.SAME, Comparison.UNKNOWN}:
            wrong.append((edit.name, result, "keeps its meaning"))
    _, refuted = attacked(prover, original, claims, OBJECTS, "refute")
    wrong += [(each.claim.name, each.claim.result, "refuted") for each in refuted]
    prover.close()
    assert wrong == []
    assert Counter(each.result for each in claims)[Comparison.UNKNOWN] <= MOST // 10

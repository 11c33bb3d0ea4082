"""What the query of revisions leaves out bounds nothing: the clock made of the rest answers alike."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from replay.audit.store import Store
from replay.reconstruct.history.clock import BEFORE, RevisionClock
from replay.reconstruct.reconstructor import widened_samples
from tests.support.log_evidence import clock_samples

Write = tuple[str, int, int, int]
"""Verb, revision of the answer, reception and answer in milliseconds."""
FEW: list[Write] = [("create", 5, 10, 20), ("patch", 7, 15, 30), ("update", 6, 40, 50)]


def some(seed: int) -> list[Write]:
    """Writes whose revisions follow time, but for those that change nothing and answer with an old one."""
    chance = random.Random(seed)
    writes = []
    for number in range(120):
        revision = chance.choice((number, number, number, chance.randrange(max(number, 1)))) + 1
        begin = number * 10 - chance.randrange(30)
        writes.append((chance.choice(("create", "update", "patch")), revision, begin, begin + chance.randrange(1, 60)))
    return writes


def event(number: int, write: Write) -> str:
    verb, revision, begin, end = write
    replaced = {"resourceVersion": str(revision - 1)} if verb == "update" and number % 3 else {}
    body = (
        {} if number % 7 == 0 else {"responseObject": {"kind": "Pod", "metadata": {"resourceVersion": str(revision)}}}
    )
    times = {
        name: f"2026-01-01T00:01:{at // 1000:02}.{at % 1000:03}000Z"
        for name, at in (("requestReceivedTimestamp", begin + 1000), ("stageTimestamp", end + 1000))
    }
    return json.dumps(
        {
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": "RequestResponse",
            "auditID": f"id-{number}",
            "stage": "ResponseComplete",
            "verb": verb,
            "requestURI": "/",
            "objectRef": {"resource": "pods", "namespace": "n", "name": f"p{number}", "apiVersion": "v1", **replaced},
            "responseStatus": {"code": 200},
            **body,
            **times,
        }
    )


@pytest.mark.parametrize("error", [0, 20_000, 500_000])
@pytest.mark.parametrize("writes", [FEW, some(1), some(2), some(3)], ids=["few", "one", "two", "three"])
def test_the_clock_of_some_revisions(tmp_path: Path, writes: list[Write], error: int) -> None:
    (tmp_path / "log").write_text("\n".join(event(number, write) for number, write in enumerate(writes)))
    with Store.open() as store:
        store.ingest([tmp_path / "log"])
        records = sorted(store.part(0).records(), key=lambda record: record.received)
        whole = RevisionClock(widened_samples(clock_samples(records), error))
        for wanted in ([*range(-1, 130)], [7, 50, 51, 100], [40], []):
            rows = store.answer("revisions", wanted=wanted, error=error)
            samples = [(revision, BEFORE if start is None else start, end) for revision, start, end in rows]
            clock = RevisionClock(widened_samples(samples, error))
            assert [clock.bounds(revision) for revision in wanted] == [whole.bounds(revision) for revision in wanted]

"""Gaps of a log, from the versions that updates name; and the clock of revisions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from replay.audit.event import RequestRecord
from replay.kube.gvk import GroupResource
from replay.reconstruct.history.clock import BEFORE, NEVER, RevisionClock
from replay.reconstruct.trust import Continuity
from tests.support.log_evidence import clock_samples, continuity

PODS = GroupResource("", "pods")
Record = Callable[..., RequestRecord]


def state(revision: int) -> dict[str, object]:
    return {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "web", "resourceVersion": str(revision)}}


def update(record: Record, start: float, named: int, stored: int) -> RequestRecord:
    return record("update", start, ref={"resourceVersion": str(named)}, response=state(stored))


@pytest.mark.parametrize(
    ("named", "links", "breaks"),
    [([(5, 6), (6, 7)], 2, 0), ([(5, 6), (8, 9)], 1, 1)],
    ids=["each version is in the log", "a write is missing"],
)
def test_links(named: list[tuple[int, int]], links: int, breaks: int, pod_record: Record) -> None:
    updates = [update(pod_record, number + 1, *pair) for number, pair in enumerate(named)]
    evidence = continuity([[pod_record("create", 0, code=201, response=state(5)), *updates]])
    assert (evidence.links[PODS], evidence.breaks[PODS]) == (links, breaks)
    assert evidence.trust().holds(PODS) is (breaks == 0)


def test_what_precedes_the_log_or_has_no_response_breaks_nothing(pod_record: Record) -> None:
    binding = pod_record("create", 3, code=201, ref={"subresource": "binding"}, response={"kind": "Status"})
    evidence = continuity([[update(pod_record, 1, 4, 5), binding, update(pod_record, 5, 7, 8)]])
    assert evidence.breaks.total() == 0


def test_one_resource_loses_trust_before_all_do() -> None:
    leases = GroupResource("coordination.k8s.io", "leases")
    links = Counter({PODS: 5000})
    few, many = Continuity(links, Counter({leases: 1})), Continuity(links, Counter({leases: 11}))
    assert (few.trust().holds(PODS), few.trust().holds(leases)) == (True, False)
    assert many.trust().holds(PODS) is False


def test_when_a_revision_was_stored(pod_record: Record) -> None:
    clock = RevisionClock(clock_samples([update(pod_record, 10, 1, 5), update(pod_record, 20, 5, 9)]))
    at = 1_767_225_600_000_000
    assert clock.bounds(0) == (BEFORE, at + 10_000_000)
    assert clock.bounds(7) == (at + 10_000_000, at + 20_100_000)
    assert clock.bounds(10) == (at + 20_000_000, NEVER)


def test_a_write_that_changed_nothing_is_no_sample() -> None:
    clock = RevisionClock([(5, 0, 10), (9, 20, 30), (5, 100, 110)])
    assert clock.bounds(7) == (0, 30)

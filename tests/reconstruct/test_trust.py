"""Gaps of a log, from the versions that updates name; and the clock of revisions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from replay.audit.event import RequestRecord
from replay.kube.gvk import GroupResource, ObjectRef
from replay.reconstruct.history.clock import BEFORE, NEVER, RevisionClock
from replay.reconstruct.history.collection_deletion import CollectionDeletions
from replay.reconstruct.trust import Break, Continuity
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
    assert evidence.trust().is_trusted(PODS) is (breaks == 0)


def test_an_update_that_creates_replaces_nothing(pod_record: Record) -> None:
    created = pod_record("update", 2, code=201, ref={"resourceVersion": "99"}, response=state(7))
    evidence = continuity([[pod_record("create", 0, code=201, response=state(5)), created]])
    assert (evidence.links[PODS], evidence.breaks[PODS]) == (0, 0)


HELD, FREE = ["web", "u", "kept"], ["web", "u", ""]


@pytest.mark.parametrize(
    ("resource", "items", "when", "is_whole"),
    [
        ("configmaps", [HELD], (4, 5), True),
        ("configmaps", None, (4, 5), True),
        ("configmaps", [FREE], (4, 5), False),
        ("pods", [FREE], (4, 5), True),
        ("configmaps", [["other", "v", "kept"]], (4, 5), False),
        ("configmaps", [HELD], (1, 2), False),
        ("configmaps", [HELD], (9, 10), False),
    ],
    ids=[
        "a finalizer holds it",
        "which objects is not told",
        "it was removed",
        "a grace period holds it",
        "another object",
        "before the last write",
        "after the update",
    ],
)
def test_what_a_deletion_of_a_collection_wrote(
    resource: str, items: list[list[str]] | None, when: tuple[int, int], is_whole: bool
) -> None:
    """Its answer lists what it found, and no version that it stored."""
    of = GroupResource("", resource)
    evidence = Continuity(Counter({of: 5000}), Counter({of: 1}))
    deletions = CollectionDeletions([["", resource, "shop", *when, "/", items, ""]])
    evidence.explain([Break(ObjectRef("", resource, "shop", "web"), 3, 6)], deletions)
    assert evidence.trust().is_trusted(of) is is_whole


def test_what_precedes_the_log_or_has_no_response_breaks_nothing(pod_record: Record) -> None:
    binding = pod_record("create", 3, code=201, ref={"subresource": "binding"}, response={"kind": "Status"})
    evidence = continuity([[update(pod_record, 1, 4, 5), binding, update(pod_record, 5, 7, 8)]])
    assert evidence.breaks.total() == 0


def test_one_resource_loses_trust_before_all_do() -> None:
    leases = GroupResource("coordination.k8s.io", "leases")
    links = Counter({PODS: 5000})
    few, many = Continuity(links, Counter({leases: 1})), Continuity(links, Counter({leases: 11}))
    assert (few.trust().is_trusted(PODS), few.trust().is_trusted(leases)) == (True, False)
    assert many.trust().is_trusted(PODS) is False


def test_when_a_revision_was_stored(pod_record: Record) -> None:
    clock = RevisionClock(clock_samples([update(pod_record, 10, 1, 5), update(pod_record, 20, 5, 9)]))
    at = 1_767_225_600_000_000
    assert clock.bounds(0) == (BEFORE, at + 10_000_000)
    assert clock.bounds(7) == (at + 10_000_000, at + 20_100_000)
    assert clock.bounds(10) == (at + 20_000_000, NEVER)


def test_a_write_that_changed_nothing_is_no_sample() -> None:
    clock = RevisionClock([(5, 0, 10), (9, 20, 30), (5, 100, 110)])
    assert clock.bounds(7) == (0, 30)

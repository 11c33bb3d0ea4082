"""The state that a request found, from the writes around it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from replay.audit.event import RequestRecord
from replay.kube.attributes import Basis, Missing, PartialObject
from replay.kube.discovery import builtin_discovery
from replay.reconstruct.history.clock import RevisionClock
from replay.reconstruct.history.derived import after_binding
from replay.reconstruct.history.effect import EffectKind, effect_of
from replay.reconstruct.history.history import History
from replay.reconstruct.history.old_object import OldObjects
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.record.known import Known, attribute

Record = Callable[..., RequestRecord]


def pod(revision: int, labels: dict[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    named = {"name": "web", "namespace": "shop", "uid": "u1", "resourceVersion": str(revision), **metadata}
    if labels is not None:
        named["labels"] = labels
    return {"kind": "Pod", "apiVersion": "v1", "metadata": named, "spec": {"nodeName": "n"}}


def old_of(records: list[RequestRecord], *, trusted: bool = True, snapshot: Any = None, clock: Any = None) -> Any:
    """The oldObject of the last record."""
    exchanges = [Exchange(record, builtin_discovery()) for record in records]
    history = History(exchanges, snapshot, clock, trusted=trusted)
    return attribute(OldObjects(history, trusted=trusted).old_object(exchanges[-1]), "oldObject")


def missing(found: Any) -> list[str]:
    return [found.path] if isinstance(found, Missing) else [of.path for of in found.missing]


def test_an_update_finds_the_version_that_it_names_whatever_the_clocks_say(pod_record: Record) -> None:
    """Two API servers whose clocks differ: the revision decides."""
    records = [
        pod_record("create", 0, code=201, response=pod(5)),
        pod_record("update", 9, response=pod(6, {"a": "1"}), request=pod(5)),
        pod_record("update", 1, response=pod(7, {"a": "2"}), request=pod(6)),
    ]
    assert old_of(records) == pod(6, {"a": "1"})
    assert old_of(records, trusted=False) == pod(6, {"a": "1"})


@pytest.mark.parametrize("verb", ["patch", "update"])
@pytest.mark.parametrize("trusted", [True, False])
def test_a_dry_run_finds_the_version_that_it_answers_with(verb: str, trusted: bool, pod_record: Record) -> None:
    """Its answer has the revision of a stored state, which is no sign that it changed nothing."""
    asked = {"metadata": {"labels": {"a": "2"}}}
    records = [
        pod_record("create", 0, code=201, response=pod(5, {"a": "1"})),
        pod_record(
            "patch", 2, uri="/api/v1/namespaces/shop/pods/web?dryRun=All", request=asked, response=pod(5, {"a": "2"})
        ),
    ]
    records[1] = records[1]._replace(verb=verb)
    assert old_of(records, trusted=trusted) == pod(5, {"a": "1"})


def test_a_version_that_is_not_in_the_log_is_not_guessed(pod_record: Record) -> None:
    records = [
        pod_record("create", 0, code=201, response=pod(5)),
        pod_record("update", 2, response=pod(9), request=pod(8)),
    ]
    assert missing(old_of(records)) == ["oldObject"]


def test_a_patch_finds_the_last_state_if_the_response_agrees_with_it(pod_record: Record) -> None:
    patch = pod_record("patch", 2, request={"metadata": {"labels": {"a": "2"}}}, response=pod(6, {"a": "2", "b": "1"}))
    assert old_of([pod_record("create", 0, code=201, response=pod(5, {"b": "1"})), patch]) == pod(5, {"b": "1"})


@pytest.mark.parametrize("before", [pod(5, {"b": "0"}), None], ids=["a write is missing", "the log begins later"])
def test_what_a_patch_does_not_touch_is_shown_by_its_response(before: Any, pod_record: Record) -> None:
    patch = pod_record("patch", 2, request={"metadata": {"labels": {"a": "2"}}}, response=pod(6, {"a": "2", "b": "1"}))
    records = [patch] if before is None else [pod_record("create", 0, code=201, response=before), patch]
    found = old_of(records)
    assert isinstance(found, PartialObject)
    assert found.value["metadata"]["labels"]["b"] == "1"
    assert missing(found)[-1] == "oldObject.metadata.labels.a"


def test_a_map_that_a_patch_may_have_made_is_not_known_to_exist(pod_record: Record) -> None:
    patch = pod_record("patch", 2, request={"metadata": {"labels": {"a": "2"}}}, response=pod(6, {"a": "2"}))
    assert "oldObject.metadata.labels" in missing(old_of([patch]))


def test_a_graceful_deletion_shows_what_it_found(pod_record: Record) -> None:
    deleting: dict[str, Any] = {
        "deletionTimestamp": "2026-01-01T00:00:32Z",
        "deletionGracePeriodSeconds": 30,
        "generation": 2,
    }
    found = old_of([pod_record("delete", 2, response=pod(6, **deleting))])
    assert isinstance(found, PartialObject)
    assert missing(found) == ["oldObject.metadata.resourceVersion"]
    assert {**found.value["metadata"], "resourceVersion": ""} == pod(0, resourceVersion="", generation=1)["metadata"]


def test_a_removal_shows_the_object_as_it_was_removed(pod_record: Record) -> None:
    removed: dict[str, Any] = {"deletionTimestamp": "2026-01-01T00:00:02Z", "deletionGracePeriodSeconds": 0}
    found = old_of(
        [pod_record("create", 0, code=201, response=pod(5)), pod_record("delete", 2, response=pod(7, **removed))]
    )
    assert found.value["metadata"]["deletionGracePeriodSeconds"] == 0
    assert missing(found) == ["oldObject.metadata.resourceVersion"]


def test_a_recreated_object_has_nothing_of_the_one_before(pod_record: Record) -> None:
    records = [
        pod_record("create", 0, code=201, response=pod(5, {"first": "life"})),
        pod_record("delete", 1, response={"kind": "Status", "apiVersion": "v1", "details": {"uid": "u1"}}),
        pod_record("create", 2, code=201, response=pod(8, uid="u2")),
        pod_record("update", 3, request=pod(0, resourceVersion=""), response=pod(9, uid="u2")),
    ]
    assert old_of(records) == pod(8, uid="u2")


@pytest.mark.parametrize(
    ("start", "paths"), [(5.0, []), (2.05, ["oldObject.metadata.labels", "oldObject.metadata.resourceVersion"])]
)
def test_where_writes_overlap_the_differing_fields_are_unknown(
    start: float, paths: list[str], pod_record: Record
) -> None:
    records = [
        pod_record("create", 0, code=201, response=pod(5)),
        pod_record("update", 2, request=pod(5), response=pod(6, {"a": "1"})),
        pod_record("update", start, code=422, message="denied", request=pod(0, resourceVersion="")),
    ]
    found = old_of(records)
    assert found == pod(6, {"a": "1"}) if not paths else sorted(missing(found)) == paths


def test_a_dry_run_and_a_refusal_leave_no_trace(pod_record: Record) -> None:
    records = [
        pod_record("create", 0, code=201, response=pod(5)),
        pod_record("update", 1, uri="/api/v1/pods/web?dryRun=All", request=pod(5), response=pod(5, {"dry": "run"})),
        pod_record("update", 2, code=403, request=pod(5), response={"kind": "Status"}),
        pod_record("update", 3, request=pod(0, resourceVersion=""), response=pod(9)),
    ]
    assert old_of(records) == pod(5)


def test_a_write_whose_end_is_open_makes_the_state_unknown(pod_record: Record) -> None:
    records = [
        pod_record("create", 0, code=201, response=pod(5)),
        pod_record("update", 1, code=504, request=pod(5), response={"kind": "Status"}),
        pod_record("update", 2, request=pod(0, resourceVersion=""), response=pod(9)),
    ]
    assert missing(old_of(records)) == ["oldObject"]


def test_a_failure_that_comes_before_the_storage_leaves_no_trace(pod_record: Record) -> None:
    failed = pod_record("update", 1, code=500, request=pod(5), response={"kind": "Status"})
    records = [
        pod_record("create", 0, code=201, response=pod(5)),
        failed._replace(status_message='unsupported role reference kind: ""'),
        pod_record("update", 2, request=pod(0, resourceVersion=""), response=pod(9)),
    ]
    assert old_of(records) == pod(5)


def test_a_binding_sets_node_and_condition(pod_record: Record) -> None:
    created = pod(5)
    created["spec"] = {}
    bound = {**pod(7), "status": {"conditions": [], "phase": "Running"}}
    records = [
        pod_record("create", 0, code=201, response=created),
        pod_record(
            "create", 1, ref={"subresource": "binding"}, request={"target": {"name": "n"}}, response={"kind": "Status"}
        ),
        pod_record(
            "patch",
            2,
            ref={"subresource": "status"},
            request={"status": {"phase": "Running", "conditions": []}},
            response=bound,
        ),
    ]
    found = old_of(records)
    assert found.value["spec"] == {"nodeName": "n"}
    assert found.value["status"]["conditions"][0]["lastTransitionTime"] == "2026-01-01T00:00:01Z"


@pytest.mark.parametrize(
    ("following", "status"),
    [
        ({"status": {"nominatedNodeName": "n"}}, {"nominatedNodeName": "n"}),
        ({"status": {}}, {}),
        (None, Missing),
    ],
    ids=["a server before 1.35 keeps it", "a later one clears it", "no later state tells"],
)
def test_the_nominated_node_after_a_binding(following: Any, status: Any, pod_record: Record) -> None:
    nominated = Known({**pod(5), "spec": {}, "status": {"nominatedNodeName": "n"}}, Basis.RECORDED)
    record = pod_record("create", 1, ref={"subresource": "binding"}, request={"target": {"name": "n"}}, response={})
    after = after_binding(nominated, Exchange(record, builtin_discovery()), following)
    assert isinstance(after, Known)
    if status is Missing:
        assert ("status", "nominatedNodeName") in [hole.path for hole in after.holes]
    else:
        assert {key: value for key, value in after.value["status"].items() if key != "conditions"} == status


@pytest.mark.parametrize(
    ("revision", "known"),
    [(3, True), (50, False)],
    ids=["the snapshot's version is older than the log", "it was stored after the request"],
)
def test_a_snapshot_takes_its_place_by_revision(revision: int, known: bool, pod_record: Record) -> None:
    clock = RevisionClock([(5, 0, 1), (90, 2_000_000_000_000_000, 2_000_000_000_000_001)])
    refused = pod_record("delete", 2, code=403, message="denied", response={"kind": "Status"})
    found = old_of([refused], snapshot=pod(revision), clock=clock)
    assert (found == pod(revision)) is known


def test_what_was_not_found_was_absent_before_all_writes(pod_record: Record) -> None:
    """A request that found nothing tells of all the time until the next write."""
    missed = pod_record("patch", 5, code=404, message='pods "web" not found', request={})
    refused = pod_record("patch", 1, code=422, request={})
    records = [refused, missed, pod_record("create", 9, code=201, response=pod(5))]
    history = History([Exchange(record, builtin_discovery()) for record in records])
    assert history.at(refused.received, refused.stage_time) == Known(None, Basis.RECORDED)
    may_decide_differently = [refused, missed._replace(status_message='nodes "n" not found')]
    history = History([Exchange(record, builtin_discovery()) for record in may_decide_differently])
    assert history.at(refused.received, refused.stage_time) is None


def test_a_deletion_without_a_body_that_answered_with_a_status_left_nothing(pod_record: Record) -> None:
    """At level Metadata the event has the `Status` of an answer, and of an object its code alone."""
    for status, expected in (("Success", EffectKind.GONE), ("", EffectKind.UNKNOWN)):
        deleted = pod_record("delete", 1)._replace(status=status, response_object=None, level="Metadata")
        effect = effect_of(Exchange(deleted, builtin_discovery()))
        assert effect is not None
        assert effect.kind is expected

from __future__ import annotations

from typing import Any

import orjson
import pytest

from replay.audit.event import RequestRecord
from replay.audit.lookups import ObjectKey
from replay.json import JSON
from replay.kube.attributes import UserInfo
from replay.kube.discovery import builtin_discovery
from replay.reconstruct.history.clock import RevisionClock
from replay.reconstruct.removed_collection import WithRemoved, removed_objects

GROUP = "rbac.authorization.k8s.io"
SECOND = 1_000_000
AT = 1_767_225_600 * SECOND  # 2026-01-01


def role(name: str, namespace: str = "a", **metadata: Any) -> JSON:
    made = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": "5", **metadata}
    return {"apiVersion": f"{GROUP}/v1", "kind": "Role", "metadata": made}


def key(name: str, namespace: str = "a") -> ObjectKey:
    return ObjectKey(GROUP, "roles", namespace, name)


def collection(items: list[JSON] | None, query: str = "", seq: int = 1) -> RequestRecord:
    answer = {"apiVersion": f"{GROUP}/v1", "kind": "RoleList", "items": items}
    return RequestRecord(
        seq=seq,
        audit_id="id",
        level="RequestResponse" if items is not None else "Metadata",
        stage="ResponseComplete",
        verb="deletecollection",
        request_uri=f"/apis/{GROUP}/v1/namespaces/a/roles{query}",
        user_agent="",
        user=UserInfo("ann"),
        caller="ann",
        api_group=GROUP,
        api_version="v1",
        resource="roles",
        subresource="",
        namespace="a",
        name="",
        object_uid="",
        object_resource_version="",
        code=200,
        status="",
        status_reason="",
        status_message="",
        received=AT,
        stage_time=AT + 10,
        annotations=None,
        request_object=None,
        response_object=orjson.dumps(answer).decode() if items is not None else None,
        file="log",
        line=1,
    )


EARLY, LATE = "2025-12-31T23:00:00Z", "2026-01-01T01:00:00Z"
Samples = tuple[tuple[int, int, int], ...]


def around(second: int) -> Samples:
    """Samples of the clock that tell when revision 5 was stored."""
    at = AT + second * SECOND
    return (4, at, at + SECOND), (6, at + 2 * SECOND, at + 3 * SECOND)


BEFORE_IT, AFTER_IT = around(-60), around(60)
KNOWN = {key("x"): role("x", creationTimestamp=EARLY), key("y", "b"): role("y", "b", creationTimestamp=EARLY)}
UNSEEN = key("deleted/unseen")


@pytest.mark.parametrize(
    ("record", "samples", "removed", "seen"),
    [
        pytest.param(collection([role("x")]), BEFORE_IT, {key("x"): True}, [], id="what the response lists"),
        pytest.param(collection([role("z")]), BEFORE_IT, {key("z"): True}, ["z"], id="what nothing else shows"),
        pytest.param(
            collection([role("x", finalizers=["f"])]), BEFORE_IT, {key("x"): False}, [], id="what a finalizer keeps"
        ),
        pytest.param(collection([]), BEFORE_IT, {}, [], id="an empty collection"),
        pytest.param(collection([role("x")], "?dryRun=All"), BEFORE_IT, {}, [], id="nothing was to happen"),
        pytest.param(collection(None), BEFORE_IT, {key("x"): False}, [], id="no list: all that there was"),
        pytest.param(
            collection(None), AFTER_IT, {UNSEEN: True}, [], id="no list: what a later snapshot holds was left alone"
        ),
        pytest.param(
            collection(None, "?fieldSelector=metadata.name%3Dw"),
            AFTER_IT,
            {key("w"): True},
            [],
            id="no list: one name",
        ),
    ],
)
def test_what_a_collection_removes(
    record: RequestRecord, samples: Samples, removed: dict[ObjectKey, bool], seen: list[str]
) -> None:
    found = removed_objects([record], {}, KNOWN, RevisionClock(samples), builtin_discovery())
    assert {key: bool(records[0].response_object) for key, records in found.writes.items()} == removed
    assert all(records[0].verb == "delete" for records in found.writes.values())
    assert [obj["metadata"]["name"] for obj in found.seen] == seen


def test_what_was_made_later_may_have_been_there_before() -> None:
    known = {key("x"): role("x", creationTimestamp=LATE)}
    found = removed_objects([collection(None)], {}, known, RevisionClock(AFTER_IT), builtin_discovery())
    assert found.writes.keys() == {key("x"), UNSEEN}


def test_deletions_stand_among_the_writes() -> None:
    first, second, third = (collection([], seq=seq) for seq in (1, 2, 3))
    merged = WithRemoved({key("x"): [first, third]}, {key("x"): [second], key("z"): [second]})
    assert dict(merged) == {key("x"): [first, second, third], key("z"): [second]}
    assert len(merged) == 2

from __future__ import annotations

from typing import Any

import orjson
import pytest

from replay.audit.event import RequestRecord
from replay.json import JSON
from replay.kube.attributes import UserInfo
from replay.kube.discovery import builtin_discovery
from replay.kube.gvk import ObjectRef
from replay.reconstruct.collection import WithUnseenDeletions, listed_objects, unseen_deletions

GROUP = "rbac.authorization.k8s.io"
SECOND = 1_000_000
AT = 1_767_225_600 * SECOND  # 2026-01-01


def role(name: str, namespace: str = "a", **metadata: Any) -> JSON:
    made = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": "5", **metadata}
    return {"apiVersion": f"{GROUP}/v1", "kind": "Role", "metadata": made}


def key(name: str, namespace: str = "a") -> ObjectRef:
    return ObjectRef(GROUP, "roles", namespace, name)


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


KNOWN = {key("x"), key("y", "b")}
UNSEEN = key("deleted/unseen")


@pytest.mark.parametrize(
    ("record", "seen", "unseen"),
    [
        pytest.param(collection([role("x")]), [], set(), id="what is known otherwise"),
        pytest.param(collection([role("x"), role("z")]), ["z"], set(), id="what nothing else shows"),
        pytest.param(collection([]), [], set(), id="an empty collection"),
        pytest.param(collection([role("z")], "?dryRun=All"), [], set(), id="nothing was to happen"),
        pytest.param(collection(None), [], {UNSEEN}, id="no list: anything"),
        pytest.param(collection(None, "?fieldSelector=metadata.name%3Dw"), [], {key("w")}, id="no list: one name"),
        pytest.param(collection(None, "?fieldSelector=metadata.name%3Dx"), [], set(), id="no list: one that is known"),
        pytest.param(collection(None, "?fieldSelector=a"), [], {UNSEEN}, id="no list: a selector that is none"),
    ],
)
def test_what_only_a_deleted_collection_shows(record: RequestRecord, seen: list[str], unseen: set[ObjectRef]) -> None:
    found = listed_objects([record], KNOWN, builtin_discovery())
    assert [obj["metadata"]["name"] for obj in found] == seen
    deletions = unseen_deletions([record], KNOWN, builtin_discovery())
    assert deletions.keys() == unseen
    assert all(one.verb == "delete" and one.name == place.name for place, (one,) in deletions.items())


def test_deletions_stand_beside_the_writes() -> None:
    first, second = (collection([], seq=seq) for seq in (1, 2))
    both = WithUnseenDeletions({key("x"): [first]}, {UNSEEN: [second]})
    assert dict(both) == {key("x"): [first], UNSEEN: [second]}
    assert len(both) == 2

"""Who sees `kcp.io/cluster` on which object, request by request."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from replay.audit.store import Store
from replay.kcp.annotation import CLUSTER, annotated, annotation
from replay.kcp.shard.cluster import ShardCluster
from replay.kube.attributes import PartialObject
from replay.matching.coarse import Predicate
from replay.reconstruct.reconstructor import Reconstructor

HOME = "2abc"
CLUSTER_ANNOTATIONS = {"kcp.io/cluster": HOME, "kcp.io/path": "root:a", "authorization.k8s.io/decision": "allow"}
MASTERS = {"username": "system:apiserver", "groups": ["system:masters"]}
KIND = {"apiVersion": "v1", "kind": "ConfigMap"}
REFUSED = "configmaps \"c\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: no"
BINDING = {
    "apiVersion": "apis.kcp.io/v1alpha2",
    "kind": "APIBinding",
    "metadata": {"name": "b", "creationTimestamp": "2025-01-01T00:00:00Z", "annotations": {CLUSTER: HOME}},
}
ABSENT, NULL = "absent", "null"


def configmap(says: str = "", **data: str) -> dict[str, Any]:
    annotations = {"annotations": {CLUSTER: says}} if says else {}
    return {**KIND, "metadata": {"name": "c", "namespace": "n", **annotations}, "data": data}


def stored(revision: int, **data: str) -> Any:
    found = annotated(configmap(**data), HOME)
    return {**found, "metadata": {**found["metadata"], "resourceVersion": str(revision), "uid": "u"}}


def event(at: int, verb: str, sent: Any, answer: Any, code: int, **fields: Any) -> dict[str, Any]:
    uri = "/api/v1/namespaces/n/configmaps/c" if verb != "create" else "/api/v1/namespaces/n/configmaps"
    refused = {"message": REFUSED, "reason": "Invalid"} if code == 422 else {}
    return {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "RequestResponse",
        "auditID": str(at),
        "stage": "ResponseComplete",
        "requestURI": uri,
        "verb": verb,
        "user": MASTERS,
        "objectRef": {"resource": "configmaps", "namespace": "n", "name": "c", "apiVersion": "v1"},
        "responseStatus": {"code": code, **refused},
        "requestObject": sent,
        "responseObject": answer,
        "requestReceivedTimestamp": f"2026-01-01T00:00:{at:02}.000000Z",
        "stageTimestamp": f"2026-01-01T00:00:{at:02}.001000Z",
        "annotations": CLUSTER_ANNOTATIONS,
        **fields,
    }


CREATED = event(1, "create", configmap(), stored(5), 201)
WORKSPACES: list[tuple[str, dict[str, str], list[tuple[str, str]]]] = [
    ("now", CLUSTER_ANNOTATIONS, [(HOME, "root:a")]),
    ("both names", {**CLUSTER_ANNOTATIONS, "tenancy.kcp.io/workspace": "2other"}, [(HOME, "root:a")]),
    ("an older release", {"tenancy.kcp.io/workspace": HOME}, [(HOME, "")]),
    ("a first release", {"tenancy.kcp.dev/workspace": "root:a"}, [("root:a", "")]),
    ("all clusters at once", {"tenancy.kcp.dev/workspace": "*"}, []),
    ("another server", {"authorization.k8s.io/reason": "binding tenancy.kcp.io"}, []),
]


@pytest.mark.parametrize(
    ("annotations", "expected"), [row[1:] for row in WORKSPACES], ids=[row[0] for row in WORKSPACES]
)
def test_the_annotation_that_names_the_workspace(
    annotations: dict[str, str], expected: list[tuple[str, str]], tmp_path: Path
) -> None:
    (tmp_path / "log").write_text(json.dumps({**CREATED, "annotations": annotations}))
    with Store.open(tmp_path / "store") as store:
        store.ingest([tmp_path / "log"])
        assert [tuple(row[:2]) for row in store.answer("workspaces")] == expected


PATCH = {"metadata": {"labels": {"a": "b"}}}
NAMED = {"metadata": {"annotations": {CLUSTER: "2lie"}}}
SEEN: list[tuple[str, dict[str, Any], tuple[str, str]]] = [
    ("created", CREATED, (ABSENT, NULL)),
    ("created with what is so", event(1, "create", configmap(HOME), stored(5), 201), (HOME, NULL)),
    ("created with what is not so", event(1, "create", configmap("2lie"), stored(5), 201), (ABSENT, NULL)),
    ("refused", event(1, "create", configmap(), None, 422), (ABSENT, NULL)),
    ("refused with what is so", event(1, "create", configmap(HOME), None, 422), (HOME, NULL)),
    ("updated", event(2, "update", configmap(), stored(6, a="b"), 200), (ABSENT, HOME)),
    ("updated as it was read", event(2, "update", configmap(HOME), stored(6, a="b"), 200), (HOME, HOME)),
    ("an update that was refused", event(2, "update", configmap(), None, 422), (ABSENT, HOME)),
    ("patched", event(2, "patch", PATCH, stored(6), 200), (HOME, HOME)),
    ("a patch that was refused", event(2, "patch", PATCH, None, 422), (HOME, HOME)),
    ("patched otherwise", event(2, "patch", NAMED, stored(6), 200), ("unknown", HOME)),
    ("deleted", event(2, "delete", None, {"kind": "Status", "status": "Success"}, 200), (NULL, HOME)),
]


def shown(value: Any) -> str:
    """What a policy reads of the annotation."""
    obj = value.value if isinstance(value, PartialObject) else value
    if isinstance(value, PartialObject) and any(CLUSTER in each.path for each in value.missing):
        return "unknown"
    return NULL if obj is None else annotation(obj, CLUSTER) or ABSENT


@pytest.mark.parametrize(("logged", "expected"), [row[1:] for row in SEEN], ids=[row[0] for row in SEEN])
def test_who_sees_the_annotation(tmp_path: Path, logged: dict[str, Any], expected: tuple[str, str]) -> None:
    events = [logged] if logged["verb"] == "create" else [CREATED, logged]
    (tmp_path / "log").write_text("\n".join(map(json.dumps, events)))
    with Store.open() as store:
        store.ingest([tmp_path / "log"])
        (records,) = store.whole().objects(Predicate("true", ()))
        requests = list(Reconstructor(ShardCluster([BINDING])).requests(records))
    attributes = requests[-1].attributes
    assert (shown(attributes.object), shown(attributes.old_object)) == expected

"""What is there, in the log and in the candidate's world: what answers tell of an object, and what holds one that is deleted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.world.test_consequences import (
    AGAIN,
    BAD,
    CREATE,
    DELETE,
    DENIED,
    DENIES,
    PATCH,
    REFUSED,
    SUCCEEDS,
    Request,
    Row,
    apply,
    replayed,
)

MISSED = 'configmaps "a" not found'
BEGUN: tuple[str, Any] = ("succeeds", "root")
NAMESPACE = Request("create", "n", code=201, resource="namespaces")
TEMPLATE = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
SPEC = {"selector": {"matchLabels": {"app": "x"}}, "template": TEMPLATE}
FORBIDDEN_PATCH = Request(
    "patch", code=403, message='configmaps "a" is forbidden: User "jane" cannot patch resource "x"'
)
INVALID_APPLY = replace(
    apply("me", {}, {}), code=422, message='ConfigMap "a" is invalid: metadata.labels: Invalid value'
)
REFUSED_APPLY = replace(apply("me", BAD, BAD), code=422, message=DENIED)
NOT_FOUND = Request("patch", code=404, message=MISSED, body={"data": {"k": "v"}})
HELD = Request(
    "create",
    labels=BAD,
    code=422,
    message=DENIED,
    held=("a",),
    body={
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "labels": BAD, "finalizers": ["example.com/hold"]},
    },
)
FREED = Request("patch", body={"metadata": {"finalizers": None}})
LOST = Request("create", code=404, message='namespaces "n" not found', namespace="n")
STATUS = Request(
    "update",
    "d",
    resource="deployments",
    subresource="status",
    held=("d",),
    ends=True,
    body={"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "resourceVersion": "777"}},
)


def deployment(name: str, held: tuple[str, ...] = ()) -> Request:
    """A creation, of a spec that is valid."""
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": SPEC}
    return Request("create", name, code=201, resource="deployments", held=held, body=body)


ROWS = [
    Row(
        "a version that a deletion of a collection stored is no gap of the log",
        [
            deployment("d", held=("d",)),
            deployment("o"),
            Request("deletecollection", resource="deployments", items=("d",), held=("d",)),
            STATUS,
            Request("patch", "o", code=422, message=DENIED, resource="deployments", body={"metadata": {"labels": BAD}}),
        ],
        [SUCCEEDS, SUCCEEDS, SUCCEEDS, SUCCEEDS, BEGUN],
        reverse=True,
    ),
    Row(
        "what a finalizer holds stays after its deletion, until the finalizer goes",
        [HELD, replace(DELETE, code=404, message=MISSED), CREATE, FREED, PATCH],
        [BEGUN, ("succeeds", 0), ("exists", 0), SUCCEEDS, ("absent", 0)],
        reverse=True,
    ),
    Row(
        "what a finalizer holds stays when its collection is deleted",
        [HELD, Request("deletecollection"), CREATE, FREED, PATCH],
        [BEGUN, ("exists", 0), SUCCEEDS, ("absent", 0)],
        reverse=True,
    ),
    Row(
        "what a finalizer holds in the log is not there where it was refused",
        [
            replace(HELD, code=201),
            Request("deletecollection", items=("a",), held=("a",)),
            replace(PATCH, held=("a",), ends=True),
            replace(AGAIN, message='object is being deleted: configmaps "a" already exists'),
            replace(FREED, ends=True),
            replace(PATCH, code=404, message=MISSED),
        ],
        [DENIES, SUCCEEDS, ("absent", 0), ("succeeds", 0), SUCCEEDS, ("succeeds", 0)],
    ),
    Row(
        "how long the garbage collector holds what is deleted in the foreground is open",
        [REFUSED, Request("delete", query="?propagationPolicy=Foreground", code=404, message=MISSED), CREATE],
        [BEGUN, ("succeeds", 0), ("unknown", 0)],
        reverse=True,
    ),
    Row(
        "it is done after a while",
        [
            REFUSED,
            Request("delete", query="?propagationPolicy=Foreground", code=404, message=MISSED),
            *[Request("create", "b", code=201, query="?dryRun=All")] * 2,
            CREATE,
        ],
        [BEGUN, ("succeeds", 0), *[SUCCEEDS] * 2, SUCCEEDS],
        reverse=True,
    ),
    Row(
        "a namespace ends for at least as long as its controller waits, and is gone after a while",
        [
            replace(REFUSED, name="n", resource="namespaces"),
            Request("delete", "n", code=404, message='namespaces "n" not found', resource="namespaces"),
            LOST,
            *[Request("create", "b", code=201, query="?dryRun=All")] * 4,
            LOST,
            *[Request("create", "b", code=201, query="?dryRun=All")] * 4,
            LOST,
        ],
        [BEGUN, ("succeeds", 0), ("forbidden", 0), *[SUCCEEDS] * 4, ("unknown", 0), *[SUCCEEDS] * 4, ("absent", None)],
        reverse=True,
    ),
    Row(
        "a request that was not authorized tells nothing of the object",
        [NAMESPACE, *(replace(each, namespace="n") for each in (FORBIDDEN_PATCH, REFUSED))],
        [SUCCEEDS, ("forbidden", None), BEGUN],
        reverse=True,
    ),
    Row(
        "an apply that was invalid tells nothing of the object, and what comes later does",
        [INVALID_APPLY, REFUSED, NOT_FOUND],
        [("invalid", None), ("unknown", "root"), ("succeeds", 1)],
        reverse=True,
    ),
    Row(
        "an update that a policy refused shows the object",
        [Request("update", labels=BAD, code=422, message=DENIED), REFUSED],
        [BEGUN, ("exists", 0)],
        reverse=True,
    ),
    Row(
        "what is applied first in a namespace of the log is not there",
        [NAMESPACE, *(replace(each, namespace="n") for each in (REFUSED_APPLY, NOT_FOUND))],
        [SUCCEEDS, BEGUN, ("succeeds", 1)],
        reverse=True,
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_presence(row: Row, tmp_path: Path) -> None:
    assert replayed(row, tmp_path)[1] == row.expected

"""What is there, in the log and in the candidate's world: what answers tell of an object, and what holds one that is deleted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.world.test_consequences import (
    ABSENT,
    BAD,
    DENIED,
    REFUSED,
    SUCCEEDS,
    Request,
    Row,
    apply,
    replayed,
)

BEGUN: tuple[str, Any] = ("succeeds", "root")
NAMESPACE = Request("create", "n", code=201, resource="namespaces")
DEPLOYMENT = Request("create", "d", code=201, resource="deployments")
FORBIDDEN_PATCH = Request(
    "patch", code=403, message='configmaps "a" is forbidden: User "jane" cannot patch resource "x"'
)
INVALID_APPLY = replace(
    apply("me", {}, {}), code=422, message='ConfigMap "a" is invalid: metadata.labels: Invalid value'
)
REFUSED_APPLY = replace(apply("me", BAD, BAD), code=422, message=DENIED)
NOT_FOUND = Request("patch", code=404, message='configmaps "a" not found', body={"data": {"k": "v"}})
STATUS = Request(
    "update",
    "d",
    resource="deployments",
    subresource="status",
    held=("d",),
    ends=True,
    body={"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "resourceVersion": "777"}},
)

ROWS = [
    Row(
        "a version that a deletion of a collection stored is no gap of the log",
        [
            replace(DEPLOYMENT, held=("d",)),
            replace(DEPLOYMENT, name="o"),
            Request("deletecollection", resource="deployments", items=("d",), held=("d",)),
            STATUS,
            Request("patch", "o", code=422, message=DENIED, resource="deployments", body={"metadata": {"labels": BAD}}),
        ],
        [SUCCEEDS, SUCCEEDS, SUCCEEDS, SUCCEEDS, BEGUN],
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
        [("invalid", None), BEGUN, ("succeeds", 1)],
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

"""Updates that create what is not there in the other world (`registry/generic/registry.Store.Update`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.world.test_consequences import BAD, DENIES, SUCCEEDS, Request, Row, replayed

STATUS_BODY = {"kind": "Service", "apiVersion": "v1", "metadata": {"name": "s", "namespace": "default"}}


def of_service(verb: str, code: int, labels: dict[str, str] | None = None, **fields: Any) -> Request:
    return Request(verb, "s", labels or {}, code, resource="services", **fields)


ROWS = [
    Row(
        "a PUT of the status of a Service that is not there in this world",
        [
            of_service("create", 201, BAD),
            of_service("update", 200, subresource="status", body=STATUS_BODY),
            of_service("create", 409, message='services "s" already exists'),
        ],
        [DENIES, SUCCEEDS, ("exists", None)],
    ),
    Row(
        "a merge patch of it",
        [of_service("create", 201, BAD), of_service("patch", 200, subresource="status", body={"status": {}})],
        [DENIES, ("absent", 0)],
    ),
    Row(
        "a PUT of the status of a Deployment, which creates none",
        [
            Request("create", "d", BAD, 201, resource="deployments"),
            Request("update", "d", resource="deployments", subresource="status"),
            Request("update", "d", resource="deployments"),
        ],
        [DENIES, ("absent", 0), ("absent", 0)],
    ),
    Row(
        "a Service that the PUT of its status created in the log",
        [of_service("update", 201, subresource="status", body=STATUS_BODY), of_service("update", 200, BAD)],
        [SUCCEEDS, DENIES],
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_creating_updates(row: Row, tmp_path: Path) -> None:
    assert replayed(row, tmp_path)[1] == row.expected

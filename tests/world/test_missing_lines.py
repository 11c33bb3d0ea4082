"""What is said of an object that differs, where the log lacks lines or bodies: never that something ends otherwise by what may be missing."""

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
    SUCCEEDS,
    Request,
    Row,
    replayed,
)

UNSEEN = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "g", "resourceVersion": "777"}}
GAP = [Request("create", "g", code=201), Request("update", "g", body=UNSEEN)]
"""An update of a version that no request of the log stored."""
BAD_CREATE = Request("create", labels=BAD, code=201)
BARE_PATCH = Request("patch", level="Metadata")
BARE_APPLY = Request("patch", level="Metadata", query="?fieldManager=me")
UNKNOWN: tuple[str, Any] = ("unknown", 2)

ROWS = [
    Row("a log without gaps", [BAD_CREATE, PATCH], [DENIES, ("absent", 0)]),
    Row(
        "an object that the candidate lacks may have come back by a line that is missing",
        [*GAP, BAD_CREATE, PATCH],
        [SUCCEEDS, SUCCEEDS, DENIES, UNKNOWN],
    ),
    Row(
        "what the candidate refuses of the request itself is certain",
        [*GAP, BAD_CREATE, Request("create", labels=BAD, code=409, message='configmaps "a" already exists')],
        [SUCCEEDS, SUCCEEDS, DENIES, ("denied", "root")],
    ),
    Row(
        "an object that only the candidate has may have been deleted by a line that is missing",
        [*GAP, Request("create", labels=BAD, code=422, message=DENIED), Request("create", code=201)],
        [SUCCEEDS, SUCCEEDS, ("succeeds", "root"), UNKNOWN],
        reverse=True,
    ),
    Row(
        "the line is missing that created an object, which the candidate may have refused",
        [*GAP, PATCH, Request("update", labels=BAD)],
        [SUCCEEDS, SUCCEEDS, ("unknown", None), DENIES],
    ),
    Row(
        "an object whose creation the log shows",
        [*GAP, Request("create", code=201), PATCH, Request("update", labels=BAD)],
        [SUCCEEDS, SUCCEEDS, SUCCEEDS, SUCCEEDS, DENIES],
    ),
    Row("a patch without a field manager is no apply", [BAD_CREATE, BARE_PATCH], [DENIES, ("absent", 0)]),
    Row("a patch without a body that may be an apply", [BAD_CREATE, BARE_APPLY], [DENIES, ("unknown", 0)]),
    Row(
        "an apply without a body that created its object",
        [BAD_CREATE, Request("patch", code=201, level="Metadata", query="?fieldManager=me")],
        [DENIES, ("unknown", 0)],
    ),
]

MISSED = Request("patch", code=404, message='configmaps "a" not found', body={"data": {"k": "v"}})
REFUSED_B = Request("create", "b", BAD, 422, DENIED)
OPEN: tuple[str, Any] = ("unknown", None)
EARLIER = [
    Row(
        "what the candidate refuses of a request about an object from before the log is certain",
        [Request("update", labels=BAD)],
        [DENIES],
    ),
    Row(
        "an object from before the log that the candidate may refuse is perhaps not there",
        [Request("create", "b", BAD, 201), AGAIN],
        [DENIES, OPEN],
    ),
    Row(
        "an object from before the log that the candidate admits",
        [Request("create", "b", BAD, 201), PATCH, DELETE],
        [DENIES, SUCCEEDS, SUCCEEDS],
    ),
    Row(
        "an object that was not there, which only the candidate admits",
        [REFUSED_B, MISSED, CREATE, PATCH],
        [("succeeds", "root"), OPEN, OPEN, SUCCEEDS],
        reverse=True,
    ),
    Row(
        "an object that was not there, which the candidate admits no more than the log's set",
        [Request("create", "b", BAD, 201), MISSED],
        [DENIES, ("absent", None)],
    ),
    Row(
        "an object that was not there, in a namespace that the log creates",
        [
            Request("create", "n", code=201, resource="namespaces"),
            *(replace(each, namespace="n") for each in (REFUSED_B, MISSED)),
        ],
        [SUCCEEDS, ("succeeds", "root"), ("absent", None)],
        reverse=True,
    ),
]


@pytest.mark.parametrize("row", [*ROWS, *EARLIER], ids=[row.name for row in [*ROWS, *EARLIER]])
def test_missing_lines(row: Row, tmp_path: Path) -> None:
    assert replayed(row, tmp_path)[1] == row.expected

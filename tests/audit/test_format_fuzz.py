"""Logs are untrusted: no JSON, whatever fields it has and however deep it is, makes the ingest fail."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replay.audit.format.table import formats_named, products
from replay.audit.store import Store
from replay.errors import AuditLogError
from tests.support.log_lines import event, rejects

NAMES = (
    *("log", "message", "event", "records", "properties", "logEvents", "events", "request", "review", "operation"),
    *(
        "protoPayload",
        "serviceName",
        "response",
        "status",
        "kind",
        "AuditId",
        "Stage",
        "Verb",
        "data",
        "result",
        "values",
    ),
    *(
        "a.auditID",
        "a.stage",
        "a.verb",
        "a.level",
        "a.objectRef.name",
        "metadata",
        "object",
        "managedFields",
        "resource",
    ),
)
LEAVES = (
    *(None, True, 7, -1.5, "", "x", "CREATE", "k8s.io", "Event", "audit.k8s.io/v1", "{", "2026-01-01T00:00:00Z"),
    event(1).decode(),
)
VALUES = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5),
    max_leaves=25,
)


@pytest.mark.property
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    values=st.lists(VALUES, min_size=1, max_size=4),
    indent=st.sampled_from([None, 1]),
    name=st.sampled_from(["", *products()]),
)
def test_no_json_makes_the_ingest_fail(values: list[Any], indent: int | None, name: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_text("\n".join(json.dumps(value, indent=indent) for value in values))
    with Store.open() as store, suppress(AuditLogError):
        store.ingest([tmp_path / "log"], formats=formats_named(name) if name else ())


DEEP = "[" * 500 + "]" * 500
FLAT = {"a.auditID": "x", "a.stage": "", "a.verb": "", "a.level": "", "a." + "c." * 5000: 1}


@pytest.mark.parametrize(
    "line",
    [f'{{"operation": "CREATE", "resource": {{}}, "requestResource": 7, "object": {DEEP}}}', json.dumps(FLAT)],
    ids=["a deep object", "a name of many parts"],
)
def test_what_is_too_deep_is_counted(line: str, tmp_path: Path) -> None:
    (tmp_path / "deep").write_text(line)
    (tmp_path / "plain").write_bytes(event(2))
    with Store.open() as store:
        store.ingest([tmp_path])
        assert len(rejects(store)) == 1

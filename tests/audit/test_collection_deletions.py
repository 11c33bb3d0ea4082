"""Which objects the deletions of whole collections took, as the query reads them from the log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from replay.audit.store import Store

URI = "/api/v1/namespaces/shop/services"
WEB = {"metadata": {"name": "web", "uid": "u"}}
KEPT = {"metadata": {"name": "api", "uid": "v", "finalizers": ["example.com/keep"]}}
LISTED = [["web", "u", ""], ["api", "v", "kept"]]
FORBIDDEN = {"annotations": {"authorization.k8s.io/decision": "forbid"}}


def listed(*items: dict[str, Any]) -> dict[str, Any]:
    return {"responseObject": {"kind": "ServiceList", "apiVersion": "v1", "items": list(items)}}


def options(**fields: Any) -> dict[str, Any]:
    return {"requestObject": {"kind": "DeleteOptions", "apiVersion": "v1", **fields}}


CASES: list[tuple[str, dict[str, Any], list[Any]]] = [
    ("what it deleted", listed(WEB, KEPT), [LISTED]),
    ("nothing", listed(), []),
    ("not recorded", {"level": "Metadata"}, [None]),
    ("an answer of another form", {"responseObject": {"kind": "Status"}}, [None]),
    (
        "a finalizer of the deletion",
        {**listed(WEB), **options(propagationPolicy="Foreground")},
        [[["web", "u", "kept"]]],
    ),
    ("the usual policy, said", {**listed(WEB), **options(propagationPolicy="Background")}, [[["web", "u", ""]]]),
    (
        "a finalizer that the URL asks for",
        {**listed(WEB), "requestURI": f"{URI}?propagationPolicy=Orphan"},
        [[["web", "u", "kept"]]],
    ),
    ("a dry run", {**listed(WEB), "requestURI": f"{URI}?dryRun=All"}, []),
    ("a dry run, by its options", {**listed(WEB), **options(dryRun=["All"])}, []),
    ("one object was refused", {"responseStatus": {"code": 403}}, [None]),
    ("it was not authorized", {"responseStatus": {"code": 403}, **FORBIDDEN}, []),
    ("it timed out", {"responseStatus": {"code": 504}}, [None]),
    ("it was not found", {"responseStatus": {"code": 404}}, []),
    ("another verb", {**listed(WEB), "verb": "delete"}, []),
]


@pytest.mark.parametrize(("fields", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_objects_of_a_deleted_collection(tmp_path: Path, fields: dict[str, Any], expected: list[Any]) -> None:
    event = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "RequestResponse",
        "auditID": "one",
        "stage": "ResponseComplete",
        "verb": "deletecollection",
        "requestURI": URI,
        "objectRef": {"resource": "services", "namespace": "shop", "apiVersion": "v1"},
        "responseStatus": {"code": 200},
        "requestReceivedTimestamp": "2026-01-01T00:00:00Z",
        "stageTimestamp": "2026-01-01T00:00:01Z",
        **fields,
    }
    (tmp_path / "log").write_text(json.dumps(event))
    with Store.open(tmp_path / "store") as store:
        store.ingest([tmp_path / "log"])
        found = store.answer("collection_deletions")
    begin = 1_767_225_600_000_000
    uri = event["requestURI"]
    assert found == [["", "services", "shop", begin, begin + 1_000_000, uri, items, ""] for items in expected]

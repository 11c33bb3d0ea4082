"""A request's body on its way into the mutating phase."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from replay.audit.event import RequestRecord
from replay.kube.attributes import Basis, Missing
from replay.kube.discovery import builtin_discovery
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.record.known import Known
from replay.reconstruct.request import sent_object

SYSTEM = {"uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": "2026-01-01T00:00:00Z"}
BODY = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "generation": 3, "resourceVersion": "4", **SYSTEM},
}


def sent(record: RequestRecord, *, creating: bool) -> Known:
    found = sent_object(Exchange(record, builtin_discovery()), creating=creating)
    assert isinstance(found, Known)
    return found


def test_a_creation_loses_the_system_fields_that_the_handler_wipes(pod_record: Callable[..., RequestRecord]) -> None:
    """Neither generation nor resourceVersion: strategy and storage look at those."""
    found = sent(pod_record("create", code=403, request=BODY), creating=True)
    assert found.basis is Basis.RECORDED
    metadata = {"name": "web", "namespace": "shop", "generation": 3, "resourceVersion": "4"}
    assert found.value == {**BODY, "metadata": metadata}
    assert [hole.path for hole in found.holes] == [("metadata", "managedFields")]


def test_an_update_keeps_them(pod_record: Callable[..., RequestRecord]) -> None:
    found = sent(pod_record("update", code=403, request=BODY), creating=False)
    assert found.value["metadata"] == {**BODY["metadata"], "namespace": "shop"}  # type: ignore[dict-item]


def test_a_response_shows_the_managed_fields(pod_record: Callable[..., RequestRecord]) -> None:
    managed = [{"manager": "kubectl", "operation": "Update"}]
    response = {**BODY, "metadata": {"name": "web", "managedFields": managed}}
    found = sent(pod_record("create", code=201, request=BODY, response=response), creating=True)
    assert found.value["metadata"]["managedFields"] == managed
    assert found.holes == ()


REFUSED = '{"authorization.k8s.io/decision": "forbid"}'
WITHOUT_BODY = [
    ({"level": "Metadata"}, "audit level Metadata does not record bodies"),
    ({"level": "RequestResponse"}, "the event has no request body"),
    (
        {"level": "RequestResponse", "annotations": REFUSED},
        "the authorizers refused the request before the API server read its body",
    ),
]


@pytest.mark.parametrize(("fields", "reason"), WITHOUT_BODY)
def test_why_there_is_no_body(fields: Any, reason: str, pod_record: Callable[..., RequestRecord]) -> None:
    record = pod_record("create", code=403)._replace(**fields)
    found = sent_object(Exchange(record, builtin_discovery()), creating=True)
    assert isinstance(found, Missing)
    assert found.reason == reason

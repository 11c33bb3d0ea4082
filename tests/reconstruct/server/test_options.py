"""Options and connections, as the handlers make them from query and body."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from replay.audit.event import RequestRecord
from replay.kube.attributes import Missing, Operation, UserInfo
from replay.kube.discovery import builtin_discovery
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.server.options import connect_object, delete_options, write_options

Record = Callable[..., RequestRecord]
DELETE = {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}


def exchange(record: RequestRecord) -> Exchange:
    return Exchange(record, builtin_discovery())


@pytest.mark.parametrize(
    ("query", "options"),
    [
        ("", {}),
        (
            "dryRun=All&fieldManager=kubectl&fieldValidation=Strict&pretty=true",
            {"dryRun": ["All"], "fieldManager": "kubectl", "fieldValidation": "Strict"},
        ),
        ("fieldManager=", {}),
    ],
)
def test_write_options(query: str, options: dict[str, Any]) -> None:
    assert write_options(query, Operation.UPDATE) == {
        "kind": "UpdateOptions",
        "apiVersion": "meta.k8s.io/v1",
        **options,
    }


@pytest.mark.parametrize(
    ("query", "body", "options"),
    [
        (
            "",
            {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/__internal", "gracePeriodSeconds": 0},
            {"gracePeriodSeconds": 0},
        ),
        (
            "?gracePeriodSeconds=5&propagationPolicy=Orphan&orphanDependents=false&dryRun=All",
            None,
            {"gracePeriodSeconds": 5, "propagationPolicy": "Orphan", "orphanDependents": False, "dryRun": ["All"]},
        ),
        ("", None, {}),
    ],
)
def test_delete_options(query: str, body: Any, options: dict[str, Any], pod_record: Record) -> None:
    found = delete_options(exchange(pod_record("delete", uri=f"/api/v1/pods/web{query}", request=body)))
    assert found == {**DELETE, **options}


def test_a_connection_without_its_query(pod_record: Record) -> None:
    told = exchange(
        pod_record("create", uri="/api/v1/pods/web/exec", replace={"user": UserInfo("a", missing=("uid",))})
    )
    told.is_connect = True
    assert isinstance(connect_object(told), Missing)


def test_delete_options_at_level_metadata(pod_record: Record) -> None:
    assert isinstance(delete_options(exchange(pod_record("delete", replace={"level": "Metadata"}))), Missing)


@pytest.mark.parametrize(
    ("subresource", "query", "options"),
    [
        (
            "exec",
            "command=sh&command=-c&stdin=true&tty=false&container=c",
            {"kind": "PodExecOptions", "command": ["sh", "-c"], "stdin": True, "container": "c"},
        ),
        ("attach", "stdout=1&stderr=0", {"kind": "PodAttachOptions", "stdout": True}),
        ("portforward", "ports=80,443", {"kind": "PodPortForwardOptions", "ports": [80, 443]}),
    ],
)
def test_connections(subresource: str, query: str, options: dict[str, Any], pod_record: Record) -> None:
    record = pod_record(
        "create", uri=f"/api/v1/namespaces/shop/pods/web/{subresource}?{query}", ref={"subresource": subresource}
    )
    found = connect_object(exchange(record))
    assert not isinstance(found, Missing)
    assert found.value == {"apiVersion": "v1", **options}

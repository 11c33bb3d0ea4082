"""What the strategy and the reading back of a created object add to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from replay.audit.event import RequestRecord
from replay.kube.attributes import Basis
from replay.kube.discovery import builtin_discovery
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.record.known import Known, get
from replay.reconstruct.server.strategy import after_create, as_validated

JOBS = {"resource": "jobs", "apiGroup": "batch"}
LABELS = ("batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "controller-uid", "job-name")
GENERATED = dict(zip(LABELS, ("u", "web", "u", "web"), strict=True))


APP = {"app": "a"}


def job(labels: dict[str, str] | None = None, pods: dict[str, str] | None = None) -> dict[str, Any]:
    metadata = {"name": "web", "uid": "u", **({"labels": labels} if labels else {})}
    template = {"metadata": {"labels": pods} if pods else {}}
    return {"kind": "Job", "apiVersion": "batch/v1", "metadata": metadata, "spec": {"template": template}}


STORED = [
    ("none of its own, nor of its pods", GENERATED, GENERATED, None),
    ("those of its pods", APP | GENERATED, APP | GENERATED, APP | GENERATED),
    ("its own", APP, GENERATED, APP),
]


@pytest.mark.parametrize(("labels", "pods", "seen"), [row[1:] for row in STORED], ids=[row[0] for row in STORED])
def test_labels_of_a_stored_job_when_it_was_validated(
    labels: dict[str, str], pods: dict[str, str], seen: Any, pod_record: Callable[..., RequestRecord]
) -> None:
    stored = job(labels, pods)
    exchange = Exchange(pod_record("create", code=201, ref=JOBS, response=stored), builtin_discovery())
    assert get(as_validated(Known(stored, Basis.RECORDED), exchange).value, ("metadata", "labels")) == seen


SENT = [("none", None, None, set()), ("its own", APP, {"b": "c"}, set()), ("those of its pods", APP, APP, set(LABELS))]


@pytest.mark.parametrize(("labels", "pods", "open_"), [row[1:] for row in SENT], ids=[row[0] for row in SENT])
def test_generated_labels_of_a_refused_job(
    labels: dict[str, str] | None,
    pods: dict[str, str] | None,
    open_: set[str],
    pod_record: Callable[..., RequestRecord],
) -> None:
    sent = job(labels, pods)
    exchange = Exchange(pod_record("create", code=422, ref=JOBS, request=sent), builtin_discovery())
    holes = {hole.path for hole in after_create(Known(sent, Basis.RECORDED), exchange, exchange.api_resource).holes}
    assert {path[-1] for path in holes if path[:2] == ("metadata", "labels")} == open_


POD_LABELS, MATCHED = ("spec", "template", "metadata", "labels"), ("spec", "selector", "matchLabels")
NAMED = dict.fromkeys(LABELS[1::2], "web")
SELECTORS: list[tuple[str, dict[str, Any], Any, Any, set[tuple[str, ...]]]] = [
    (
        "generated",
        {"template": {"metadata": {"labels": APP}}},
        APP | NAMED,
        {},
        {(*POD_LABELS, LABELS[0]), (*POD_LABELS, LABELS[2]), (*MATCHED, LABELS[0])},
    ),
    ("manual", {"manualSelector": True, "selector": {"matchLabels": APP}}, None, APP, set()),
    (
        "labels that a client set",
        {"template": {"metadata": {"labels": GENERATED | {"job-name": "other"}}}},
        GENERATED | {"job-name": "other"},
        {},
        {(*MATCHED, LABELS[0])},
    ),
]


@pytest.mark.parametrize(
    ("spec", "pods", "matched", "open_"), [row[1:] for row in SELECTORS], ids=[row[0] for row in SELECTORS]
)
def test_selector_of_a_new_job_is_known_but_for_its_uid(
    spec: dict[str, Any], pods: Any, matched: Any, open_: set[tuple[str, ...]], pod_record: Callable[..., RequestRecord]
) -> None:
    sent = {**job(), "spec": spec}
    exchange = Exchange(pod_record("create", code=422, ref=JOBS, request=sent), builtin_discovery())
    state = after_create(Known(sent, Basis.RECORDED), exchange, exchange.api_resource)
    assert (get(state.value, POD_LABELS), get(state.value, MATCHED)) == (pods, matched)
    assert {hole.path for hole in state.holes if hole.path[0] == "spec"} == open_


SERVICES = [
    ("inside the cluster alone", {"type": "ClusterIP"}, set()),
    ("a port of nodes", {"type": "NodePort"}, {("spec", "ports", 0, "nodePort")}),
    ("balanced", {"type": "LoadBalancer"}, {("spec", "ports", 0, "nodePort")}),
    ("balanced without", {"type": "LoadBalancer", "allocateLoadBalancerNodePorts": False}, set()),
    (
        "balanced, with a health check",
        {"type": "LoadBalancer", "externalTrafficPolicy": "Local"},
        {("spec", "ports", 0, "nodePort"), ("spec", "healthCheckNodePort")},
    ),
]


@pytest.mark.parametrize(("spec", "open_"), [row[1:] for row in SERVICES], ids=[row[0] for row in SERVICES])
def test_ports_that_are_allocated_for_a_refused_service(
    spec: dict[str, Any], open_: set[tuple[str | int, ...]], pod_record: Callable[..., RequestRecord]
) -> None:
    ports = [{"port": 80}, {"port": 81, "nodePort": 30000}]
    sent = {"kind": "Service", "apiVersion": "v1", "metadata": {"name": "s"}, "spec": {"ports": ports, **spec}}
    exchange = Exchange(pod_record("create", code=403, ref={"resource": "services"}, request=sent), builtin_discovery())
    holes = {hole.path for hole in after_create(Known(sent, Basis.RECORDED), exchange, exchange.api_resource).holes}
    assert {path for path in holes if path[-1] in ("ports", "nodePort", "healthCheckNodePort")} == open_


@pytest.mark.parametrize(
    ("resource", "kind", "sent", "expected"),
    [
        ("persistentvolumeclaims", "PersistentVolumeClaim", {"phase": "Bound"}, ({"phase": "Pending"}, False)),
        ("replicationcontrollers", "ReplicationController", {"replicas": 1}, ({"replicas": 1}, True)),
    ],
    ids=["a claim that nothing is bound to", "a status that the log does not show"],
)
def test_status_of_a_new_object(
    resource: str, kind: str, sent: Any, expected: tuple[Any, bool], pod_record: Callable[..., RequestRecord]
) -> None:
    body = {"kind": kind, "apiVersion": "v1", "metadata": {"name": "v"}, "spec": {}, "status": sent}
    exchange = Exchange(pod_record("create", code=403, ref={"resource": resource}, request=body), builtin_discovery())
    state = after_create(Known(body, Basis.RECORDED), exchange, exchange.api_resource)
    assert (get(state.value, ("status",)), any(hole.path == ("status",) for hole in state.holes)) == expected

"""Which classes objects were given that asked for none, as a column of the store says it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from replay.audit.store import Store

PODS = {"resource": "pods", "namespace": "shop", "name": "web", "apiVersion": "v1"}
CLAIMS = {**PODS, "resource": "persistentvolumeclaims"}
INGRESSES = {**PODS, "resource": "ingresses", "apiGroup": "networking.k8s.io"}


class Case(NamedTuple):
    name: str
    about: dict[str, str]
    asked: dict[str, Any] | None
    given: dict[str, Any] | None
    expected: str | None
    fields: dict[str, Any] = {}  # noqa: RUF012 - a value


def annotated(key: str) -> dict[str, Any]:
    return {"metadata": {"annotations": {key: "own"}}}


CASES = [
    Case("a pod that got one", PODS, {}, {"spec": {"priorityClassName": "usual"}}, "usual"),
    Case("a pod that got none", PODS, {"spec": {}}, {"spec": {}}, ""),
    Case(
        "a pod that asked",
        PODS,
        {"spec": {"priorityClassName": "own"}},
        {"spec": {"priorityClassName": "own"}},
        None,
    ),
    Case("what a pod says of other classes", PODS, annotated("kubernetes.io/ingress.class"), {}, ""),
    Case("a claim that got one", CLAIMS, {}, {"spec": {"storageClassName": "fast"}}, "fast"),
    Case("a claim that asked by annotation", CLAIMS, annotated("volume.beta.kubernetes.io/storage-class"), {}, None),
    Case("an Ingress that got one", INGRESSES, {}, {"spec": {"ingressClassName": "nginx"}}, "nginx"),
    Case("an Ingress that asked by annotation", INGRESSES, annotated("kubernetes.io/ingress.class"), {}, None),
    Case("an Ingress that asked", INGRESSES, {"spec": {"ingressClassName": "own"}}, {}, None),
    Case("no class is null", INGRESSES, {"spec": {"ingressClassName": None}}, {"spec": {}}, ""),
    Case("another kind", {**PODS, "resource": "services"}, {}, {}, None),
    Case("another group", {**PODS, "apiGroup": "example.com"}, {}, {}, None),
    Case("a request that is not recorded", PODS, None, {}, None),
    Case("an answer that is not recorded", PODS, {}, None, None),
    Case("a creation that failed", PODS, {}, {}, None, {"responseStatus": {"code": 409}}),
    Case("an update", PODS, {}, {}, None, {"verb": "update"}),
    Case("a subresource", {**PODS, "subresource": "binding"}, {}, {}, None),
]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_class_that_an_object_got(tmp_path: Path, case: Case) -> None:
    event = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "RequestResponse",
        "auditID": "one",
        "stage": "ResponseComplete",
        "verb": "create",
        "requestURI": "/",
        "objectRef": case.about,
        "responseStatus": {"code": 201},
        "requestReceivedTimestamp": "2026-01-01T00:00:00Z",
        "stageTimestamp": "2026-01-01T00:00:01Z",
        **({} if case.asked is None else {"requestObject": case.asked}),
        **({} if case.given is None else {"responseObject": case.given}),
        **case.fields,
    }
    (tmp_path / "log").write_text(json.dumps(event))
    with Store.open(tmp_path / "store") as store:
        store.ingest([tmp_path / "log"])
        assert store.sql("select default_class from request").rows() == [(case.expected,)]

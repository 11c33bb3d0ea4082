"""What columns of the store say of bodies, so that nobody has to read these: default classes, and what was deleted."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from replay.audit.store import Store
from tests.support.log_lines import event

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


def column_of(directory: Path, name: str, fields: dict[str, Any]) -> list[tuple[Any, ...]]:
    """A column of a store of one event."""
    (directory / "log").write_bytes(event(1, **fields))
    with Store.open(directory / "store") as store:
        store.ingest([directory / "log"])
        return store.sql(f"select {name} from request").rows()


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_class_that_an_object_got(tmp_path: Path, case: Case) -> None:
    bodies = {"requestObject": case.asked, "responseObject": case.given}
    fields = {
        "verb": "create",
        "objectRef": case.about,
        "responseStatus": {"code": 201},
        **{name: body for name, body in bodies.items() if body is not None},
        **case.fields,
    }
    assert column_of(tmp_path, "default_class", fields) == [(case.expected,)]


POD = {"responseObject": {"kind": "Pod", "metadata": {"uid": "of the body"}}}
STATUS = {"responseObject": {"kind": "Status", "metadata": {}, "details": {"uid": "of the details"}}}
NAMED = {"objectRef": {**PODS, "uid": "of the event"}}
OPTIONS = {"requestObject": {"preconditions": {"uid": "of the options"}}}

DELETIONS: list[tuple[str, dict[str, Any], str | None]] = [
    ("what is left for now", {**POD, **NAMED, **OPTIONS}, "of the body"),
    ("what is gone", {**STATUS, **NAMED, **OPTIONS}, "of the details"),
    ("an answer that is not recorded", {**NAMED, **OPTIONS}, "of the event"),
    ("what the client named", OPTIONS, "of the options"),
    ("nobody tells", {}, None),
    ("one that failed", {**STATUS, "responseStatus": {"code": 409}}, None),
    ("a subresource", {**STATUS, "objectRef": {**PODS, "subresource": "proxy"}}, None),
    ("an update", {**POD, "verb": "update"}, None),
]


@pytest.mark.parametrize(("fields", "expected"), [row[1:] for row in DELETIONS], ids=[row[0] for row in DELETIONS])
def test_the_uid_of_what_was_deleted(tmp_path: Path, fields: dict[str, Any], expected: str | None) -> None:
    deletion = {"verb": "delete", "objectRef": PODS, "responseStatus": {"code": 200}, **fields}
    assert column_of(tmp_path, "deleted_uid", deletion) == [(expected,)]

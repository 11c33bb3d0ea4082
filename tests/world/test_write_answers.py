"""What the other world answers to a write: preconditions, the validation of the API and the policies, in the server's order."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.world.test_consequences import (
    BAD,
    CREATE,
    DENIED,
    DENIES,
    KEEP,
    OPTIONS,
    REFUSED,
    SUCCEEDS,
    Request,
    Row,
    apply,
    managed,
    replayed,
)

ROOT = ("succeeds", "root")
OTHER_UID = "11111111-2222-3333-4444-555555555555"
NO_LABEL = "[JSONPatch{op: 'add', path: '/metadata/labels', value: {'a~b': 'c'}}]"


def body(kind: str, version: str = "v1", name: str = "a", labels: Any = None, spec: Any = None, **metadata: Any) -> Any:
    """An object as a client sends it."""
    whole = {"name": name, "namespace": "default", "labels": labels or {}, **metadata}
    return {"apiVersion": version, "kind": kind, "metadata": whole, **({"spec": spec} if spec else {})}


def refused(resource: str, sent: Any) -> Request:
    """A creation that the policy of the log refused, and that succeeds in the other world."""
    return Request("create", sent["metadata"]["name"], BAD, 422, DENIED, resource=resource, body=sent)


def absent(verb: str, sent: Any, resource: str = "configmaps", name: str = "a", query: str = "") -> Request:
    """A request that did not find its object."""
    return Request(verb, name, code=404, message="not found", resource=resource, body=sent, query=query)


def pod_spec(*containers: str, image: str = "i", restart: str = "Always", **fields: Any) -> Any:
    """What the server decodes, with the defaults of pods."""
    common = {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File", "resources": {}}
    common |= {"image": image, "imagePullPolicy": "Always"}
    return {
        "containers": [{"name": name, **common, **fields} for name in containers],
        "restartPolicy": restart,
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "enableServiceLinks": True,
    }


def pod(*containers: str) -> Any:
    return body("Pod", name="p", labels=BAD, spec=pod_spec(*containers))


def job(image: str) -> Any:
    spec = {"parallelism": 1, "completions": 1, "backoffLimit": 6, "completionMode": "NonIndexed", "suspend": False}
    spec |= {"manualSelector": False, "podReplacementPolicy": "TerminatingOrFailed"}
    template = {"metadata": {}, "spec": pod_spec("c", image=image, restart="Never")}
    return body("Job", "batch/v1", "j", BAD, {**spec, "template": template})


def service(*ports: Any) -> Any:
    return body("Service", name="s", spec={"ports": list(ports)})


def applied(resource: str, sent: Any) -> Request:
    """An apply that created its object in the log."""
    name = sent["metadata"]["name"]
    return Request("patch", name, BAD, 201, resource=resource, query="?fieldManager=me&force=true", body=sent)


def with_ports() -> Any:
    container = {"name": "c", "image": "i", "ports": [{"containerPort": 80, "protocol": "TCP"}]}
    return body("Pod", name="p", labels=BAD, spec={"containers": [container]})


EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
EVICT = Request("create", "p", code=404, message='pods "p" not found', resource="pods", subresource="eviction")
UNFIT = {**EVICTION, "deleteOptions": {"preconditions": {"uid": OTHER_UID}}}
LABELLED_BAD = {"metadata": {"name": "p", "labels": BAD}}
PATCH_JSON = [{"op": "test", "path": "/metadata/labels/bad", "value": "other"}]
PATCH_KEPT = [{"op": "test", "path": "/metadata/labels/keep", "value": "1"}]
APPLY = "?fieldManager=me"
DEPLOYMENT = body("Deployment", "apps/v1", "d", BAD)

ROWS = [
    Row(
        "preconditions of deletions that fit no object",
        [
            REFUSED,
            absent("delete", {**OPTIONS, "preconditions": {"uid": OTHER_UID}}),
            absent("delete", {**OPTIONS, "preconditions": {"resourceVersion": "7"}}),
            absent("patch", {"data": {"k": "v"}}),
        ],
        [ROOT, ("conflict", 0), ("conflict", 0), ("succeeds", 0)],
        reverse=True,
    ),
    Row(
        "preconditions of an eviction",
        [
            refused("pods", pod("c")),
            replace(EVICT, body={**EVICTION, "deleteOptions": {"preconditions": {"uid": OTHER_UID}}}),
            replace(EVICT, body=EVICTION),
        ],
        [ROOT, ("conflict", 0), ("succeeds", 0)],
        reverse=True,
    ),
    Row(
        "preconditions of an eviction that the policy of the log refused",
        [
            Request("create", "p", code=201, resource="pods", body=pod("c")),
            replace(EVICT, code=422, message=DENIED, body={**UNFIT, **LABELLED_BAD}),
            replace(EVICT, code=422, message=DENIED, body={**EVICTION, **LABELLED_BAD}),
        ],
        [SUCCEEDS, ("conflict", "root"), ("succeeds", "root")],
        reverse=True,
    ),
    Row(
        "versions and uids of updates that fit no object",
        [
            REFUSED,
            absent("update", body("ConfigMap", resourceVersion="1")),
            absent("update", body("ConfigMap", uid=OTHER_UID)),
            absent("patch", {"metadata": {"resourceVersion": "5"}}),
        ],
        [ROOT, ("conflict", 0), ("conflict", 0), ("conflict", 0)],
        reverse=True,
    ),
    Row(
        "a uid is looked at before the policies",
        [
            CREATE,
            Request(
                "update",
                labels=BAD,
                code=409,
                message="StorageError: invalid object, Code: 4, Precondition failed: UID in precondition: 1",
                body=body("ConfigMap", labels=BAD, uid=OTHER_UID),
            ),
        ],
        [SUCCEEDS, ("conflict", None)],
    ),
    Row(
        "a creation that names a version fails in the storage",
        [
            refused("configmaps", body("ConfigMap", labels=BAD, resourceVersion="5")),
            Request("create", labels=BAD, code=422, message=DENIED, body=body("ConfigMap", labels=BAD)),
            refused("configmaps", body("ConfigMap", labels=BAD, resourceVersion="5")),
        ],
        [("error 500", "root"), ROOT, ("error 500", 1)],
        reverse=True,
    ),
    Row(
        "an apply that creates is made invalid before a policy refuses it",
        [Request("create", labels=BAD, code=201), apply("me", BAD, BAD, managed("me", "Apply", "bad"))],
        [("invalid", "root"), ("invalid", 0)],
        mutation=NO_LABEL,
    ),
    Row(
        "a creation that both sets deny is made invalid before the policy of the candidate refuses it",
        [refused("configmaps", body("ConfigMap", labels=BAD)), refused("secrets", body("Secret", labels=BAD))],
        [("invalid", "root"), ("denied", None)],
        mutation="object.kind == 'Secret' ? [] : [JSONPatch{op: 'add', path: '/metadata/labels/a~0b', value: 'c'}]",
        both=True,
    ),
    Row(
        "pods keep their containers, and all of their spec but images",
        [
            refused("pods", pod("c")),
            absent("update", pod("c", "d"), "pods", "p"),
            absent("patch", {"spec": {"containers": [{"name": "c", "image": "j"}]}}, "pods", "p"),
            applied("pods", with_ports()),
        ],
        [ROOT, ("invalid", 0), ("succeeds", 0), ("invalid", 0)],
        reverse=True,
    ),
    Row(
        "jobs keep their template, and a PUT has the selector that the server made",
        [
            refused("jobs", job("i")),
            absent("update", job("i"), "jobs", "j"),
            applied("jobs", job("j")),
        ],
        [ROOT, ("invalid", 0), ("invalid", 0)],
        reverse=True,
    ),
    Row(
        "an apply creates nothing without what its kind requires",
        [
            Request("create", "d", BAD, 201, resource="deployments"),
            Request("patch", "d", resource="deployments", query=APPLY, body=DEPLOYMENT),
        ],
        [DENIES, ("invalid", 0)],
    ),
    Row(
        "a JSON patch that does not fit, and one that adds what it would replace",
        [
            REFUSED,
            absent("patch", PATCH_JSON),
            absent("patch", [{"op": "replace", "path": "/metadata/labels/none", "value": "t"}]),
        ],
        [ROOT, ("invalid", 0), ("succeeds", 0)],
        reverse=True,
    ),
    Row(
        "a name that a port of a Service needs beside another one",
        [
            Request("create", "s", BAD, 201, resource="services", body=service({"port": 80})),
            Request(
                "patch",
                "s",
                code=422,
                message='Service "s" is invalid: spec.ports[0].name: Required value',
                resource="services",
                query="?fieldManager=me&force=true",
                body=service({"port": 443}),
                causes=[{"reason": "FieldValueRequired", "field": "spec.ports[0].name", "message": "Required value"}],
            ),
        ],
        [DENIES, ("succeeds", 0)],
    ),
    Row(
        "what the log refused for the object that it found",
        [
            Request("create", labels=KEEP, code=201),
            Request("update", labels=BAD),
            Request("patch", code=422, message="the server rejected our request due to an error", body=PATCH_KEPT),
        ],
        [SUCCEEDS, DENIES, ("succeeds", 1)],
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_what_a_write_is_answered(row: Row, tmp_path: Path) -> None:
    assert replayed(row, tmp_path)[1] == row.expected

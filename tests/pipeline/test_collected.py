"""A request after the deletion of a whole collection meets no object that went with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from replay.pipeline.options import Options
from replay.pipeline.run import run
from replay.pipeline.scenario import Scenario

POLICY = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: rules.static.k8s.io}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: ["v1"], operations: [CREATE, UPDATE], resources: ["services"]}
  validations: [{expression: "request.operation == 'UPDATE'", message: nothing new}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: rules.static.k8s.io}
spec: {policyName: rules.static.k8s.io, validationActions: [Deny]}
"""
META = {"name": "web", "namespace": "shop"}
SENT = {"kind": "Service", "apiVersion": "v1", "metadata": META, "spec": {"ports": [{"port": 80}]}}
STORED = {**SENT, "metadata": {**META, "uid": "u", "resourceVersion": "5"}}
OTHER = {**SENT, "metadata": {**META, "name": "api", "uid": "v", "resourceVersion": "6"}}


def event(second: int, verb: str, code: int, **fields: Any) -> bytes:
    named = {} if verb == "deletecollection" else {"name": "web"}
    at = f"2026-01-01T00:00:{second:02}.000000Z"
    return orjson.dumps(
        {
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": "RequestResponse",
            "auditID": f"{verb}-{second}",
            "stage": "ResponseComplete",
            "verb": verb,
            "requestURI": "/api/v1/namespaces/shop/services",
            "user": {"username": "jane"},
            "objectRef": {"resource": "services", "namespace": "shop", "apiVersion": "v1", **named},
            "responseStatus": {"code": code, "reason": "Forbidden"} if code == 403 else {"code": code},
            "requestReceivedTimestamp": at,
            "stageTimestamp": at,
            "annotations": {"authorization.k8s.io/decision": "allow"},
            **fields,
        }
    )


REFUSED = {
    "responseStatus": {
        "code": 403,
        "reason": "Forbidden",
        "message": "services \"web\" is forbidden: ValidatingAdmissionPolicy 'x' with binding 'x' denied request: no",
    },
    "requestObject": SENT,
}


@pytest.mark.parametrize(
    ("items", "verdict"),
    [([STORED], "denied"), ([OTHER], "admitted"), (None, "undetermined")],
    ids=["it went", "another went", "the log does not tell"],
)
def test_a_refused_put_after_a_collection_was_deleted(tmp_path: Path, items: Any, verdict: str) -> None:
    answer = {} if items is None else {"responseObject": {"kind": "ServiceList", "apiVersion": "v1", "items": items}}
    log = [
        event(1, "create", 201, requestObject=SENT, responseObject=STORED),
        event(3, "deletecollection", 200, **answer),
        event(9, "update", 403, **REFUSED),
    ]
    (tmp_path / "log").write_bytes(b"\n".join(log))
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "policy.yaml").write_text(POLICY)
    scenario = Scenario(logs=(str(tmp_path / "log"),), candidate=tmp_path / "set")
    run(scenario, Options(outcomes=tmp_path / "lines", workers=1), lambda _what, _done, _total: None)
    lines = [orjson.loads(line) for line in (tmp_path / "lines").read_bytes().splitlines()]
    found = {line["auditID"]: line["candidate"]["verdict"] for line in lines if line["auditID"] == "update-9"}
    assert found == {"update-9": verdict}


@pytest.mark.parametrize(
    ("items", "found"),
    [([STORED], [("denied", {"rules.static.k8s.io/k": "x"})]), ([], []), (None, [("undetermined", {})])],
    ids=["one object", "no object", "the log does not tell"],
)
def test_a_collection_that_may_be_empty_asks_perhaps_no_policy(tmp_path: Path, items: Any, found: Any) -> None:
    answer = {} if items is None else {"responseObject": {"kind": "ServiceList", "apiVersion": "v1", "items": items}}
    (tmp_path / "log").write_bytes(event(3, "deletecollection", 200, **answer))
    (tmp_path / "set").mkdir()
    annotated = "  auditAnnotations: [{key: k, valueExpression: \"'x'\"}]\n  validations:"
    policy = POLICY.replace("[CREATE, UPDATE]", "[DELETE]").replace("  validations:", annotated)
    (tmp_path / "set" / "policy.yaml").write_text(policy)
    scenario = Scenario(logs=(str(tmp_path / "log"),), candidate=tmp_path / "set")
    run(scenario, Options(outcomes=tmp_path / "lines", workers=1), lambda _what, _done, _total: None)
    lines = [orjson.loads(line)["candidate"] for line in (tmp_path / "lines").read_bytes().splitlines()]
    assert [(each["verdict"], each["auditAnnotations"]) for each in lines] == found

"""A policy that asks the authorizers asks those of its own set."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest

from replay.pipeline.options import Options
from replay.pipeline.run import run
from replay.pipeline.scenario import Scenario
from tests.pipeline.authorization.test_losses import CHAIN, Server

POLICY = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: may-read}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE]}]}
  validations: [{expression: "authorizer.group('').resource('secrets').namespace('a').check('get').allowed()"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: may-read}
spec: {policyName: may-read, validationActions: [Deny]}
"""
RBAC = "apiVersion: rbac.authorization.k8s.io/v1\n"
CREATORS = RBAC + (
    "kind: ClusterRole\nmetadata: {name: creator}\nrules: [{apiGroups: [''], resources: [configmaps], verbs: [create]}]\n"
    f"---\n{RBAC}kind: ClusterRoleBinding\nmetadata: {{name: creator}}\n"
    "roleRef: {kind: ClusterRole, name: creator}\nsubjects: [{kind: User, name: ann}]\n"
)
READERS = RBAC + (
    "kind: ClusterRole\nmetadata: {name: reader}\nrules: [{apiGroups: [''], resources: [secrets], verbs: [get]}]\n"
    f"---\n{RBAC}kind: ClusterRoleBinding\nmetadata: {{name: reader}}\n"
    "roleRef: {kind: ClusterRole, name: reader}\nsubjects: [{kind: User, name: ann}]\n"
)


def manifest_set(path: Path, rbac: str) -> Path:
    for name, content in {"api/p.yaml": POLICY, "authorization.yaml": CHAIN, "rbac/r.yaml": rbac}.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(content)
    return path


def logged(path: Path) -> tuple[Path, Path]:
    """The log of a creation by ann, and a snapshot."""
    server = Server(Random(1))
    for kind in ("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"):
        server.put(kind, "" if kind.startswith("Cluster") else "z", "constant")
    server.objects["Namespace", "", "a"] = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}
    server.time = server.time.replace(year=server.time.year + 1)
    body: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "a"}}
    ref = {"apiVersion": "v1", "resource": "configmaps", "namespace": "a", "name": "c"}
    made = {**body, "metadata": {**body["metadata"], "uid": "u", "resourceVersion": "900"}}
    event = server.event("create", "/api/v1/namespaces/a/configmaps", ref, 201, body, made)
    event["user"] = {"username": "ann", "groups": ["system:authenticated"]}
    log, cluster = path / "log.jsonl", path / "cluster.jsonl"
    log.write_bytes(b"\n".join(map(orjson.dumps, server.events)))
    cluster.write_bytes(b"\n".join(map(orjson.dumps, server.objects.values())))
    return log, cluster


@pytest.mark.parametrize(
    ("current", "candidate", "verdicts"),
    [
        pytest.param(f"{CREATORS}---\n{READERS}", CREATORS, ("admitted", "denied"), id="a binding is taken away"),
        pytest.param(CREATORS, f"{CREATORS}---\n{READERS}", ("denied", "admitted"), id="a binding is given"),
        pytest.param(CREATORS, CREATORS, ("denied", "denied"), id="the same"),
    ],
)
def test_a_policy_asks_the_authorizers_of_its_set(
    tmp_path: Path, current: str, candidate: str, verdicts: tuple[str, str]
) -> None:
    log, cluster = logged(tmp_path)
    sets = manifest_set(tmp_path / "current", current), manifest_set(tmp_path / "candidate", candidate)
    outcomes = tmp_path / "outcomes.jsonl"
    asked = Scenario((str(log),), current=sets[0], candidate=sets[1], cluster=cluster)
    run(asked, Options(outcomes=outcomes, workers=1), lambda _stage, _done, _of: None)
    (line,) = map(orjson.loads, outcomes.read_bytes().splitlines())
    assert (line["current"]["verdict"], line["candidate"]["verdict"]) == verdicts

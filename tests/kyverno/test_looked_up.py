"""The kinds that policies read of a cluster, and what is said of those that nobody read."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from replay.cli.app import app
from replay.kube.attributes import Missing
from replay.kube.gvk import GroupVersionKind
from replay.kube.lister import ObjectLister
from replay.kyverno.looked_up import LookedUpLister, looked_up


def _call(path: str) -> dict[str, Any]:
    return {"spec": {"rules": [{"name": "r", "context": [{"name": "x", "apiCall": {"urlPath": path}}]}]}}


def _cel(expression: str) -> dict[str, Any]:
    return {"spec": {"variables": [{"name": "x", "expression": expression}]}}


_ROWS: list[tuple[str, dict[str, Any], set[tuple[str, str]]]] = [
    ("a list of a namespace", _call("/api/v1/namespaces/{{ request.namespace }}/services"), {("", "Service")}),
    ("an object", _call("/apis/apps/v1/namespaces/a/deployments/{{ request.name }}"), {("apps", "Deployment")}),
    ("a query", _call("/api/v1/pods?labelSelector={{ x }}"), {("", "Pod")}),
    ("a namespace", _call("/api/v1/namespaces/{{ request.namespace }}"), {("", "Namespace")}),
    ("a variable for the resource", _call("/api/v1/namespaces/a/{{ request.resource.resource }}"), set()),
    ("a variable for the group", _call("/apis/{{ request.kind.group }}/v1/deployments"), set()),
    ("no path of an API", _call("/healthz"), set()),
    ("a custom kind", _call("/apis/example.com/v1/widgets"), set()),
    (
        "an element of a foreach",
        {"spec": {"rules": [{"validate": {"foreach": [{"context": [{"apiCall": {"urlPath": "/api/v1/nodes"}}]}]}}]}},
        {("", "Node")},
    ),
    (
        "a global entry",
        {"spec": {"kubernetesResource": {"group": "apps", "version": "v1", "resource": "daemonsets"}}},
        {("apps", "DaemonSet")},
    ),
    ("CEL", _cel("resource.Get('v1', 'configmaps', 'a', 'b').data.x"), {("", "ConfigMap")}),
    ("CEL with other quotes", _cel('resource.List("apps/v1", "deployments", "").items'), {("apps", "Deployment")}),
    ("CEL over lines", _cel("resource.List(\n  'v1',\n  'pods', '')"), {("", "Pod")}),
    ("CEL of a variable", _cel("resource.List(object.apiVersion, 'pods', '')"), set()),
]


@pytest.mark.parametrize(("policy", "expected"), [row[1:] for row in _ROWS], ids=[row[0] for row in _ROWS])
def test_kinds(policy: dict[str, Any], expected: set[tuple[str, str]]) -> None:
    assert looked_up([policy]) == expected


def test_what_nobody_read_may_be_there() -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "namespace": "n"}}
    pods, services = (GroupVersionKind("", "v1", kind) for kind in ("Pod", "Service"))
    lister = LookedUpLister(ObjectLister([service]), frozenset({("", "Service")}))
    assert (lister.get(services, "n", "a"), lister.list(services, None)) == (service, [service])
    unread = Missing("Pod", "no policy names the kind Pod literally, so replay did not read its objects")
    assert (lister.get(pods, "n", "a"), lister.list(pods, None)) == (unread, unread)


_SHOP = Path(__file__).parents[2] / "sample_audit" / "shop"
_COUNTED = """\
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: count}
spec:
  rules:
  - name: services
    match: {any: [{resources: {kinds: [Deployment], operations: [CREATE]}}]}
    context:
    - name: services
      apiCall: {urlPath: "/api/v1/namespaces/{{ request.namespace }}/services", jmesPath: "items | length(@)"}
    validate:
      failureAction: Enforce
      message: no service
      deny: {conditions: {all: [{key: "{{ services }}", operator: LessThan, value: 1}]}}
"""


@pytest.mark.slow
def test_a_run_reads_what_a_context_counts(tmp_path: Path) -> None:
    """Nothing else of the set is about services: the deployments that come before the first one of their namespace are denied."""
    policy, outcomes = tmp_path / "policy.yaml", tmp_path / "outcomes.jsonl"
    policy.write_text(_COUNTED)
    log = [str(_SHOP / "audit.jsonl.zst"), "--cluster", str(_SHOP / "cluster.jsonl.zst")]
    CliRunner().invoke(app, ["run", *log, "--candidate", str(policy), "--outcomes", str(outcomes)])
    values = map(json.loads, outcomes.read_text("utf-8").splitlines())
    decided = Counter(
        (each["namespace"], each["candidate"]["verdict"])
        for each in values
        if each["resource"]["resource"] == "deployments" and each["operation"] == "CREATE"
    )
    assert decided == {
        ("prod-pay", "admitted"): 33,
        ("prod-pay", "denied"): 3,
        ("prod-pay", "undetermined"): 1,
        ("team-a", "admitted"): 22,
        ("team-a", "denied"): 5,
        ("team-a", "undetermined"): 1,
    }

"""Permissions that nobody uses: what a small log needed of a few bindings, and the roles and bindings without the rest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from replay.cellib.version import NEWEST
from replay.cli.app import app
from replay.compare.authorization import AuthorizationOutcome
from replay.errors import ReplayError
from replay.json import JSON
from replay.kube.rbac import rule_text
from replay.pipeline.options import Options
from replay.pipeline.run import run
from replay.pipeline.scenario import Scenario
from replay.pipeline.set_diff import compare_access
from tests.support.log_lines import event

SAMPLE = Path(__file__).parents[3] / "sample_audit"
ANN = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "ann"}
TEAM = {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "team"}
BOT = {"kind": "ServiceAccount", "namespace": "ci", "name": "bot"}


def rule(verbs: str, resources: str, group: str = "", **more: list[str]) -> JSON:
    return {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split(), **more}


def role(name: str, *rules: JSON, **metadata: Any) -> JSON:
    more = {"aggregationRule": metadata.pop("aggregationRule")} if "aggregationRule" in metadata else {}
    version = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
    return {**version, "metadata": {"name": name, **metadata}, "rules": list(rules), **more}


def binding(name: str, of: str, *subjects: JSON, namespace: str = "", **metadata: Any) -> JSON:
    kind = "RoleBinding" if namespace else "ClusterRoleBinding"
    place = {"namespace": namespace} if namespace else {}
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": of}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name, **place, **metadata},
        "roleRef": ref,
        "subjects": list(subjects),
    }


def asked(
    number: int, verb: str, uri: str, by: str, *groups: str, user: str = "ann", code: int = 200, **fields: Any
) -> bytes:
    """A request that RBAC allowed by a binding as the reason names it; one without `by` was allowed by somebody else."""
    reason = f"RBAC: allowed by {by}" if by else ""
    return event(
        number,
        verb=verb,
        requestURI=uri,
        user={"username": user, "groups": [*groups, "system:authenticated"]},
        objectRef={"resource": "pods", "namespace": "n", "name": "p", "apiVersion": "v1"},
        responseStatus={"code": code},
        annotations={"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": reason},
        **fields,
    )


PODS, POD = "/api/v1/namespaces/n/pods", "/api/v1/namespaces/n/pods/p"
BY_B = 'ClusterRoleBinding "b" of ClusterRole "r" to User "ann"'
BY_TEAM = 'ClusterRoleBinding "b" of ClusterRole "r" to Group "team"'
BY_N = 'RoleBinding "b/n" of ClusterRole "r" to User "ann"'
EDITOR = role("r", rule("get list create", "pods"))


def told(tmp_path: Path, objects: list[JSON], events: list[bytes], *more: str) -> str:
    log, cluster = tmp_path / "audit.jsonl", tmp_path / "cluster.jsonl"
    log.write_bytes(b"".join(line + b"\n" for line in events))
    cluster.write_text("".join(json.dumps(obj) + "\n" for obj in objects))
    arguments = ["report", str(log), "--unused", "--cluster", str(cluster), *more]
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "100"})
    if isinstance(result.exception, ReplayError):
        return str(result.exception).replace(str(tmp_path), "")
    assert result.exit_code == 0, result.output
    return result.stdout


def short(bindings: list[JSON]) -> list[tuple[str, str, int, list[str], list[str]]]:
    """Binding, subject, requests, and the rules that were needed and never needed."""
    return [
        (
            each["name"],
            subject["subject"]["name"],
            subject["requests"],
            list(map(rule_text, subject["needed"])),
            list(map(rule_text, subject["neverNeeded"])),
        )
        for each in bindings
        for subject in each["subjects"]
    ]


@pytest.mark.parametrize(
    ("objects", "events", "uses"),
    [
        pytest.param(
            [EDITOR, binding("b", "r", ANN, TEAM)],
            [asked(1, "get", POD, BY_B), asked(2, "get", f"{POD}2", BY_TEAM, "team", user="bob")],
            [
                ("b", "ann", 1, ["get: pods"], ["create, list: pods"]),
                ("b", "team", 1, ["get: pods"], ["create, list: pods"]),
            ],
            id="each subject for itself",
        ),
        pytest.param(
            [EDITOR, binding("b", "r", ANN)],
            [asked(1, "patch", POD, ""), asked(2, "get", POD, "")],
            "audit.jsonl: RBAC allowed no request of the period",
            id="another authorizer allowed it",
        ),
        pytest.param(
            [EDITOR, binding("b", "r", ANN), binding("b", "r", ANN, namespace="n")],
            [asked(1, "get", POD, BY_B)],
            [("b", "ann", 1, ["get: pods"], ["create, list: pods"]), ("b", "ann", 0, [], ["create, get, list: pods"])],
            id="bindings of the cluster come first",
        ),
        pytest.param(
            [role("r", rule("patch create get", "pods")), binding("b", "r", ANN, namespace="n")],
            [asked(1, "patch", POD, BY_N, code=201)],
            [("b", "ann", 1, ["create, patch: pods"], ["get: pods"])],
            id="an apply that makes an object",
        ),
        pytest.param(
            [role("r", rule("get create list", "pods/exec")), binding("b", "r", ANN)],
            [asked(1, "get", f"{POD}/exec", BY_B, code=101)],
            [("b", "ann", 1, ["create, get: pods/exec"], ["list: pods/exec"])],
            id="a stream",
        ),
        pytest.param(
            [role("r", rule("get", "pods", resourceNames=["p", "q"])), binding("b", "r", ANN)],
            [asked(1, "get", POD, BY_B)],
            [("b", "ann", 1, ["get: pods named p"], ["get: pods named q"])],
            id="names of objects",
        ),
        pytest.param(
            [role("r", rule("get bind", "clusterroles", "rbac.authorization.k8s.io")), binding("b", "r", ANN)],
            [asked(1, "get", "/apis/rbac.authorization.k8s.io/v1/clusterroles/x", BY_B)],
            [("b", "ann", 1, ["get: clusterroles.rbac.authorization.k8s.io"], [])],
            id="what no log can show",
        ),
        pytest.param(
            [EDITOR, binding("b", "r", BOT)],
            [
                asked(1, "get", POD, 'ClusterRoleBinding "b" of ClusterRole "r" to ServiceAccount "bot/ci"', user="system:serviceaccount:ci:bot")
            ],
            [("b", "system:serviceaccount:ci:bot", 1, ["get: pods"], ["create, list: pods"])],
            id="a service account",
        ),
        pytest.param(
            [
                EDITOR,
                binding("b", "r", ANN),
                binding("own", "r", ANN, labels={"kubernetes.io/bootstrapping": "rbac-defaults"}),
                binding("gone", "x", ANN),
            ],
            [asked(1, "get", POD, BY_B)],
            [("b", "ann", 1, ["get: pods"], ["create, list: pods"])],
            id="neither the server's own bindings nor those of no role",
        ),
        pytest.param(
            [EDITOR, binding("b", "r", ANN)],
            [event(1, verb="get", requestURI=POD, user={"username": "ann", "groups": []}, responseStatus={"code": 200})],
            [("b", "ann", 1, ["get: pods"], ["create, list: pods"])],
            id="a log without annotations",
        ),
        pytest.param([EDITOR], [asked(1, "get", POD, BY_B)], "--cluster: nothing is known of roles and bindings: give a snapshot of the cluster", id="no binding"),
    ],
)  # fmt: skip
def test_what_was_needed(tmp_path: Path, objects: list[JSON], events: list[bytes], uses: Any) -> None:
    output = told(tmp_path, objects, events, "--json")
    assert (short(json.loads(output)["bindings"]) if output.startswith("{") else output) == uses


@pytest.mark.parametrize(
    ("objects", "events", "changed"),
    [
        pytest.param(
            [EDITOR, binding("b", "r", ANN, TEAM, labels={"of": "us"}, uid="1")],
            [asked(1, "get", POD, BY_B)],
            [role("r", rule("get", "pods")), binding("b", "r", ANN, labels={"of": "us"})],
            id="a role with less, a binding with fewer",
        ),
        pytest.param(
            [role("r", rule("get", "pods")), binding("b", "r", ANN)],
            [asked(1, "get", POD, BY_B)],
            [],
            id="all was needed",
        ),
        pytest.param(
            [EDITOR, binding("b", "r", TEAM), binding("c", "r", ANN)],
            [asked(1, "get", POD, 'ClusterRoleBinding "c" of ClusterRole "r" to User "ann"')],
            [role("r", rule("get", "pods")), binding("b", "r")],
            id="a binding that nobody needs",
        ),
        pytest.param(
            [role("r", rule("*", "*", "*")), binding("b", "r", ANN)],
            [asked(1, "get", POD, BY_B), asked(2, "create", PODS, BY_B, code=201)],
            [role("r", rule("create get", "pods"))],
            id="a wildcard becomes what was asked for",
        ),
        pytest.param(
            [
                role("r", rule("get list", "pods"), labels={"kubernetes.io/bootstrapping": "rbac-defaults"}),
                binding("b", "r", ANN),
            ],
            [asked(1, "get", POD, BY_B)],
            [role("b-used", rule("get", "pods")), {**binding("b-used", "b-used", ANN)}, binding("b", "r")],
            id="a role of its own where the server's cannot be narrowed",
        ),
        pytest.param(
            [
                role("all", aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"in": "all"}}]}),
                role("r", rule("get list", "pods"), labels={"in": "all"}),
                binding("b", "r", ANN),
            ],
            [asked(1, "get", POD, BY_B)],
            [role("b-used", rule("get", "pods")), binding("b-used", "b-used", ANN), binding("b", "r")],
            id="and where other roles collect it",
        ),
    ],
)
def test_the_candidate(tmp_path: Path, objects: list[JSON], events: list[bytes], changed: list[JSON]) -> None:
    output = told(tmp_path, objects, events, "--format", "rbac")
    assert [each for each in yaml.safe_load_all(output) if each] == changed


WILDCARD = """\
Unused permissions  2026-01-01 00:00:01 UTC to 2026-01-01 00:00:02 UTC · audit.jsonl
Every permission was needed. 1 wildcard gives more than was asked for.

Confidence  low  the log covers less than a week
Log         1 s  2 requests that RBAC allowed
Bindings    1  without 0 of the server's own

Wildcards
  binding  subject   wildcard  asked for  what
  b        User ann  *: *.*            2  create, get: pods

Next steps
  replay report … --unused --format rbac > next.yaml  roles and bindings without the unused rules
  replay run … --apply next.yaml                      what that would have forbidden
  replay report … --unused --format json              every rule of every subject
"""
SCREEN = """\
Unused permissions  2026-01-01 00:00:01 UTC to 2026-01-01 00:00:03 UTC · audit.jsonl
6 of 9 permissions were never needed. 1 of 3 bound subjects made no request by the binding.

Confidence  low  the log covers less than a week
Log         2 s  3 requests that RBAC allowed
Bindings    2  without 0 of the server's own
Mismatch    1  requests were allowed by bindings that are not known: take a snapshot of that time

Bindings with unused permissions
  binding  role           subject     requests  needed  never  confidence
  n/c      ClusterRole r  User ann           0       0      3  low
  b        ClusterRole r  Group team         1       1      2  low
  b        ClusterRole r  User ann           2       2      1  low

Rules that were never needed
  binding  subject     never needed
  b        Group team  create, list: pods
  b        User ann    create: pods

Allowed by bindings that are not known
  allowed by                                             requests
  ClusterRoleBinding "x" of ClusterRole "y" to User "z"         1

Next steps
  replay report … --unused --format rbac > next.yaml  roles and bindings without the unused rules
  replay run … --apply next.yaml                      what that would have forbidden
  replay report … --unused --format json              every rule of every subject
"""


def test_the_screen(tmp_path: Path) -> None:
    objects = [EDITOR, binding("b", "r", ANN, TEAM), binding("c", "r", ANN, namespace="n")]
    events = [
        asked(1, "get", POD, BY_B),
        asked(2, "list", PODS, BY_B),
        asked(3, "get", POD, 'ClusterRoleBinding "x" of ClusterRole "y" to User "z"', "team", user="bob"),
    ]
    assert told(tmp_path, objects, events) == SCREEN


def test_a_wildcard_that_was_needed(tmp_path: Path) -> None:
    objects = [role("r", rule("*", "*", "*")), binding("b", "r", ANN)]
    assert told(tmp_path, objects, [asked(1, "get", POD, BY_B), asked(2, "create", PODS, BY_B)]) == WILDCARD


def test_files(tmp_path: Path) -> None:
    out = tmp_path / "out"
    events = [asked(1, "get", POD, BY_B)]
    told(tmp_path, [EDITOR, binding("b", "r", ANN)], events, "--out", str(out))
    assert sorted(file.name for file in out.iterdir()) == ["rbac.yaml", "unused.html", "unused.json", "unused.md"]
    assert (out / "rbac.yaml").read_text() == told(
        tmp_path, [EDITOR, binding("b", "r", ANN)], events, "--format", "rbac"
    )


@pytest.mark.parametrize("name", ["authorization", "shop"])
def test_without_the_rest_nothing_needed_is_forbidden_and_nothing_is_new(tmp_path: Path, name: str) -> None:
    sample = SAMPLE / name
    log, cluster = str(sample / "audit.jsonl.zst"), sample / "cluster.jsonl.zst"
    result = CliRunner().invoke(app, ["report", log, "--unused", "--cluster", str(cluster), "--format", "rbac"])
    (tmp_path / "next.yaml").write_text(result.stdout)
    scenario = Scenario((log,), current=sample / "current", cluster=cluster, apply=(tmp_path / "next.yaml",))
    summary = run(scenario, Options(workers=1), lambda *_: None).authorization
    assert summary is not None
    refused = (AuthorizationOutcome.NEWLY_FORBIDDEN, AuthorizationOutcome.NEWLY_FAILING)
    assert [summary.outcomes[outcome] for outcome in refused] == [0, 0]
    assert compare_access(sample / "current", tmp_path / "next.yaml", cluster, NEWEST).is_empty

"""`replay promote`: the whole answer about one policy that audits or warns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from replay.cli.app import app
from replay.errors import ReplayError
from replay.json import JSON
from tests.support.log_lines import event

POLICY = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: team-label%s}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  validations: [{expression: "'team' in object.metadata.?labels.orValue({})", message: a team is required}]
"""
BINDING = """\
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %s}
spec: {policyName: %s, validationActions: [%s]%s}
"""
STATIC = ".static.k8s.io"
EVERYWHERE = ", matchResources: {namespaceSelector: {}}"
AUDITED = "validation.policy.admission.k8s.io/validation_failure"
CONTROLLER = "system:serviceaccount:kube-system:job-controller"
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n", "labels": {"team": "blue"}}}


def pod(number: int, policy: str, *, user: str = "alice", team: str = "", code: int = 201) -> bytes:
    labels: JSON = {"labels": {"team": team}} if team else {}
    value = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p{number}", "namespace": "n", **labels}}
    failure = {
        "message": "a team is required",
        "policy": policy,
        "binding": "audits",
        "expressionIndex": 0,
        "validationActions": ["Audit"],
    }
    more = {} if team else {"annotations": {AUDITED: json.dumps([failure])}}
    return event(
        number,
        user={"username": user, "groups": ["system:authenticated"]},
        requestObject=value,
        responseObject=value,
        responseStatus={"code": code},
        **more,
    )


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are named as seen from where the command runs."""
    monkeypatch.chdir(tmp_path)


def promoted(manifests: str, events: list[bytes], *more: str, name: str = "team") -> tuple[int, str]:
    directory = Path("now") / ("vap" if STATIC in manifests else "api")
    directory.mkdir(parents=True)
    Path("audit.jsonl").write_bytes(b"".join(line + b"\n" for line in events))
    Path("cluster.jsonl").write_text(json.dumps(NAMESPACE) + "\n")
    (directory / "policy.yaml").write_text(manifests)
    sets = ["--current", "now", "--cluster", "cluster.jsonl", "--workers", "1"]
    arguments = ["promote", name, "audit.jsonl", *sets, *more]
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "100"})
    if isinstance(result.exception, ReplayError):
        return 2, str(result.exception)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout


API = POLICY % "" + BINDING % ("audits", "team-label", "Audit", "") + BINDING % ("warns", "team-label", "Warn", "")
SCREEN = """\
From audit to deny  team-label · audit.jsonl
3 of the requests that are admitted today would be denied directly.

Today               Audit, Warn  by 2 bindings; now/api/policy.yaml:1
In the log          3 audited failures  2 users, 1 namespace, 2026-01-01 00:00 to 2026-01-01 00:00;
                    1 of them failed anyway
Selected            4 requests  by its rules, of 4 in 3 s
Lockouts            1 request  system:serviceaccount:kube-system:job-controller (1)
Owners              1  blue (3)
Nothing new since   2026-01-01 00:00:04 UTC  0 s before the log ends; the last denial is of
                    2026-01-01 00:00:04 UTC
Match with the log  100 %  reproduced: 3/3 audited failures
Confidence          low  the log covers less than a week

Who would be denied
  workload  owner  users                                             direct  last, UTC
  n Pod/p2  blue   alice                                                  1  2026-01-01 00:00
  n Pod/p3  blue   system:serviceaccount:kube-system:job-controller       1  2026-01-01 00:00
  n Pod/p4  blue   alice                                                  1  2026-01-01 00:00

Messages
  message             requests
  a team is required         3

The change
  kubectl patch validatingadmissionpolicybinding audits --type=merge \\
    -p '{"spec":{"validationActions":["Deny"]}}'
  kubectl patch validatingadmissionpolicybinding warns --type=merge \\
    -p '{"spec":{"validationActions":["Deny"]}}'

Next steps
  replay promote team-label … --full  every workload and message
  replay explain id-2 …               why the first of them would be denied
"""
READY = """\
From audit to deny  team-label.static.k8s.io · audit.jsonl
Nothing that is admitted today would be denied.

Today               Audit  by 1 binding; now/vap/policy.yaml:1
In the log          nothing  no failure of it is recorded
Selected            1 request  by its rules, of 1 in 0 s
Lockouts            none  no control plane, node or controller is denied
Nothing new since   the log begins  2026-01-01 00:00:01 UTC
Match with the log  not checkable  the log records no decision of the baseline's policies
Confidence          low  the log covers less than a week

The change
  # now/vap/policy.yaml:9
  spec: {validationActions: [Deny]}

Next steps
  replay promote team-label.static.k8s.io … --full  every workload and message
"""


@pytest.mark.parametrize(
    ("manifests", "events", "code", "shown"),
    [
        pytest.param(
            API,
            [
                pod(1, "team-label", team="a"),
                pod(2, "team-label"),
                pod(3, "team-label", user=CONTROLLER),
                pod(4, "team-label", code=409),
            ],
            1,
            SCREEN,
            id="an object of the API that would lock out a controller",
        ),
        pytest.param(
            POLICY % STATIC + BINDING % (f"b{STATIC}", f"team-label{STATIC}", "Audit", EVERYWHERE),
            [pod(1, f"team-label{STATIC}", team="a")],
            0,
            READY,
            id="a static manifest that can deny",
        ),
    ],
)
def test_the_screen(manifests: str, events: list[bytes], code: int, shown: str) -> None:
    assert promoted(manifests, events) == (code, shown)


def test_json() -> None:
    code, output = promoted(API, [pod(1, "team-label"), pod(2, "team-label", team="a")], "--json")
    value: Any = json.loads(output)
    assert (code, value) == (
        1,
        {
            "policy": "team-label",
            "log": ["audit.jsonl"],
            "from": "2026-01-01T00:00:01.000001Z",
            "to": "2026-01-01T00:00:02.500000Z",
            "ready": False,
            "recorded": {
                "requests": 1,
                "failed": 0,
                "users": 1,
                "namespaces": 1,
                "first": "2026-01-01T00:00:01.500000Z",
                "last": "2026-01-01T00:00:01.500000Z",
            },
            "selected": 2,
            "direct": 1,
            "consequences": 0,
            "undetermined": 0,
            "lockouts": {},
            "newest": "2026-01-01T00:00:01.500000Z",
            "confidence": "low",
            "because": "the log covers less than a week",
            "workloads": [
                {
                    "workload": "n Pod/p1",
                    "owners": ["blue"],
                    "users": ["alice"],
                    "direct": 1,
                    "consequences": 0,
                    "first": "2026-01-01T00:00:01.500000Z",
                    "last": "2026-01-01T00:00:01.500000Z",
                }
            ],
            "messages": {"a team is required": 1},
            "gaps": [],
            "bindings": [
                {
                    "name": "audits",
                    "static": False,
                    "validationActions": ["Audit"],
                    "file": "now/api/policy.yaml",
                    "line": 9,
                    "patch": {"spec": {"validationActions": ["Deny"]}},
                },
                {
                    "name": "warns",
                    "static": False,
                    "validationActions": ["Warn"],
                    "file": "now/api/policy.yaml",
                    "line": 14,
                    "patch": {"spec": {"validationActions": ["Deny"]}},
                },
            ],
            "notes": [],
        },
    )


def test_a_policy_of_the_snapshot() -> None:
    """Without a set, what the snapshot holds is in force."""
    told = promoted(API, [pod(1, "team-label"), pod(2, "team-label", team="a")], "--json")
    objects = [NAMESPACE, *yaml.safe_load_all(API)]
    Path("cluster.jsonl").write_text("".join(json.dumps(each) + "\n" for each in objects))
    result = CliRunner().invoke(app, ["promote", "team", "audit.jsonl", "--cluster", "cluster.jsonl", "--json"])
    expected = json.loads(told[1])
    expected["bindings"] = [{**each, "file": None, "line": None} for each in expected["bindings"]]
    assert (result.exit_code, json.loads(result.stdout)) == (1, expected)


TEMPLATE = """\
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: teams}
spec:
  crd: {spec: {names: {kind: Teams}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package teams
      violation[{"msg": "a team is required"}] { not input.review.object.metadata.labels.team }
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: Teams
metadata: {name: every-pod}
spec: {%s, match: {kinds: [{apiGroups: [""], kinds: [Pod]}]}}
"""
SCOPED = "enforcementAction: scoped, scopedEnforcementActions: [{action: warn, enforcementPoints: [{name: validation.gatekeeper.sh}]}]"
CLUSTER_POLICY = """\
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: teams}
spec:
  rules:
  - name: every-pod
    match: {any: [{resources: {kinds: [Pod]}}]}
    validate: {%smessage: a team is required, pattern: {metadata: {labels: {team: "?*"}}}}
"""
VALIDATING_POLICY = """\
apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: teams}
spec:
  validationActions: [Audit]
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  validations: [{expression: "'team' in object.metadata.?labels.orValue({})", message: a team is required}]
"""
ACTION = "/spec/rules/0/validate/failureAction"
ENGINES = {
    "a constraint that warns": (
        TEMPLATE % "enforcementAction: warn",
        ("every-pod", "Teams/every-pod", ["warn"], {"spec": {"enforcementAction": "deny"}}),
    ),
    "a constraint that is tried out": (
        TEMPLATE % "enforcementAction: dryrun",
        ("every-pod", "Teams/every-pod", ["dryrun"], {"spec": {"enforcementAction": "deny"}}),
    ),
    "a constraint with an action for the webhook": (
        TEMPLATE % SCOPED,
        (
            "every-pod",
            "Teams/every-pod",
            ["warn"],
            [{"op": "replace", "path": "/spec/scopedEnforcementActions/0/action", "value": "deny"}],
        ),
    ),
    "a rule that audits": (
        CLUSTER_POLICY % "failureAction: Audit, ",
        ("teams", "ClusterPolicy/teams", ["Audit"], [{"op": "replace", "path": ACTION, "value": "Enforce"}]),
    ),
    "a rule that says nothing": (
        CLUSTER_POLICY % "",
        ("teams", "ClusterPolicy/teams", ["Audit"], [{"op": "add", "path": ACTION, "value": "Enforce"}]),
    ),
    "a ValidatingPolicy": (
        VALIDATING_POLICY,
        ("teams", "ValidatingPolicy/teams", ["Audit"], {"spec": {"validationActions": ["Deny"]}}),
    ),
}


@pytest.mark.parametrize("name", ENGINES)
def test_policies_of_engines(name: str) -> None:
    manifests, (binding, policy, actions, patch) = ENGINES[name]
    events = [pod(1, ""), pod(2, "", team="a"), pod(3, "")]
    code, shown = promoted(manifests, events, "--json", name=policy)
    told = json.loads(shown)
    assert (code, told["policy"], told["direct"], told["selected"], told["undetermined"]) == (1, policy, 2, 3, 0)
    assert [(each["name"], each["validationActions"], each["patch"]) for each in told["bindings"]] == [
        (binding, actions, patch)
    ]
    assert sum(told["messages"].values()) == 2


@pytest.mark.parametrize(
    ("manifests", "name", "message"),
    [
        pytest.param(
            TEMPLATE % "enforcementAction: deny",
            "every-pod",
            "POLICY: `Teams/every-pod` denies already: `replay lookup` shows whom",
            id="a constraint that denies already",
        ),
        pytest.param(
            TEMPLATE % SCOPED.replace("validation.gatekeeper.sh", "audit.gatekeeper.sh"),
            "every-pod",
            "POLICY: `Teams/every-pod` does not act at admission: no entry of its scopedEnforcementActions names the webhook",
            id="a constraint for audits alone",
        ),
        pytest.param(
            VALIDATING_POLICY.replace("  validationActions: [Audit]\n", ""),
            "teams",
            "POLICY: `ValidatingPolicy/teams` denies already: `replay lookup` shows whom",
            id="a ValidatingPolicy denies unless it says otherwise",
        ),
        pytest.param(
            CLUSTER_POLICY.replace("validate", "mutate").replace(
                "message: a team is required, pattern", "patchStrategicMerge"
            )
            % "",
            "teams",
            "POLICY: `ClusterPolicy/teams` never denies: it changes or makes objects",
            id="a rule that mutates",
        ),
        pytest.param(
            POLICY % "" + BINDING % ("b", "team-label", "Deny", ""),
            "team-label",
            "POLICY: `team-label` denies already: `replay lookup` shows whom",
            id="denies already",
        ),
        pytest.param(
            POLICY % "",
            "team-label",
            "POLICY: no binding of the baseline refers to `team-label`: it does nothing today",
            id="no binding",
        ),
        pytest.param(
            API,
            "temlabel",
            "POLICY: the sets have no policy `temlabel`; did you mean `team-label`?",
            id="no such policy",
        ),
    ],
)
def test_what_cannot_be_promoted(manifests: str, name: str, message: str) -> None:
    assert promoted(manifests, [pod(1, "team-label")], name=name) == (2, message)


@pytest.mark.parametrize("name", ["cand-team-label", "cand-memory-limits", "cand-image-tags"])
def test_a_screen_has_at_most_40_lines_of_100_columns(short_sample: Path, name: str) -> None:
    result = CliRunner().invoke(app, ["promote", name, str(short_sample)], env={"COLUMNS": "100"})
    lines = result.stdout.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 100

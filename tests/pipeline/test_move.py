"""A move between the API and static manifests: nothing is decided otherwise but what nobody decided before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from replay.pipeline.options import Options
from replay.pipeline.run import run
from replay.pipeline.scenario import Scenario
from replay.report.run.json import summary_json
from tests.support.log_lines import event

GROUP = "admissionregistration.k8s.io/v1"
RULES = 'resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]'
POLICY = """\
apiVersion: {group}
kind: ValidatingAdmissionPolicy
metadata: {{name: p{suffix}}}
spec:
  matchConstraints: {{{rules}}}
  validations: [{{expression: "object.metadata.name != 'bad'", message: "{message}"}}]
  auditAnnotations: [{{key: seen, valueExpression: "'yes'"}}]
---
apiVersion: {group}
kind: ValidatingAdmissionPolicyBinding
metadata: {{name: b{suffix}}}
spec: {{policyName: p{suffix}, validationActions: {actions}}}
"""
WEBHOOK = """\
apiVersion: {group}
kind: ValidatingWebhookConfiguration
metadata: {{name: c{suffix}}}
webhooks:
- name: a.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
  clientConfig: {client}
  rules: [{{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}}]
"""
SERVICE, URL = "{service: {namespace: hooks, name: s}}", '{url: "https://10.0.0.1/"}'


def silent(_what: str, _done: int, _total: int) -> None:
    """No progress shown."""


def policy(suffix: str = "", message: str = "no", actions: str = "[Deny]") -> str:
    return POLICY.format(group=GROUP, suffix=suffix, rules=RULES, message=message, actions=actions)


def webhook(suffix: str, client: str) -> str:
    return WEBHOOK.format(group=GROUP, suffix=suffix, client=client)


def pod(number: int, name: str) -> bytes:
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "n"}, "spec": {}}
    return event(number, requestObject=body, responseObject=body)


STATIC = ".static.k8s.io"
ROWS: list[tuple[str, tuple[str, str], tuple[str, str], dict[str, int], list[str]]] = [
    (
        "a policy with its binding",
        ("api", policy()),
        ("vap", policy(STATIC)),
        {},
        [
            f"~ ValidatingAdmissionPolicy/p moved to p{STATIC}",
            f"~ ValidatingAdmissionPolicyBinding/b moved to b{STATIC}",
        ],
    ),
    (
        "the way back",
        ("vap", policy(STATIC)),
        ("api", policy()),
        {},
        [
            f"~ ValidatingAdmissionPolicy/p{STATIC} moved to p",
            f"~ ValidatingAdmissionPolicyBinding/b{STATIC} moved to b",
        ],
    ),
    (
        "warnings and audit annotations",
        ("api", policy(actions="[Warn, Audit]")),
        ("vap", policy(STATIC, actions="[Warn, Audit]")),
        {},
        [
            f"~ ValidatingAdmissionPolicy/p moved to p{STATIC}",
            f"~ ValidatingAdmissionPolicyBinding/b moved to b{STATIC}",
        ],
    ),
    (
        "a move that changes something",
        ("api", policy(actions="[Warn]")),
        ("vap", policy(STATIC)),
        {"newly_denied": 1},
        [
            f"~ ValidatingAdmissionPolicy/p moved to p{STATIC}",
            f"~ ValidatingAdmissionPolicyBinding/b moved to b{STATIC}",
            "    validationActions changed: Warn -> Deny",
        ],
    ),
    (
        "a webhook that has a URL now",
        ("api", webhook("", SERVICE)),
        ("vwc", webhook(STATIC, URL)),
        {},
        [
            f"~ ValidatingWebhookConfiguration/c moved to c{STATIC}",
            "    webhooks[a.example.com].clientConfig.url: https://10.0.0.1/",
            "    webhooks[a.example.com].clientConfig.service removed: hooks: s: 443",
        ],
    ),
]


@pytest.mark.parametrize(
    ("before", "after", "roots", "changes"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_what_moved_decides_as_before(
    before: tuple[str, str], after: tuple[str, str], roots: dict[str, int], changes: list[str], tmp_path: Path
) -> None:
    for side, (directory, manifests) in (("current", before), ("candidate", after)):
        (tmp_path / side / directory).mkdir(parents=True)
        (tmp_path / side / directory / "m.yaml").write_text(manifests)
    (tmp_path / "audit.jsonl").write_bytes(b"\n".join([pod(1, "good"), pod(2, "bad")]))
    scenario = Scenario(
        (str(tmp_path / "audit.jsonl"),), current=tmp_path / "current", candidate=tmp_path / "candidate"
    )
    result = run(scenario, Options(workers=1), silent)
    answer: dict[str, Any] = json.loads(summary_json(result))
    assert (answer["roots"], answer["webhooks"]["calls"], list(result.changes)) == (roots, [], changes)


def test_a_static_webhook_is_asked_about_policies(tmp_path: Path) -> None:
    for side, directory, manifests in (
        ("current", "api", webhook("", SERVICE)),
        ("candidate", "vwc", webhook(STATIC, URL)),
    ):
        (tmp_path / side / directory).mkdir(parents=True)
        everything = manifests.replace('apiGroups: [""]', 'apiGroups: ["*"]').replace("[pods]", '["*"]')
        (tmp_path / side / directory / "m.yaml").write_text(everything)
    about = {"resource": "validatingadmissionpolicies", "apiGroup": GROUP.partition("/")[0], "apiVersion": "v1"}
    (tmp_path / "audit.jsonl").write_bytes(b"\n".join([pod(1, "good"), event(2, objectRef={**about, "name": "x"})]))
    scenario = Scenario(
        (str(tmp_path / "audit.jsonl"),), current=tmp_path / "current", candidate=tmp_path / "candidate"
    )
    notes = run(scenario, Options(workers=1), silent).notes
    assert [note for note in notes if note.startswith("`a.example.com` is static in the candidate")] == [
        (
            "`a.example.com` is static in the candidate, so the server also calls it for policies and webhook configurations: "
            "1 of the log's requests, and its answer is not known"
        )
    ]


def stored(number: int, resource: str, document: str, verb: str = "create") -> bytes:
    """A write to an object of the API that the log shows."""
    value, status = yaml.safe_load(document), {"code": 201 if verb == "create" else 200}
    about = {
        "resource": resource,
        "apiGroup": GROUP.partition("/")[0],
        "apiVersion": "v1",
        "name": value["metadata"]["name"],
    }
    return event(number, verb=verb, objectRef=about, requestObject=value, responseObject=value, responseStatus=status)


def test_what_passed_while_the_policy_was_not_there(tmp_path: Path) -> None:
    own, bound = policy().split("---\n")
    for side, directory, manifests in (("current", "api", policy()), ("candidate", "vap", policy(STATIC))):
        (tmp_path / side / directory).mkdir(parents=True)
        (tmp_path / side / directory / "m.yaml").write_text(manifests)
    refused = {
        "responseStatus": {
            "code": 422,
            "reason": "Invalid",
            "message": "pods \"bad\" is invalid: : ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no",
        }
    }
    lines = [
        pod(1, "bad"),
        stored(2, "validatingadmissionpolicies", own),
        stored(3, "validatingadmissionpolicybindings", bound),
        event(20, requestObject=json.loads(pod(20, "bad"))["requestObject"], **refused),
        pod(21, "good"),
        stored(40, "validatingadmissionpolicies", own, "delete"),
        pod(55, "bad"),
    ]
    (tmp_path / "audit.jsonl").write_bytes(b"\n".join(lines))
    scenario = Scenario(
        (str(tmp_path / "audit.jsonl"),), current=tmp_path / "current", candidate=tmp_path / "candidate"
    )
    answer = json.loads(summary_json(run(scenario, Options(workers=1), silent)))
    assert (answer["roots"], answer["bootstrapGap"]) == (
        {"newly_denied": 2},
        [{"policy": f"p{STATIC}", "requests": 2, "examples": ["id-1", "id-55"]}],
    )

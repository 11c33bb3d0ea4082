"""An upgrade: the same sets on servers of two minors, and who uses API versions that it takes away."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from replay.cellib.version import KubernetesVersion, Versions
from replay.cli.options import Rehearsal
from replay.compare.result import Service, service_of
from replay.kube.gvk import GroupVersionResource
from replay.pipeline.options import Options
from replay.pipeline.output import exit_code
from replay.pipeline.run import run
from replay.pipeline.scenario import Scenario
from replay.report.run.api_versions import removed_verdict
from replay.report.run.json import summary_json
from tests.support.log_lines import event

OLD, NEW = KubernetesVersion(1, 36), KubernetesVersion(1, 37)
VALIDATING = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: p}}
spec:
  matchConstraints: {{resourceRules: [{{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}}]}}
  validations: [{{expression: '{}'}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {{name: p}}
spec: {{policyName: p, validationActions: [Deny]}}
"""
MUTATING = """\
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {{name: p}}
spec:
  reinvocationPolicy: Never
  matchConstraints: {{resourceRules: [{{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}}]}}
  mutations: [{{patchType: JSONPatch, jsonPatch: {{expression: '{}'}}}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {{name: p}}
spec: {{policyName: p}}
"""


def silent(_what: str, _done: int, _total: int) -> None:
    """No progress shown."""


def pod(number: int, **labels: str) -> bytes:
    about = {"name": f"p{number}", "namespace": "n", "labels": labels}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    return event(number, requestObject=body, responseObject=body)


def namespace() -> bytes:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n", "labels": {"team": "a"}}}
    about = {"resource": "namespaces", "name": "n", "apiVersion": "v1"}
    return event(0, objectRef=about, requestObject=body, responseObject=body)


def scenario_at(tmp_path: Path, policies: str, lines: list[bytes], versions: Versions) -> Scenario:
    """One set on two servers, and a log."""
    (tmp_path / "set" / "api").mkdir(parents=True)
    (tmp_path / "set" / "api" / "p.yaml").write_text(policies)
    (tmp_path / "audit.jsonl").write_bytes(b"\n".join(lines))
    return Scenario(
        (str(tmp_path / "audit.jsonl"),),
        current=tmp_path / "set",
        version=versions.current,
        candidate_version=versions.candidate,
    )


def summary(tmp_path: Path, policies: str, lines: list[bytes], versions: Versions, **options: Any) -> dict[str, Any]:
    scenario = scenario_at(tmp_path, policies, lines, versions)
    answer: dict[str, Any] = json.loads(summary_json(run(scenario, Options(workers=1, **options), silent)))
    return answer


LABELS = "object.metadata.labels"
FLIPS = [
    (
        "what 1.37 no longer takes",
        VALIDATING,
        f"has({LABELS}) && {LABELS}.orValue({{}}).size() > 0",
        {"newly_denied": 1},
    ),
    (
        "the same on the way back",
        VALIDATING,
        f"has({LABELS}) && {LABELS}.orValue({{}}).size() > 0",
        {"newly_admitted": 1},
    ),
    ("an expression that both take", VALIDATING, f"has({LABELS}) && {LABELS}.size() > 0", {}),
    (
        "a patch that 1.37 no longer takes",
        MUTATING,
        '[JSONPatch{op: "add", path: "/metadata/annotations", value: namespaceObject.metadata.labels}]',
        {"newly_denied": 1},
    ),
]


@pytest.mark.parametrize(("policy", "expression", "roots"), [row[1:] for row in FLIPS], ids=[row[0] for row in FLIPS])
def test_the_same_set_on_two_minors(
    policy: str, expression: str, roots: dict[str, int], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    versions = Versions(NEW, OLD) if "on the way back" in request.node.name else Versions(OLD, NEW)
    answer = summary(tmp_path, policy.format(expression), [namespace(), pod(1, a="b")], versions)
    assert (answer["roots"], answer["versions"]) == (
        roots,
        {"current": str(versions[0]), "candidate": str(versions[1])},
    )


def test_a_kept_store_answers_for_its_minors_alone(tmp_path: Path) -> None:
    policy = VALIDATING.format(f"{LABELS}.orValue({{}}).size() > 0")
    summary(tmp_path, policy, [pod(1, a="b")], Versions(OLD, NEW))
    asked = [(OLD, None), (OLD, NEW), (NEW, None), (NEW, OLD), (OLD, NEW)]
    denied = []
    for version, candidate_version in asked:
        scenario = Scenario(
            (str(tmp_path / "audit.jsonl"),),
            store=tmp_path / "store",
            current=tmp_path / "set",
            candidate=None if candidate_version else tmp_path / "set",
            version=version,
            candidate_version=candidate_version,
        )
        denied.append(json.loads(summary_json(run(scenario, Options(workers=1), silent)))["roots"])
    assert denied == [{}, {"newly_denied": 1}, {}, {"newly_admitted": 1}, {"newly_denied": 1}]


def asked_for(number: int, api_version: str, resource: str, user: str, code: int = 200, **annotations: str) -> bytes:
    group, _, version = api_version.rpartition("/")
    return event(
        number,
        verb="list",
        user={"username": user},
        userAgent="client/v1 (linux)",
        objectRef={"resource": resource, "apiGroup": group, "apiVersion": version},
        annotations={f"k8s.io/{name.replace('_', '-')}": text for name, text in annotations.items()},
        responseStatus={"code": code},
    )


def test_who_uses_versions_that_go(tmp_path: Path) -> None:
    lines = [
        pod(1, a="b"),
        asked_for(2, "networking.k8s.io/v1beta1", "servicecidrs", "ci", deprecated="true", removed_release="1.37"),
        asked_for(3, "networking.k8s.io/v1beta1", "servicecidrs", "ci"),  # a log without annotations
        asked_for(4, "v1", "endpoints", "old", deprecated="true"),
        asked_for(5, "policy/v1beta1", "poddisruptionbudgets", "older"),
        asked_for(6, "example.com/v1alpha1", "widgets", "custom", deprecated="true", removed_release="1.40"),
        asked_for(7, "networking.k8s.io/v1", "servicecidrs", "new"),
    ]
    answer = summary(tmp_path, VALIDATING.format("true"), lines, Versions(OLD, NEW))
    shown = [
        (use["user"], use["service"], use.get("removedIn", ""), use.get("replacement", ""), use["requests"])
        for use in answer["apiVersions"]
    ]
    assert shown == [
        ("ci", "removed", "1.37", "networking.k8s.io/v1", 2),
        ("older", "gone", "1.25", "policy/v1", 1),
        ("old", "deprecated", "", "", 1),
        ("custom", "deprecated", "1.40", "", 1),
    ]


@pytest.mark.parametrize(
    ("code", "versions", "expected"),
    [
        pytest.param(
            200,
            Versions(OLD, NEW),
            (1, "2 requests use API versions that Kubernetes 1.37 does not serve."),
            id="what succeeded is gone after the upgrade",
        ),
        pytest.param(404, Versions(OLD, NEW), (0, ""), id="what failed before fails again"),
    ],
)
def test_a_version_that_goes_makes_the_exit_code_1(
    code: int, versions: Versions, expected: tuple[int, str], tmp_path: Path
) -> None:
    lines = [pod(1, a="b"), *(asked_for(n, "networking.k8s.io/v1beta1", "servicecidrs", "ci", code) for n in (2, 3))]
    result = run(scenario_at(tmp_path, VALIDATING.format("true"), lines, versions), Options(workers=1), silent)
    assert (exit_code(result), removed_verdict(result)) == expected


SERVICES = [
    ("storage.k8s.io/v1beta1/volumeattributesclasses", "", (35, 37), (Service.REMOVED, 37)),
    ("storage.k8s.io/v1beta1/volumeattributesclasses", "", (35, 36), (Service.DEPRECATED, 37)),
    ("flowcontrol.apiserver.k8s.io/v1beta3/flowschemas", "", (31, 32), (Service.REMOVED, 32)),
    ("flowcontrol.apiserver.k8s.io/v1beta3/flowschemas", "1.32", (33, 34), (Service.GONE, 32)),
    ("example.com/v1/widgets", "1.37", (36, 37), (Service.REMOVED, 37)),
    ("example.com/v1/widgets", "", (36, 37), (Service.DEPRECATED, 0)),
    ("example.com/v1/widgets", "soon", (36, 37), (Service.DEPRECATED, 0)),
]


@pytest.mark.parametrize(("name", "release", "minors", "expected"), SERVICES)
def test_what_becomes_of_a_version(
    name: str, release: str, minors: tuple[int, int], expected: tuple[Service, int]
) -> None:
    versions = Versions(*(KubernetesVersion(1, minor) for minor in minors))
    assert service_of(GroupVersionResource(*name.split("/")), release, versions)[:2] == expected


def test_what_is_stored_is_not_validated_again(tmp_path: Path) -> None:
    """Half of a surrogate pair is a character until 1.32: a policy with one is there after the upgrade, and fails."""
    policy = VALIDATING.format('object.kind != "\\ud800"')
    answer = summary(tmp_path, policy, [pod(1)], Versions(KubernetesVersion(1, 32), KubernetesVersion(1, 34)))
    assert answer["roots"] == {"newly_denied": 1}


def test_webhooks_that_are_asked_about_less(tmp_path: Path) -> None:
    webhook = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: c}
webhooks:
- name: all.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  clientConfig: {url: "https://localhost:1/"}
  rules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*"]}]
"""
    review = event(2, objectRef={"resource": "tokenreviews", "apiGroup": "authentication.k8s.io", "apiVersion": "v1"})
    answer = summary(tmp_path, webhook, [pod(1), review], Versions(OLD, NEW))
    assert answer["roots"] == {}


def test_an_upgrade_is_not_about_the_candidate_of_a_directory(tmp_path: Path) -> None:
    for name in ("current", "candidate"):
        (tmp_path / name).mkdir()
    (tmp_path / "audit.jsonl").touch()
    scenario = Rehearsal([str(tmp_path)], current_version="1.36", candidate_version="1.37").scenario()
    assert (scenario.candidate, scenario.candidate_paths, scenario.versions) == (
        None,
        (tmp_path / "current",),
        Versions(OLD, NEW),
    )

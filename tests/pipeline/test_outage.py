"""An outage: what webhooks that are down refuse, what passes them, and whether they can come back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from replay.cellib.version import KubernetesVersion
from replay.errors import ReplayError
from replay.pipeline.options import Options
from replay.pipeline.run import run
from replay.pipeline.scenario import Scenario
from replay.report.run.json import summary_json
from tests.support.log_lines import event

HEAD = """\
apiVersion: admissionregistration.k8s.io/v1
kind: {kind}WebhookConfiguration
metadata: {{name: c}}
webhooks:
"""
WEBHOOK = """\
- name: {name}
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: {policy}
  timeoutSeconds: 7
  clientConfig: {{service: {{namespace: hooks, name: hook, path: /ask}}}}
  rules: [{{apiGroups: ["*"], apiVersions: ["*"], operations: {operations}, resources: {resources}}}]
"""
WORDS = (
    'Internal error occurred: failed calling webhook "a.example.com": failed to call webhook: '
    'Post "https://hook.hooks.svc:443/ask?timeout=7s": context deadline exceeded'
)


def silent(_what: str, _done: int, _total: int) -> None:
    """No progress shown."""


def webhook(
    name: str = "a.example.com", policy: str = "Fail", resources: str = "[pods]", operations: str = "[CREATE]"
) -> str:
    return WEBHOOK.format(name=name, policy=policy, resources=resources, operations=operations)


def pod(number: int, **fields: Any) -> bytes:
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p{number}", "namespace": "n"}, "spec": {}}
    return event(number, requestObject=body, responseObject=body, **fields)


def namespace(name: str, **labels: str) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})


def answer(
    tmp_path: Path, manifests: str, lines: list[bytes], down: tuple[str, ...] = (), current: tuple[str, ...] = ()
) -> dict[str, Any]:
    (tmp_path / "set" / "api").mkdir(parents=True)
    (tmp_path / "set" / "api" / "c.yaml").write_text(manifests)
    (tmp_path / "audit.jsonl").write_bytes(b"\n".join(lines))
    (tmp_path / "cluster.jsonl").write_text(namespace("hooks", role="hooks"))
    scenario = Scenario(
        (str(tmp_path / "audit.jsonl"),),
        current=tmp_path / "set",
        cluster=tmp_path / "cluster.jsonl",
        down=down,
        current_down=current,
    )
    options = Options(workers=1, outcomes=tmp_path / "outcomes.jsonl")
    value: dict[str, Any] = json.loads(summary_json(run(scenario, options, silent)))
    return value


VALIDATING, MUTATING = (HEAD.format(kind=kind) for kind in ("Validating", "Mutating"))
CALLED = {
    "mutation.webhook.admission.k8s.io/round_0_index_0": json.dumps(
        {"configuration": "c", "webhook": "a.example.com", "mutated": False}
    )
}
ROWS = [
    ("Fail refuses", VALIDATING + webhook(), {}, ("a.example.com",), (), {"newly_denied": 1}, "refused"),
    ("a configuration is named", VALIDATING + webhook(), {}, ("c",), (), {"newly_denied": 1}, "refused"),
    ("Ignore lets pass", VALIDATING + webhook(policy="Ignore"), {}, ("c",), (), {"newly_audited": 1}, "unchecked"),
    ("a mutating webhook", MUTATING + webhook(), {"annotations": CALLED}, ("c",), (), {"newly_denied": 1}, "refused"),
    ("others are not asked", VALIDATING + webhook(resources="[services]"), {}, ("c",), (), {}, ""),
    ("down before and after", VALIDATING + webhook(), {}, ("c",), ("c",), {}, "refused"),
    ("the end of an outage", VALIDATING + webhook(), {}, (), ("c",), {"newly_admitted": 1}, ""),
]


@pytest.mark.parametrize(
    ("manifests", "fields", "down", "current", "roots", "calls"),
    [row[1:] for row in ROWS],
    ids=[row[0] for row in ROWS],
)
def test_what_a_call_that_fails_comes_to(
    manifests: str,
    fields: dict[str, Any],
    down: tuple[str, ...],
    current: tuple[str, ...],
    roots: dict[str, int],
    calls: str,
    tmp_path: Path,
) -> None:
    value = answer(tmp_path, manifests, [pod(1, **fields)], down, current)
    told = {"refused": "Fail", "unchecked": "Ignore"}
    shown = [
        (each["failurePolicy"], each["operation"], each["resource"], each["calls"], each["mostInAMinute"])
        for each in value.get("outage", {}).get("calls", ())
    ]
    assert (value["roots"], shown) == (roots, [(told[calls], "CREATE", "pods", 1, 1)] if calls else [])


SERVER = """\
apiVersion: v1
kind: Pod
metadata: {{name: kube-apiserver}}
spec: {{containers: [{{name: kube-apiserver, command: [kube-apiserver, --feature-gates={gates}]}}]}}
"""
GATE = "ExcludeAdmissionWebhookVirtualResources"


@pytest.mark.parametrize(
    ("gates", "roots"),
    [(f"{GATE}=true", {}), (f"{GATE}=false", {"newly_denied": 1}), ("AllBeta=false", {"newly_denied": 1})],
)
def test_the_flags_of_a_set_decide_whether_webhooks_are_asked_about_reviews(
    gates: str, roots: dict[str, int], tmp_path: Path
) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "kube-apiserver.yaml").write_text(SERVER.format(gates=gates))
    review = event(1, objectRef={"resource": "tokenreviews", "apiGroup": "authentication.k8s.io", "apiVersion": "v1"})
    assert answer(tmp_path, VALIDATING + webhook(resources='["*"]'), [review], ("c",))["roots"] == roots


def test_the_words_of_the_server(tmp_path: Path) -> None:
    answer(tmp_path, VALIDATING + webhook(), [pod(1)], ("c",))
    (line,) = (tmp_path / "outcomes.jsonl").read_text().splitlines()
    denials = json.loads(line)["candidate"]["denials"]
    assert [(each["message"], each["reason"], each["code"]) for each in denials] == [(WORDS, "InternalError", 500)]


def test_the_most_calls_in_a_minute(tmp_path: Path) -> None:
    late = {"requestReceivedTimestamp": "2026-01-01T00:05:00.000001Z", "stageTimestamp": "2026-01-01T00:05:00.5Z"}
    value = answer(tmp_path, VALIDATING + webhook(), [pod(1), pod(2), pod(3, **late)], ("c",))
    assert [(each["calls"], each["mostInAMinute"]) for each in value["outage"]["calls"]] == [(3, 2)]


EXCLUDES = webhook() + "  namespaceSelector: {matchExpressions: [{key: role, operator: NotIn, values: [hooks]}]}\n"
BY_LABEL = webhook() + "  objectSelector: {matchLabels: {checked: 'yes'}}\n"
RETURNS = [
    ("pods of its own namespace", VALIDATING + webhook(), {"the ReplicaSet controller makes its pods": "refused"}),
    ("its namespace is excluded", VALIDATING + EXCLUDES, {}),
    ("labels decide", VALIDATING + BY_LABEL, {"the ReplicaSet controller makes its pods": "unknown"}),
    ("Ignore refuses nothing", VALIDATING + webhook(policy="Ignore"), {}),
    (
        "leases",
        VALIDATING + webhook(resources="[leases]", operations="[UPDATE]"),
        {
            "a node renews its lease": "refused",
            "the controller manager renews its lease": "refused",
            "the scheduler renews its lease": "refused",
        },
    ),
    (
        "nodes",
        MUTATING + webhook(resources="['nodes', 'nodes/status']", operations="['*']"),
        {"a new node registers": "refused", "a node reports its status": "refused"},
    ),
]


@pytest.mark.parametrize(("manifests", "stuck"), [row[1:] for row in RETURNS], ids=[row[0] for row in RETURNS])
def test_whether_it_can_come_back(manifests: str, stuck: dict[str, str], tmp_path: Path) -> None:
    value = answer(tmp_path, manifests, [pod(1)], ("c",))
    told = {each["what"]: each["answer"] for each in value["outage"]["return"] if each["answer"] != "possible"}
    assert told == stuck


def test_time_limits_against_waits_of_the_log(tmp_path: Path) -> None:
    waits = ["1.5s", "7s", "8.25s", "no duration"]
    lines = [
        pod(number, annotations={"apiserver.latency.k8s.io/validating-webhook": text})
        for number, text in enumerate(waits)
    ]
    value = answer(tmp_path, VALIDATING + webhook(), lines, ("c",))
    assert value["outage"]["waits"] == {"validating": {"requests": 3, "longest": 8_250_000_000, "over": 2}}


def test_a_name_that_there_is_not(tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match=r"^--down: the set has no webhook or configuration `b`; there are: `a"):
        answer(tmp_path, VALIDATING + webhook(), [pod(1)], ("b",))


@pytest.mark.parametrize(
    "asked", [{"down": ("c",)}, {"current_down": ("c",)}, {"candidate_version": KubernetesVersion(1, 36)}]
)
def test_the_candidate_of_a_directory_is_not_what_is_rehearsed(asked: dict[str, Any], tmp_path: Path) -> None:
    for name in ("current", "candidate"):
        (tmp_path / name).mkdir()
    (tmp_path / "audit.jsonl").touch()
    scenario = Scenario((str(tmp_path),), **asked).resolved()
    assert (scenario.candidate, scenario.candidate_paths) == (None, (tmp_path / "current",))


def test_clients_that_wait_less_than_the_webhook(tmp_path: Path) -> None:
    limits = ["?timeout=5s", "?dryRun=All&timeout=6.9s", "?timeout=7s", "?timeout=1h", "?timeout=soon", "?timeout=", ""]
    lines = [pod(number, requestURI=f"/api/v1/namespaces/n/pods{limit}") for number, limit in enumerate(limits)]
    value = answer(tmp_path, VALIDATING + webhook(policy="Ignore"), lines, ("c",))
    assert [each["impatient"] for each in value["outage"]["webhooks"]] == [2]

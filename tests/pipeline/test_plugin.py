"""`replay plugin`: a log and cases, their order, what each phase is told, and input that cannot be used."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from replay.cli.app import app
from replay.errors import ManifestError, ReplayError
from replay.kube.admission_request import PhaseRequests
from replay.pipeline.plugin import engine_cases

MASTERS = ["system:masters"]
DENIAL = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"


def pod(name: str, cpu: str = "1") -> Any:
    """A pod as the server records it."""
    container = {"name": "c", "image": "a", "imagePullPolicy": "IfNotPresent", "resources": {"requests": {"cpu": cpu}}}
    account = {"serviceAccountName": "default", "automountServiceAccountToken": False}
    spec = {"containers": [container], **account, "priority": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "n"}, "spec": spec}


def event(number: int, verb: str, obj: Any, code: int = 201, **more: Any) -> Any:
    """An event of a pod; requests are received a second apart."""
    stored = {**obj, "metadata": {**obj["metadata"], "uid": f"u-{obj['metadata']['name']}", "resourceVersion": "9"}}
    failure = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": DENIAL}
    return {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "RequestResponse",
        "auditID": f"00000000-0000-0000-0000-{number:012}",
        "stage": "ResponseComplete",
        "requestURI": "/api/v1/namespaces/n/pods",
        "verb": verb,
        "user": {"username": "u", "groups": MASTERS},
        "objectRef": {"resource": "pods", "namespace": "n", "name": obj["metadata"]["name"], "apiVersion": "v1"},
        "responseStatus": {"code": code} if code < 300 else failure,
        "requestObject": obj
        if verb == "create"
        else {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0},
        "responseObject": stored if code < 300 else failure,
        "requestReceivedTimestamp": f"2026-01-01T00:00:{number:02}.000000Z",
        "stageTimestamp": f"2026-01-01T00:00:{number:02}.500000Z",
        **more,
    }


def run(tmp_path: Path, plugin: str, config: str, events: Iterable[Any] = (), cases: Iterable[Any] = ()) -> list[Any]:
    """The result lines of a run."""
    files = {"audit.jsonl": events, "cases.jsonl": cases}
    for name, lines in files.items():
        (tmp_path / name).write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    (tmp_path / "config.yaml").write_text(config)
    out = tmp_path / "out.jsonl"
    words = ["plugin", plugin, "--config", tmp_path / "config.yaml", "--cases", tmp_path / "cases.jsonl", "--out", out]
    log = [tmp_path / "audit.jsonl"] if events else []
    result = CliRunner().invoke(app, [str(word) for word in (*words, *log)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in out.read_text().splitlines()]


QUOTA = """
replenish: onDelete
objects:
- {apiVersion: v1, kind: ResourceQuota, metadata: {name: q, namespace: n}, status: {hard: {pods: '1'}, used: {pods: '0'}}}
"""


def case(name: str) -> Any:
    """A creation that is asked after the log."""
    group = {"group": "", "version": "v1"}
    request = {"kind": {**group, "kind": "Pod"}, "resource": {**group, "resource": "pods"}, "operation": "CREATE"}
    return {"id": name, "request": {**request, "namespace": "n", "name": name, "object": pod(name)}}


def test_usage_goes_on_from_the_log_to_the_cases(tmp_path: Path) -> None:
    events = [
        event(1, "create", pod("a")),
        event(2, "create", pod("b")),
        event(3, "create", pod("c"), 422),
        event(4, "delete", pod("b"), 200),
        event(5, "delete", pod("a"), 200),
        event(6, "create", pod("d")),
    ]
    lines = run(tmp_path, "ResourceQuota", QUOTA, events, [case("e")])
    # `b` was refused here, so that its deletion frees nothing; `c` was refused by a policy before quota is asked
    assert [(line["id"][-1], line["allowed"]) for line in lines] == [
        ("1", True),
        ("2", False),
        ("6", True),
        ("e", False),
    ]


def test_a_request_that_a_policy_denied_is_validated_before_the_webhooks(tmp_path: Path) -> None:
    events = [event(1, "create", pod("a")), event(2, "create", pod("b"), 422)]
    lines = run(tmp_path, "AlwaysPullImages", "{}", events)
    patch = [{"op": "replace", "path": "/spec/containers/0/imagePullPolicy", "value": "Always"}]
    done = {"allowed": True, "changed": True, "admit": {"patch": patch}, "validate": {}}
    assert [{key: value for key, value in line.items() if key != "id"} for line in lines] == [
        done,
        {**done, "validateInput": "before"},
    ]


GENERATING = """
{apiVersion: kyverno.io/v1, kind: ClusterPolicy, metadata: {name: p}, spec: {rules: [{name: r, match: {any: [{resources: {kinds: [Pod]}}]},
  generate: {apiVersion: v1, kind: ConfigMap, name: "cm-{{ request.object.metadata.name }}", namespace: "n", data: {data: {}}}}]}}
"""


def test_an_engine_lists_the_requests_of_a_log_that_trigger_its_rules(tmp_path: Path) -> None:
    events = [
        event(1, "create", pod("a")),
        event(2, "create", {**pod("b"), "kind": "Job"}),
        event(3, "delete", pod("a"), 200),
    ]
    lines = run(tmp_path, "kyverno", GENERATING, events, [case("c")])
    made = {name: [{"policy": "p", "rule": "r", "effect": f"makes ConfigMap n/cm-{name} afterwards"}] for name in "ac"}
    gap = "object.metadata.generateName: the request body has another kind than the resource"
    unknown = [{"policy": "p", "undetermined": gap}]
    got = [(line["id"][-1], line.get("generate"), "undetermined" in line) for line in lines]
    assert got == [("1", made["a"], False), ("2", unknown, False), ("3", None, False), ("c", made["c"], False)]


DENYING = """
{apiVersion: kyverno.io/v1, kind: ClusterPolicy, metadata: {name: p}, spec: {rules: [{name: r, match: {any: [{resources: {kinds: [KIND], operations: [DELETE]}}]},
  validate: {failureAction: Enforce, message: m, deny: {conditions: {all: [{key: "{{ request.oldObject.metadata.FIELD }}", operator: Equals, value: a}]}}}}]}}
"""
CEL_DENYING = """
{apiVersion: policies.kyverno.io/v1, kind: ValidatingPolicy, metadata: {name: p}, spec: {
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [KIND], operations: [DELETE]}]},
  validations: [{expression: "oldObject.metadata.FIELD != 'a'"}]}}
"""
VERSION = "oldObject.metadata.resourceVersion: the response of the deletion has a new resourceVersion, not that of the object before it"


@pytest.mark.parametrize(
    ("policy", "kind", "field", "allowed", "unknown"),
    [
        (DENYING, "Pod", "name", False, None),
        (DENYING, "Pod", "resourceVersion", None, [VERSION]),
        (DENYING, "Secret", "resourceVersion", True, None),
        (CEL_DENYING, "pods", "name", False, None),
        (CEL_DENYING, "pods", "resourceVersion", None, [f"policy p: {VERSION}"]),
        (CEL_DENYING, "secrets", "resourceVersion", True, None),
    ],
)
def test_only_what_a_policy_reads_makes_a_request_undetermined(
    tmp_path: Path, policy: str, kind: str, field: str, *, allowed: bool | None, unknown: list[str] | None
) -> None:
    text = policy.replace("KIND", kind).replace("FIELD", field)
    [line] = run(tmp_path, "kyverno", text, [event(1, "delete", pod("a"), 200)])
    phase = line.get("validate") or line.get("validateCEL") or {}
    assert (phase.get("allowed"), line.get("undetermined")) == (allowed, unknown)


def test_what_is_no_object_of_its_kind_is_undetermined(tmp_path: Path) -> None:
    wrong = case("x")
    wrong["request"]["object"]["spec"]["containers"] = 3
    [line] = run(tmp_path, "AlwaysPullImages", "{}", (), [wrong])
    assert (line["id"], list(line)) == ("x", ["id", "undetermined"])


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("limits: []", "unknown field `limits`: known are plugin, "),
        ("objects: 3", "`objects` is not a list"),
        ("objects: [3]", "`objects[0]` is not an object with `metadata`"),
        ("plugin: PodSecurity", "is of plugin `PodSecurity`, not `EventRateLimit`"),
        ("configuration: {limits: 3}", "`configuration` is not of EventRateLimit: "),
        ("configuration: {}", "limits: Invalid value: null: must not be empty"),
        ("", "is not a mapping with "),
    ],
)
def test_a_configuration_that_cannot_be_used_is_one_line(tmp_path: Path, config: str, message: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(config)
    result = CliRunner().invoke(app, ["plugin", "EventRateLimit", "--config", str(path), "--cases", str(path)])
    assert isinstance(result.exception, ManifestError)
    assert str(result.exception).startswith(f"{path}: {message}")


@pytest.mark.parametrize("name", ["PodSecurity", "kyverno", "gatekeeper"])
@pytest.mark.parametrize(
    ("is_directory", "message"),
    [
        (False, "cannot be read: no such file or directory"),
        (True, "cannot be read: is a directory"),
    ],
)
def test_a_configuration_that_cannot_be_read_is_one_line(
    tmp_path: Path, name: str, is_directory: bool, message: str
) -> None:
    config, cases = tmp_path / "config.yaml", tmp_path / "cases.jsonl"
    cases.write_text("")
    if is_directory:
        config.mkdir()
    result = CliRunner().invoke(app, ["plugin", name, "--config", str(config), "--cases", str(cases)])
    assert isinstance(result.exception, ManifestError)
    assert str(result.exception) == f"{config}: {message}"


REQUEST = '{"uid": "u"}'
LINES = [
    ("one request for both phases", f'{{"id": "a", "request": {REQUEST}}}', PhaseRequests("a", {"uid": "u"}, {"uid": "u"})),
    ("each phase", f'{{"id": "a", "mutating": {REQUEST}, "validating": {{}}}}', PhaseRequests("a", {"uid": "u"}, {})),
    ("no validating phase", f'{{"id": "a", "mutating": {REQUEST}, "validating": null}}', PhaseRequests("a", {"uid": "u"}, None)),
    ("made up", f'{{"id": "a", "synthetic": true, "request": {REQUEST}}}', PhaseRequests("a", {"uid": "u"}, {"uid": "u"}, synthetic=True)),
]  # fmt: skip
BROKEN = [
    ("no JSON", "{", "is not a case: unexpected end of data"),
    ("no request", '{"id": "a"}', "is not a case with `id` and `request`, `mutating` or `validating`"),
    ("no id", f'{{"request": {REQUEST}}}', "is not a case: 'id'"),
    ("a list", "[]", "is not a case: 'list' object has no attribute 'get'"),
]


@pytest.mark.parametrize(("line", "case"), [row[1:] for row in LINES], ids=[row[0] for row in LINES])
def test_a_case(tmp_path: Path, line: str, case: PhaseRequests) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text(line + "\n", "utf-8")
    assert list(engine_cases(path)) == [case]


@pytest.mark.parametrize(("line", "message"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN])
def test_what_is_no_case(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text(f"{line}\n", "utf-8")
    with pytest.raises(ReplayError) as raised:
        list(engine_cases(path))
    assert raised.value.message.startswith(message)

"""API-based policies decide from their creation to their deletion, as the log shows them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest

from replay.compare.in_force import Evidence, PolicyState, Sign, findings_of
from replay.compare.presence import PolicyWrite, absent
from replay.pipeline.options import Options
from replay.pipeline.run import run
from replay.pipeline.scenario import Scenario
from replay.pipeline.verify import verify

POLICY, BINDING = ("ValidatingAdmissionPolicy", "p"), ("ValidatingAdmissionPolicyBinding", "p")
SECOND = 1_000_000
CREATED = [PolicyWrite(10 * SECOND, 11 * SECOND, POLICY, True), PolicyWrite(12 * SECOND, 13 * SECOND, BINDING, True)]
DELETED = PolicyWrite(30 * SECOND, 31 * SECOND, BINDING, False)
BOTH, ONE, NONE = frozenset({POLICY, BINDING}), frozenset({BINDING}), frozenset[tuple[str, str]]()
STATES: list[tuple[str, list[PolicyWrite], int, list[frozenset[tuple[str, str]]]]] = [
    ("before the creation", CREATED, 9, [BOTH]),
    ("while it is created", CREATED, 12, [BOTH, ONE, NONE]),
    ("the binding alone is new", CREATED, 17, [ONE, NONE]),
    ("settled", CREATED, 20, [NONE]),
    ("before a deletion of what was there", [DELETED], 9, [NONE]),
    ("while it is deleted", [DELETED], 32, [NONE, ONE]),
    ("after the deletion", [*CREATED, DELETED], 60, [ONE]),
]


@pytest.mark.parametrize(("writes", "at", "states"), [row[1:] for row in STATES], ids=[row[0] for row in STATES])
def test_what_may_not_have_been_there(
    writes: list[PolicyWrite], at: int, states: list[frozenset[tuple[str, str]]]
) -> None:
    assert absent(writes, at * SECOND, at * SECOND + 1000) == states


MANIFESTS = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: NAME}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  validations: [{expression: "!has(object.data.bad)"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: NAME}
spec: {policyName: NAME, validationActions: [Deny]}
"""
REFUSED = (
    "configmaps \"c\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: "
    "failed expression: !has(object.data.bad)"
)
GROUP = "admissionregistration.k8s.io"


class Step(NamedTuple):
    """A request of the log: at which second, what it does to what, and how it ends."""

    second: int
    verb: str
    resource: str
    code: int


def event(step: Step) -> dict[str, Any]:
    of_policies = step.resource.startswith("validating")
    api_version = f"{GROUP}/v1" if of_policies else "v1"
    name = "p" if of_policies else f"c{step.second}"
    ref = {"resource": step.resource, "apiVersion": "v1", "name": name}
    obj = {"apiVersion": api_version, "kind": "ConfigMap", "metadata": {"name": name}, "data": {"bad": "1"}}
    stored = {**obj, "metadata": {"name": name, "namespace": "default", "uid": f"u{step.second}"}}
    time = f"2026-11-21T03:10:{step.second:02}.000000Z"
    status = (
        {"code": step.code}
        if step.code < 300
        else {"code": step.code, "status": "Failure", "message": REFUSED, "reason": "Invalid"}
    )
    return {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "RequestResponse",
        "auditID": f"id-{step.second:02}",
        "stage": "ResponseComplete",
        "verb": step.verb,
        "requestURI": f"/apis/{GROUP}/v1/{step.resource}"
        if of_policies
        else f"/api/v1/namespaces/default/{step.resource}",
        "user": {"username": "alice"},
        "objectRef": ref | ({"apiGroup": GROUP} if of_policies else {"namespace": "default"}),
        "responseStatus": status,
        **(
            {}
            if of_policies
            else {"requestObject": obj, "responseObject": stored if step.code < 300 else {"kind": "Status", **status}}
        ),
        "requestReceivedTimestamp": time,
        "stageTimestamp": time,
    }


POLICIES, BINDINGS, MAPS = "validatingadmissionpolicies", "validatingadmissionpolicybindings", "configmaps"
CREATION = [Step(10, "create", POLICIES, 201), Step(11, "create", BINDINGS, 201)]
LOGS: dict[str, tuple[list[Step], dict[int, str]]] = {
    "created in the log": (
        [Step(1, "create", MAPS, 201), *CREATION, Step(20, "create", MAPS, 422)],
        {1: "newly_denied", 20: "unchanged"},
    ),
    "the event tells while it comes into force": (
        [*CREATION, Step(12, "create", MAPS, 201), Step(13, "create", MAPS, 422)],
        {12: "newly_denied", 13: "unchanged"},
    ),
    "deleted, and created again": (
        [
            Step(1, "create", MAPS, 422),
            Step(5, "delete", POLICIES, 200),
            Step(11, "create", MAPS, 201),
            Step(20, "create", POLICIES, 201),
            Step(30, "create", MAPS, 422),
        ],
        {1: "unchanged", 11: "newly_denied", 30: "unchanged"},
    ),
    "there all the time": ([Step(1, "create", MAPS, 422)], {1: "unchanged"}),
}


@pytest.mark.parametrize("name", LOGS)
def test_what_static_manifests_deny_while_the_policy_is_not_there(name: str, tmp_path: Path) -> None:
    steps, expected = LOGS[name]
    log, out = tmp_path / "audit.jsonl", tmp_path / "out.jsonl"
    log.write_bytes(b"".join(orjson.dumps(event(step)) + b"\n" for step in steps))
    for path, policy in (("current/api", "p"), ("candidate/vap", "p.static.k8s.io")):
        (tmp_path / path).mkdir(parents=True)
        (tmp_path / path / "p.yaml").write_text(MANIFESTS.replace("NAME", policy))
    scenario = Scenario((str(log),), current=tmp_path / "current", candidate=tmp_path / "candidate")
    result = run(scenario, Options(outcomes=out, workers=1), lambda *_: None)
    outcomes = {line["auditID"]: line["outcome"] for line in map(orjson.loads, out.read_bytes().splitlines())}
    assert {second: outcomes[f"id-{second:02}"] for second in expected} == expected
    verified = verify(scenario, Options(workers=1), lambda *_: None)
    denials = sum(step.code == 422 for step in steps)
    assert result.fidelity.compared == verified.fidelity.compared == (denials, denials)
    assert verified.findings.contradictions == []


def test_a_candidate_that_keeps_the_policy_changes_nothing(tmp_path: Path) -> None:
    log, out = tmp_path / "audit.jsonl", tmp_path / "out.jsonl"
    steps = LOGS["created in the log"][0]
    log.write_bytes(b"".join(orjson.dumps(event(step)) + b"\n" for step in steps))
    (tmp_path / "api").mkdir()
    (tmp_path / "api" / "p.yaml").write_text(MANIFESTS.replace("NAME", "p"))
    run(Scenario((str(log),), current=tmp_path, candidate=tmp_path), Options(outcomes=out, workers=1), lambda *_: None)
    assert {orjson.loads(line)["outcome"] for line in out.read_bytes().splitlines()} == {"unchanged"}


CAUSES = [
    ("a static set", frozenset[str](), "the manifests were reloaded at that time"),
    ("through the API", frozenset({"p"}), "the log writes the policy through the API at that time"),
]


@pytest.mark.parametrize(("written", "cause"), [row[1:] for row in CAUSES], ids=[row[0] for row in CAUSES])
def test_a_policy_that_the_log_writes_is_not_reloaded(written: frozenset[str], cause: str) -> None:
    signs = [Sign.ABSENT, Sign.ABSENT, Sign.SEEN, Sign.SEEN]
    evidence = [
        Evidence(second * SECOND, second, f"id-{second}", "a", "p", "denial", sign, "", "no")
        for second, sign in enumerate(signs, 1)
    ]
    assert {each.cause for each in findings_of(evidence, written=written).contradictions} == {cause}


PLUGIN_STATES = [
    (
        "it refused what the set admits",
        [Sign.SEEN, Sign.OTHER],
        PolicyState.UNCLEAR,
        "the plugin read objects in a state that the log does not show",
    ),
    ("it never acted", [Sign.ABSENT, Sign.ABSENT], PolicyState.NEVER, "the policy was not in force"),
    (
        "it was turned on",
        [Sign.ABSENT, Sign.ABSENT, Sign.SEEN, Sign.SEEN],
        PolicyState.APPEARED,
        "an API server started with other flags at that time",
    ),
]


@pytest.mark.parametrize(
    ("signs", "state", "cause"), [row[1:] for row in PLUGIN_STATES], ids=[row[0] for row in PLUGIN_STATES]
)
def test_a_builtin_plugin_has_no_other_text(signs: list[Sign], state: PolicyState, cause: str) -> None:
    evidence = [
        Evidence(second * SECOND, second, f"id-{second}", "a", "NamespaceLifecycle", "denial", sign, "", "no")
        for second, sign in enumerate(signs, 1)
    ]
    findings = findings_of(evidence)
    assert [each.story for each in findings.histories] == [state]
    assert {each.cause for each in findings.contradictions} == {cause}

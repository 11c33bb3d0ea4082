"""Mutating policies from files to outcomes: what goes wrong with a patch, and what validation makes of one that does not."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest

from replay.compare.outcome import OutcomeKind
from replay.compare.result import RunResult
from replay.pipeline.options import Options
from replay.pipeline.run import run
from replay.pipeline.scenario import Scenario

RULES = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]
API = "admissionregistration.k8s.io/v1"


def policy(kind: str, name: str, binding: dict[str, Any], **spec: Any) -> list[dict[str, Any]]:
    metadata = {"name": f"{name}.static.k8s.io"}
    bound = {"policyName": metadata["name"], **binding}
    return [
        {
            "apiVersion": API,
            "kind": kind,
            "metadata": metadata,
            "spec": {"matchConstraints": {"resourceRules": RULES}, **spec},
        },
        {"apiVersion": API, "kind": f"{kind}Binding", "metadata": metadata, "spec": bound},
    ]


def mutating(expression: str, failure_policy: str = "Fail", name: str = "patch") -> list[dict[str, Any]]:
    mutations = [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}]
    spec = {"failurePolicy": failure_policy, "reinvocationPolicy": "Never", "mutations": mutations}
    return policy("MutatingAdmissionPolicy", name, {}, **spec)


def validating(expression: str) -> list[dict[str, Any]]:
    actions = {"validationActions": ["Deny"]}
    return policy("ValidatingAdmissionPolicy", "rule", actions, validations=[{"expression": expression}])


def manifests(directory: Path, *objects: list[dict[str, Any]]) -> Path:
    for folder, prefix in (("map", "Mutating"), ("vap", "Validating")):
        chosen = [each for group in objects for each in group if each["kind"].startswith(prefix)]
        (directory / folder).mkdir(parents=True)
        (directory / folder / "all.json").write_bytes(
            orjson.dumps({"apiVersion": "v1", "kind": "List", "items": chosen})
        )
    return directory


def replayed(
    directory: Path, data: str, candidate: Path, current: Path | None = None
) -> tuple[RunResult, dict[str, Any]]:
    """One creation of a ConfigMap whose `data.a` is given, and the candidate's decision about it."""
    sent = {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": "settings", "namespace": "default"},
        "data": {"a": data},
    }
    event = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "RequestResponse",
        "auditID": "id",
        "stage": "ResponseComplete",
        "requestURI": "/api/v1/namespaces/default/configmaps",
        "verb": "create",
        "user": {"username": "jane"},
        "objectRef": {"resource": "configmaps", "namespace": "default", "name": "settings", "apiVersion": "v1"},
        "responseStatus": {"metadata": {}, "code": 201},
        "requestObject": sent,
        "responseObject": {
            **sent,
            "metadata": {"name": "settings", "namespace": "default", "uid": "u", "resourceVersion": "7"},
        },
        "requestReceivedTimestamp": "2026-11-21T03:00:00.000000Z",
        "stageTimestamp": "2026-11-21T03:00:00.100000Z",
    }
    log, outcomes = directory / "audit.jsonl", directory / "outcomes.jsonl"
    log.write_bytes(orjson.dumps(event))
    scenario = Scenario((str(log),), current=current, candidate=candidate)
    result = run(scenario, Options(outcomes=outcomes, workers=1), lambda _what, _done, _total: None)
    (line,) = map(orjson.loads, outcomes.read_bytes().splitlines())
    return result, line["candidate"]


class Bad(NamedTuple):
    name: str
    expression: str
    message: str
    data: str = "1"


COPY = "JSONPatch{op: 'copy', from: '/data/a', path: '/data/%s'}"
BAD = [
    Bad("missing path", "[JSONPatch{op: 'remove', path: '/data/x'}]", "Unable to remove nonexistent key: x"),
    Bad("missing parent", "[JSONPatch{op: 'add', path: '/spec/x', value: 1}]", "add operation does not apply"),
    Bad("bad escape", "[JSONPatch{op: 'remove', path: '/data/~2'}]", "Unable to remove nonexistent key"),
    Bad("unknown operation", "[JSONPatch{op: 'jump', path: '/data/a'}]", "jump"),
    Bad("over 3 MiB", f"[{COPY % 'b'}, {COPY % 'c'}]", "exceeding the limit 3145728", "x" * 1_600_000),
    Bad(
        "an error of the expression",
        "[JSONPatch{op: 'add', path: '/data/b', value: object.data.none}]",
        "no such key: none",
    ),
]


@pytest.mark.parametrize("case", BAD, ids=[case.name for case in BAD])
def test_a_patch_that_fails_follows_the_failure_policy(case: Bad, tmp_path: Path) -> None:
    result, decision = replayed(tmp_path, case.data, manifests(tmp_path / "fail", mutating(case.expression)))
    assert result.summary.outcomes == {OutcomeKind.NEWLY_DENIED: 1}
    assert case.message in decision["denials"][0]["message"]
    ignored = manifests(tmp_path / "ignore", mutating(case.expression, "Ignore"))
    result, decision = replayed(tmp_path, case.data, ignored)
    assert (result.summary.outcomes, decision["patch"]) == ({OutcomeKind.UNCHANGED: 1}, [])


SET_B = "[JSONPatch{op: 'add', path: '/data/b', value: '%s'}]"


class Change(NamedTuple):
    name: str
    current: str
    candidate: str
    outcome: OutcomeKind
    before: dict[str, str]
    after: dict[str, str]


CHANGES = [
    Change("newly", "", SET_B % 2, OutcomeKind.NEWLY_MUTATED, {"a": "1"}, {"a": "1", "b": "2"}),
    Change("otherwise", SET_B % 2, SET_B % 3, OutcomeKind.MUTATION_CHANGED, {"a": "1", "b": "2"}, {"a": "1", "b": "3"}),
    Change("no longer", SET_B % 2, "", OutcomeKind.NO_LONGER_MUTATED, {"a": "1", "b": "2"}, {"a": "1"}),
]


@pytest.mark.parametrize("case", CHANGES, ids=[case.name for case in CHANGES])
def test_each_kind_of_change_is_shown_before_and_after(case: Change, tmp_path: Path) -> None:
    sets = {
        name: manifests(tmp_path / name, *([mutating(expression)] if expression else [validating("true")]))
        for name, expression in (("current", case.current), ("candidate", case.candidate))
    }
    result, _ = replayed(tmp_path, "1", sets["candidate"], sets["current"])
    assert result.summary.outcomes == {case.outcome: 1}
    ((key, example),) = result.summary.changes.groups.items()
    assert key == (case.outcome, ("patch.static.k8s.io",), (("add /data/b",),))
    assert (example.current["data"], example.candidate["data"]) == (case.before, case.after)


@pytest.mark.parametrize(
    ("rule", "effect", "outcome"),
    [
        ("!has(object.data.b)", "caused", OutcomeKind.NEWLY_DENIED),
        ("has(object.data.b)", "healed", OutcomeKind.NEWLY_MUTATED),
    ],
)
def test_what_validation_makes_of_a_mutation(rule: str, effect: str, outcome: OutcomeKind, tmp_path: Path) -> None:
    candidate = manifests(tmp_path / "set", mutating(SET_B % 2), validating(rule))
    result, decision = replayed(tmp_path, "1", candidate)
    assert result.summary.outcomes == {outcome: 1}
    counted = Counter({(chain.effect, chain.policy): cell.count for chain, cell in result.summary.chains.items()})
    assert counted == {(effect, "rule.static.k8s.io"): 1}
    assert [each["policy"] for each in decision[f"{effect}ByMutation"]] == ["rule.static.k8s.io"]

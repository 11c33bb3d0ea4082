"""Walks that a store keeps: only objects whose walk may come out otherwise are walked again, and the world is the same to the byte."""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from replay.audit.event import RequestRecord
from replay.pipeline.options import Options
from replay.pipeline.replay.kept_result import RESULTS
from replay.pipeline.run import run
from replay.pipeline.scenario import Scenario
from replay.report.run.json import summary_json
from replay.world.walk import Walker, WalkResult


class ErrorConverter(NamedTuple):
    """A report, and the candidate's world as a store keeps it, consequence by consequence in their order."""

    report: str
    world: bytes


def replayed(sets: Path, store: Path, *logs: str) -> str:
    (cluster,) = sets.glob("cluster.*")
    scenario = Scenario(
        logs, store=store, current=sets / "current", candidate=sets / "candidate", cluster=cluster
    ).resolved()
    return summary_json(run(scenario, Options(workers=1), lambda _what, _done, _total: None))


def told(sets: Path, store: Path) -> ErrorConverter:
    for name in ("world", "outcome"):
        for path in (store / RESULTS).glob(f"*/{name}.*"):
            path.unlink()
    report = replayed(sets, store)
    (world,) = (store / RESULTS).glob("*/world.*")
    return ErrorConverter(report, world.read_bytes())


def told_from_nothing(sets: Path, store: Path, place: Path) -> ErrorConverter:
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(store, place)
    shutil.rmtree(place / RESULTS)
    return told(sets, place)


@pytest.fixture(scope="module")
def store(short_sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the walks of the sample's own sets."""
    directory = tmp_path_factory.mktemp("walks") / "store"
    replayed(short_sample, directory, str(short_sample))
    return directory


@pytest.fixture
def sets(short_sample: Path, tmp_path: Path) -> Path:
    for name in ("current", "candidate"):
        shutil.copytree(short_sample / name, tmp_path / "sets" / name)
    for cluster in short_sample.glob("cluster.*"):
        shutil.copy(cluster, tmp_path / "sets")
    return tmp_path / "sets"


VALIDATING = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: {name}.static.k8s.io}}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules: [{{apiGroups: ['*'], apiVersions: ['*'], operations: {operations}, resources: {resources}}}]
  validations: [{{expression: "{expression}"}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {{name: {name}.static.k8s.io}}
spec: {{policyName: {name}.static.k8s.io, validationActions: [Deny]}}
"""
MUTATING = """
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {{name: {name}.static.k8s.io}}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules: [{{apiGroups: ['*'], apiVersions: ['*'], operations: {operations}, resources: {resources}}}]
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration: {{expression: "Object{{metadata: Object.metadata{{labels: {{'drawn': '{name}'}}}}}}"}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {{name: {name}.static.k8s.io}}
spec: {{policyName: {name}.static.k8s.io}}
"""
EXPRESSIONS = [
    "false",
    "object == null || has(object.metadata.labels)",
    "object == null || size(object.metadata.name) % 2 == 0",
    "object == null || !has(object.metadata.generation) || object.metadata.generation > 1",
    "oldObject == null || object == null || object.metadata == oldObject.metadata",
    "request.userInfo.username.startsWith('system:')",
    "authorizer.group('').resource('pods').check('list').allowed()",
    "namespaceObject == null || has(namespaceObject.metadata.labels)",
]
RESOURCES = [
    *("configmaps", "deployments", "deployments/scale", "jobs", "namespaces", "pods", "pods/eviction", "replicasets"),
    *("rolebindings", "roles", "clusterrolebindings", "secrets", "serviceaccounts", "services", "widgets"),
]


def policy(name: str, resources: list[str], expression: str, operations: Sequence[str] = ("CREATE", "UPDATE")) -> str:
    return VALIDATING.format(name=name, resources=resources, expression=expression, operations=list(operations))


def mutation(name: str, resources: list[str], operations: Sequence[str] = ("CREATE",)) -> str:
    return MUTATING.format(name=name, resources=resources, operations=list(operations))


class Row(NamedTuple):
    name: str
    added: str
    walked: set[str] | None
    """The resources of what is walked again; None for all that a run from nothing walks."""


FIRST = "clusterrolebindings"
"""What is looked up: the walks of such objects come before all others, and are not kept."""
ROWS = [
    Row("nothing", "", {FIRST}),
    Row("nothing of the log", policy("p", ["absentees"], "false"), {FIRST}),
    Row("one resource", policy("p", ["configmaps"], "false"), {FIRST, "configmaps"}),
    Row("one resource that is decided alike", policy("p", ["configmaps"], "true"), {FIRST}),
    Row("a subresource", policy("p", ["deployments/scale"], "false"), {FIRST, "deployments"}),
    Row("requests of which no walk wants a decision", policy("p", ["replicasets"], "true", ["CREATE"]), {FIRST}),
    Row("what the server counts is read", policy("p", ["absentees"], "object.metadata.generation > 1"), None),
    Row("what may have mutated", mutation("p", ["absentees"]), None),
]


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_only_what_may_come_out_otherwise_is_walked(
    row: Row, store: Path, sets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resources: list[str] = []
    walk = Walker.walk

    def noted(walker: Walker, records: Sequence[RequestRecord]) -> WalkResult:
        resources.append(records[0].resource)
        return walk(walker, records)

    monkeypatch.setattr(Walker, "walk", noted)
    kept = tmp_path / "kept"
    shutil.copytree(store, kept)
    place = sets / "candidate" / ("map" if "Mutating" in row.added else "vap")
    (place / "added.yaml").write_text(row.added, encoding="utf-8")
    world = told(sets, kept)
    again = resources.copy()
    resources.clear()
    assert world == told_from_nothing(sets, store, tmp_path / "new")
    assert again == resources if row.walked is None else set(again) == row.walked


def draw(chance: random.Random, sets: Path, number: int) -> None:
    """One change of one of the sets."""
    side = chance.choice(("candidate", "candidate", "current"))
    paths = sorted((sets / side).rglob("*.yaml"))
    resources = chance.sample(RESOURCES, chance.randint(1, 3))
    match chance.randrange(5):
        case 0 if len(paths) > 3:
            chance.choice(paths).unlink()
        case 1:
            path = chance.choice(paths)
            path.write_text(path.read_text(encoding="utf-8").replace("- Deny", "- Warn"), encoding="utf-8")
        case 2:
            operations = chance.sample(("CREATE", "UPDATE"), chance.randint(1, 2))
            text = mutation(f"drawn-{number}", resources, operations)
            (sets / side / "map" / f"drawn-{number}.yaml").write_text(text, encoding="utf-8")
        case _:
            operations = chance.sample(("CREATE", "UPDATE", "DELETE"), chance.randint(1, 3))
            text = policy(f"drawn-{number}", resources, chance.choice(EXPRESSIONS), operations)
            (sets / side / "vap" / f"drawn-{number}.yaml").write_text(text, encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 4))
def test_changes_drawn_at_random_give_what_a_walk_of_all_gives(
    seed: int, store: Path, sets: Path, tmp_path: Path
) -> None:
    chance, kept = random.Random(seed), tmp_path / "kept"
    shutil.copytree(store, kept)
    for number in range(3):
        draw(chance, sets, number)
        assert told(sets, kept) == told_from_nothing(sets, store, tmp_path / "new"), number


@pytest.mark.slow
def test_walks_beyond_what_is_kept_are_walked(
    store: Path, sets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replay.pipeline.replay.kept_walk.MOST_BYTES", 20_000)
    kept = tmp_path / "kept"
    shutil.copytree(store, kept)
    shutil.rmtree(kept / RESULTS)
    told(sets, kept)
    (walks,) = (kept / RESULTS).glob("*/walks")
    assert 10_000 < walks.stat().st_size < 40_000
    (sets / "candidate" / "vap" / "added.yaml").write_text(policy("p", ["services"], "false"), encoding="utf-8")
    assert told(sets, kept) == told_from_nothing(sets, store, tmp_path / "new")

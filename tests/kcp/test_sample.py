"""A cut of a real shard's log: whose policies decide, over time, and what is said where parts of it are missing."""

from __future__ import annotations

import json
import random
import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from replay.cellib.version import KubernetesVersion, Versions
from replay.errors import ReplayError
from replay.kcp.shard.layout import SHARD_VERSION
from replay.pipeline.forensic.explain import explain
from replay.pipeline.forensic.lookup import LookupFilter, look_up
from replay.pipeline.options import Focus, Options
from replay.pipeline.run import run
from replay.pipeline.scenario import Scenario
from replay.pipeline.set_diff import diff_folders
from replay.pipeline.verify import verify
from replay.report.lookup_report import lookup_json

pytestmark = pytest.mark.slow

SAMPLE = Path(__file__).parents[2] / "sample_audit" / "kcp"
PROVIDER, CONSUMER = "root:provider", "root:consumer-a"
VERSIONS = Versions(SHARD_VERSION, SHARD_VERSION)
Line = dict[str, Any]
Lines = dict[str, Line]


def silent(what: str, done: int, total: int) -> None:
    del what, done, total


def events() -> list[dict[str, Any]]:
    with pa.CompressedInputStream(pa.OSFile(str(SAMPLE / "audit.jsonl.zst")), "zstd") as stream:
        return [json.loads(line) for line in stream.read().decode().splitlines()]


def outcomes(
    tmp_path: Path,
    log: Path = SAMPLE / "audit.jsonl.zst",
    cluster: Path = SAMPLE / "cluster",
    focus: Focus = Focus(),  # noqa: B008 - it is frozen
) -> Lines:
    scenario = Scenario(
        (str(log),), current=SAMPLE / "current", candidate=SAMPLE / "candidate", cluster=cluster, version=SHARD_VERSION
    )
    run(scenario, Options(outcomes=tmp_path / "lines", workers=1, focus=focus), silent)
    found = [json.loads(line) for line in (tmp_path / "lines").read_text().splitlines()]
    return {line["auditID"]: line for line in found}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Lines:
    return outcomes(tmp_path_factory.mktemp("whole"))


def says(decision: Line) -> object:
    denials = [(denial["policy"], denial["message"]) for denial in decision["denials"]]
    # A map prints its keys in any order.
    return decision["verdict"], denials, {key: sorted(text) for key, text in decision["auditAnnotations"].items()}


def wrong(thinned: Lines, whole: Lines) -> list[str]:
    """The requests about which something else is said than with the whole log; undetermined is not something else."""
    return [
        audit_id
        for audit_id, line in thinned.items()
        for side in ("current", "candidate")
        if "undetermined" not in (line[side]["verdict"], whole[audit_id][side]["verdict"])
        and says(line[side]) != says(whole[audit_id][side])
    ]


def test_the_log_is_explained() -> None:
    scenario = Scenario(
        (str(SAMPLE / "audit.jsonl.zst"),),
        current=SAMPLE / "current",
        cluster=SAMPLE / "cluster",
        version=SHARD_VERSION,
    )
    result = verify(scenario, Options(workers=1), silent)
    fidelity = result.fidelity
    assert fidelity.disagreement_count == 0
    told = [(each.observed, each.reproduced) for each in (fidelity.denials, fidelity.failures, fidelity.annotations)]
    assert told == [(52, 51), (10, 10), (124, 123)]


def test_each_line_names_both_workspaces(whole: Lines) -> None:
    bound = [line for line in whole.values() if line["resource"]["group"] == "example.org"]
    assert {(line["workspace"], line["policyWorkspace"]) for line in bound} == {
        (PROVIDER, PROVIDER),
        (CONSUMER, PROVIDER),
        ("root:local", "root:local"),
    }
    own = [line for line in whole.values() if line["resource"]["group"] == ""]
    assert all(line["workspace"] == line["policyWorkspace"] for line in own)
    denials = [(line, denial) for line in whole.values() for denial in line["candidate"]["denials"]]
    assert denials
    assert all(
        (denial["workspace"], denial["policyWorkspace"]) == (line["workspace"], line["policyWorkspace"])
        for line, denial in denials
    )
    assert all("/" not in denial["policy"] for _, denial in denials)


def test_a_candidate_of_a_provider_is_held_against_its_consumers(whole: Lines) -> None:
    denied = [line for line in whole.values() if line["outcome"] == "newly_denied"]
    counts = {workspace: sum(line["workspace"] == workspace for line in denied) for workspace in (PROVIDER, CONSUMER)}
    assert (len(denied), counts) == (13, {PROVIDER: 6, CONSUMER: 7})
    assert {denial["policy"] for line in denied for denial in line["candidate"]["denials"]} == {"provider-intent"}
    # The workspace with a resource of its own by the same name is asked nothing.
    assert not any(line["workspace"] == "root:local" for line in denied)


def test_some_workspaces_alone(tmp_path: Path, whole: Lines) -> None:
    found = outcomes(tmp_path, focus=Focus(workspaces=("root:cons*",)))
    assert found.keys() == {audit_id for audit_id, line in whole.items() if line["workspace"] == CONSUMER}


def test_a_log_without_workspaces_has_none_to_ask_about() -> None:
    shop = SAMPLE.parent / "shop"
    scenario = Scenario((str(shop / "audit.jsonl.zst"),), candidate=shop / "candidate")
    with pytest.raises(ReplayError, match="the log has no workspaces"):
        run(scenario, Options(focus=Focus(workspaces=("root",))), silent)


@pytest.mark.parametrize("path", [PROVIDER, CONSUMER, "root:local"])
def test_without_the_events_of_a_workspace_nothing_is_wrong(tmp_path: Path, whole: Lines, path: str) -> None:
    left = [each for each in events() if each["annotations"].get("kcp.io/path") != path]
    (tmp_path / "log").write_text("\n".join(map(json.dumps, left)))
    thinned = outcomes(tmp_path, tmp_path / "log")
    assert wrong(thinned, whole) == []
    if path == PROVIDER:  # its parameters are what is missing
        unknown = [line for line in thinned.values() if line["current"]["verdict"] == "undetermined"]
        reasons = {each["reason"] for line in unknown for each in line["current"]["undetermined"]}
        assert any("the log lacks the events of workspace root:provider" in reason for reason in reasons)


@pytest.mark.parametrize(("seed", "lost"), [(1, 0.05), (2, 0.2), (4, 0.7)])
def test_with_lines_lost_nothing_is_wrong(tmp_path: Path, whole: Lines, seed: int, lost: float) -> None:
    chance = random.Random(seed)
    left = [each for each in events() if chance.random() >= lost]
    (tmp_path / "log").write_text("\n".join(map(json.dumps, left)))
    assert wrong(outcomes(tmp_path, tmp_path / "log"), whole) == []


def test_an_event_that_other_parameters_decided_says_so(tmp_path: Path, whole: Lines) -> None:
    def is_limit(event: Line) -> bool:
        about = event["annotations"]["kcp.io/path"], event["objectRef"].get("name")
        return about == (PROVIDER, "widget-limits")

    (tmp_path / "log").write_text("\n".join(json.dumps(each) for each in events() if not is_limit(each)))
    shutil.copytree(SAMPLE / "cluster", tmp_path / "cluster")
    metadata = {"name": "widget-limits", "namespace": "default", "creationTimestamp": "2026-01-01T00:00:00Z"}
    stale = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"max": "1"}}
    (tmp_path / "cluster" / "root.provider" / "stale.json").write_text(json.dumps(stale))
    thinned = outcomes(tmp_path, tmp_path / "log", tmp_path / "cluster")
    assert wrong(thinned, whole) == []
    reasons = [each["reason"] for line in thinned.values() for each in line["current"]["undetermined"]]
    assert "the event does not match the known parameters, so the log lacks a write to them" in reasons


def test_without_bindings_nobody_is_taken_for_local(tmp_path: Path, whole: Lines) -> None:
    shutil.copytree(SAMPLE / "cluster", tmp_path / "cluster")
    for each in (tmp_path / "cluster").glob("*/apibindings.yaml"):
        each.unlink()
    thinned = outcomes(tmp_path, cluster=tmp_path / "cluster")
    assert wrong(thinned, whole) == []
    bound = [line for line in thinned.values() if line["resource"]["group"] == "example.org"]
    assert {line["policyWorkspace"] for line in bound} == {None}
    assert {line["current"]["verdict"] for line in bound} <= {"undetermined", "not_reached"}


def test_a_lookup_names_whose_policy_it_was() -> None:
    scenario = Scenario((str(SAMPLE / "audit.jsonl.zst"),), cluster=SAMPLE / "cluster", version=SHARD_VERSION)
    found = look_up(scenario, LookupFilter(action="deny", workspace="root:cons*"), silent)
    assert {each.workspace for each in found.observed} == {CONSUMER}
    labels = {each.label for each in found.observed}
    assert {"root:provider/provider-intent", "root:consumer-a/consumer-configmaps", "NamespaceLifecycle"} <= labels
    (first, *_) = lookup_json(found)["decisions"]
    assert (first["workspace"], "/" in first["policy"]) == (CONSUMER, False)


def test_an_explanation_names_both_workspaces() -> None:
    scenario = Scenario(
        (str(SAMPLE / "audit.jsonl.zst"),),
        current=SAMPLE / "current",
        cluster=SAMPLE / "cluster",
        version=SHARD_VERSION,
    )
    explained = explain(scenario, "e181220b-0359-4a76-be1d-a45a8f7cac26", silent)
    assert explained.decided_in[:2] == (CONSUMER, PROVIDER)
    assert [denial.policy for each in explained.sets for denial in each.decision.denials] == ["provider-intent"]


@pytest.mark.parametrize(
    ("pattern", "message"),
    [("root:consumer-*", ""), ("root:provider", "--workspace: the request is to the workspace root:consumer-a")],
)
def test_an_explanation_is_of_the_workspace_that_is_asked_about(pattern: str, message: str) -> None:
    scenario = Scenario((str(SAMPLE / "audit.jsonl.zst"),), cluster=SAMPLE / "cluster", version=SHARD_VERSION)
    options = Options(focus=Focus(workspaces=(pattern,)))
    with pytest.raises(ReplayError, match=message) if message else nullcontext():
        explain(scenario, "e181220b-0359-4a76-be1d-a45a8f7cac26", silent, options=options)


def test_one_set_for_many_workspaces_is_refused(tmp_path: Path) -> None:
    plain = SAMPLE / "candidate" / "root.provider"
    scenario = Scenario((str(SAMPLE / "audit.jsonl.zst"),), candidate=plain, version=KubernetesVersion(1, 36))
    with pytest.raises(ReplayError):
        run(scenario, Options(outcomes=tmp_path / "lines"), silent)


def test_differences_name_their_workspace() -> None:
    (found,) = diff_folders(SAMPLE / "current", SAMPLE / "candidate", VERSIONS)
    assert (found.kind, found.name) == ("ValidatingAdmissionPolicy", "root:provider/provider-intent")
    assert diff_folders(SAMPLE / "current", SAMPLE / "candidate", VERSIONS, ("root:prov*",)) == (found,)
    assert diff_folders(SAMPLE / "current", SAMPLE / "candidate", VERSIONS, ("root:local",)) == ()
    with pytest.raises(ReplayError, match="neither set has a workspace root:nobody: they have root:consumer-a, "):
        diff_folders(SAMPLE / "current", SAMPLE / "candidate", VERSIONS, ("root:nobody",))

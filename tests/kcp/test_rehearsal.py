"""What is asked of a shard whose manifests stay: another release, and webhooks that do not answer."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from replay.admission.decision import Verdict
from replay.cellib.version import KubernetesVersion, Versions
from replay.errors import ReplayError
from replay.pipeline.forensic.explain import explain
from replay.pipeline.options import Options
from replay.pipeline.run import run
from replay.pipeline.scenario import Scenario
from replay.pipeline.set_diff import set_difference
from replay.report.run.json import summary_json

pytestmark = pytest.mark.slow

SAMPLE = Path(__file__).parents[2] / "sample_audit" / "kcp"
OLD, NEW = KubernetesVersion(1, 36), KubernetesVersion(1, 37)
INTENT = "object.spec.intent != ''bad''"
NOT_OPTIONAL = "object.spec.intent.orValue(''x'') != ''bad''"
"""1.36 returns the value, 1.37 has no such overload."""
DENIED_BY_NEW = "baa9fb1b-6f04-4100-973d-a7b7cb4dd33a"
NEWER = "format.named(''dns1123Label'').hasValue()"
"""1.30 has no formats."""


def sets(tmp_path: Path, expression: str = INTENT) -> Path:
    """The sets of the sample with an expression of the provider."""
    current = tmp_path / "current"
    shutil.copytree(SAMPLE / "current", current)
    file = current / "root.provider" / "validatingadmissionpolicies.yaml"
    text = file.read_text()
    assert INTENT in text
    file.write_text(text.replace(INTENT, expression))
    return current


def answer(current: Path | None, **options: Any) -> dict[str, Any]:
    log, cluster = (str(SAMPLE / "audit.jsonl.zst"),), SAMPLE / "cluster"
    scenario = Scenario(log, current=current, cluster=cluster, **{"version": OLD, **options})
    value: dict[str, Any] = json.loads(
        summary_json(run(scenario, Options(workers=1), lambda _what, _done, _total: None))
    )
    return value


UPGRADES = [
    ("nothing that any minor decides otherwise", INTENT, (OLD, NEW), {}),
    ("an expression that fails on the new minor", NOT_OPTIONAL, (OLD, NEW), {"newly_denied": 31}),
]


@pytest.mark.parametrize(
    ("expression", "minors", "roots"), [row[1:] for row in UPGRADES], ids=[row[0] for row in UPGRADES]
)
def test_the_same_workspaces_on_two_minors(
    expression: str, minors: tuple[KubernetesVersion, KubernetesVersion], roots: dict[str, int], tmp_path: Path
) -> None:
    value = answer(sets(tmp_path, expression), version=minors[0], candidate_version=minors[1])
    assert {kind: count for kind, count in value["roots"].items() if kind != "undetermined"} == roots


@pytest.mark.parametrize(("expression", "paths"), [(INTENT, []), (NEWER, ["spec.validations[0].expression"])])
def test_expressions_that_a_release_does_not_compile(expression: str, paths: list[str], tmp_path: Path) -> None:
    current = sets(tmp_path, expression)
    found = set_difference(current, current, Versions(OLD, KubernetesVersion(1, 30))).objects
    assert [(each.name, field.field) for each in found for field in each.fields] == [
        ("root:provider/provider-intent", path) for path in paths
    ]


OUTAGES = [
    ("in the candidate", ("all.consumer.example.org",), (), {"newly_denied": 7}),
    ("a configuration", ("consumer-webhook",), (), {"newly_denied": 7}),
    ("before and after", ("consumer-webhook",), ("consumer-webhook",), {}),
]


@pytest.mark.parametrize(("down", "current", "roots"), [row[1:] for row in OUTAGES], ids=[row[0] for row in OUTAGES])
def test_webhooks_of_a_workspace_that_are_down(
    down: tuple[str, ...], current: tuple[str, ...], roots: dict[str, int]
) -> None:
    value = answer(SAMPLE / "current", down=down, current_down=current)
    assert {kind: count for kind, count in value["roots"].items() if kind != "undetermined"} == roots
    assert value["outage"]["return"] == []  # a shard has no nodes and pods


def test_webhooks_that_only_the_snapshot_holds() -> None:
    with pytest.raises(ReplayError, match="has no webhook or configuration `nobody`; there are"):
        answer(SAMPLE / "current", down=("nobody",))
    with pytest.raises(ReplayError, match="there are: none"):
        answer(None, down=("nobody",))


def test_a_request_is_explained_on_both_minors(tmp_path: Path) -> None:
    scenario = Scenario(
        (str(SAMPLE / "audit.jsonl.zst"),),
        current=sets(tmp_path, NOT_OPTIONAL),
        cluster=SAMPLE / "cluster",
        version=OLD,
        candidate_version=NEW,
    )
    explained = explain(scenario, DENIED_BY_NEW, lambda _what, _done, _total: None)
    assert [(each.name, each.decision.verdict) for each in explained.sets] == [
        ("current", Verdict.ADMITTED),
        ("candidate", Verdict.DENIED),
    ]

"""What a candidate changes beside policies: bindings, exports, parameters and namespaces, each workspace for itself."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from replay.cellib.version import Versions
from replay.kcp.shard.layout import SHARD_VERSION
from replay.pipeline.options import Options
from replay.pipeline.run import run
from replay.pipeline.scenario import Scenario
from replay.pipeline.set_diff import diff_folders

pytestmark = pytest.mark.slow

SAMPLE = Path(__file__).parents[2] / "sample_audit" / "kcp"
PROVIDER, CONSUMER, LOCAL = "root:provider", "root:consumer-a", "root:local"
Line = dict[str, Any]


def objects(workspace: str, resource: str) -> list[Any]:
    text = (SAMPLE / "cluster" / workspace.replace(":", ".") / f"{resource}.yaml").read_text()
    items: list[Any] = yaml.safe_load(text)["items"]
    return items


def namespace(name: str, **labels: str) -> Any:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def limits(maximum: str) -> Any:
    metadata = {"name": "widget-limits", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"max": maximum}}


def bound(name: str, path: str = PROVIDER) -> Any:
    export = {"name": name, "path": path}
    kind = {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding"}
    return {**kind, "metadata": {"name": "bound"}, "spec": {"reference": {"export": export}}}


def exporting(*resources: str) -> Any:
    (export,) = objects(PROVIDER, "apiexports")
    kept = [each for each in export["spec"]["resources"] if each["name"] in resources]
    return {**export, "spec": {**export["spec"], "resources": kept}}


def without_widgets(bindings: list[Any]) -> list[Any]:
    return [each for each in bindings if each["metadata"]["name"] != "widgets"]


def changed(tmp_path: Path, planned: dict[str, list[Any]], *, with_bindings: bool = False) -> list[Line]:
    """The lines of what ends otherwise; the current set has the bindings of the snapshot where the candidate takes some away."""
    current, candidate = tmp_path / "current", tmp_path / "candidate"
    shutil.copytree(SAMPLE / "current", current)
    if with_bindings:
        for folder in current.iterdir():
            shutil.copy(SAMPLE / "cluster" / folder.name / "apibindings.yaml", folder)
    shutil.copytree(current, candidate)
    for path, items in planned.items():
        listed = {"apiVersion": "v1", "kind": "List", "items": items}
        (candidate / path.replace(":", ".") / ("apibindings.yaml" if with_bindings else "planned.json")).write_text(
            json.dumps(listed)
        )
    log = str(SAMPLE / "audit.jsonl.zst")
    cluster = SAMPLE / "cluster"
    scenario = Scenario((log,), current=current, candidate=candidate, cluster=cluster, version=SHARD_VERSION)
    run(scenario, Options(outcomes=tmp_path / "lines", workers=1), lambda _what, _done, _total: None)
    found = [json.loads(line) for line in (tmp_path / "lines").read_text().splitlines()]
    return [line for line in found if line["current"]["verdict"] != line["candidate"]["verdict"]]


def counted(lines: list[Line]) -> Counter[tuple[str, str, str]]:
    """How many requests end otherwise, by workspace, verdict and first policy."""
    return Counter(
        (
            line["workspace"],
            line["candidate"]["verdict"],
            next((each["policy"] for each in line["candidate"]["denials"]), ""),
        )
        for line in lines
    )


CHANGES: list[tuple[str, dict[str, list[Any]], dict[tuple[str, str, str], int]]] = [
    (
        "what is there already, and a parameter of a consumer, which no policy reads",
        {
            PROVIDER: [
                *objects(PROVIDER, "apibindings"),
                exporting("widgets", "plants"),
                *objects(PROVIDER, "namespaces"),
            ],
            CONSUMER: [limits("1")],
        },
        {},
    ),
    (
        "a namespace of a consumer",
        {CONSUMER: [namespace("default", env="prod")]},
        {(CONSUMER, "denied", "provider-prod"): 26},
    ),
    (
        "a namespace of the provider",
        {PROVIDER: [namespace("default", env="prod")]},
        {(PROVIDER, "denied", "provider-prod"): 8},
    ),
    (
        "a parameter of the provider",
        {PROVIDER: [limits("1")]},
        {(CONSUMER, "denied", "provider-size"): 3, (PROVIDER, "denied", "provider-size"): 3},
    ),
    (
        "a binding to the provider",
        {LOCAL: [bound("widgets")]},
        {
            (LOCAL, "denied", "provider-audit-authorizer"): 1,
            (LOCAL, "denied", "provider-authorizer"): 1,
            (LOCAL, "denied", "provider-cluster-annotation"): 2,
            (LOCAL, "denied", "provider-intent"): 6,
            (LOCAL, "denied", "provider-size"): 1,
        },
    ),
    ("a binding to nobody known", {LOCAL: [bound("widgets", "root:elsewhere")]}, {(LOCAL, "undetermined", ""): 18}),
    (
        "an export without the resource",
        {PROVIDER: [exporting("plants")]},
        {(CONSUMER, "undetermined", ""): 64, (PROVIDER, "undetermined", ""): 26},
    ),
]


@pytest.mark.parametrize(("planned", "expected"), [row[1:] for row in CHANGES], ids=[row[0] for row in CHANGES])
def test_a_change_counts_in_its_workspace(
    tmp_path: Path, planned: dict[str, list[Any]], expected: dict[tuple[str, str, str], int]
) -> None:
    assert counted(changed(tmp_path, planned)) == expected


def test_a_binding_that_is_gone_leaves_the_resource_to_nobody(tmp_path: Path) -> None:
    planned = {CONSUMER: without_widgets(objects(CONSUMER, "apibindings"))}
    lines = changed(tmp_path, planned, with_bindings=True)
    reasons = {each["reason"] for line in lines for each in line["candidate"]["undetermined"]}
    assert {line["workspace"] for line in lines} == {CONSUMER}
    assert reasons == {
        f"no APIBinding of the candidate binds {each}.example.org, and the workspace does not define it"
        for each in ("widgets", "plants")
    }


def test_a_request_that_another_workspace_would_decide_about_says_so(tmp_path: Path) -> None:
    lines = changed(tmp_path, {LOCAL: [bound("widgets")]})
    where = {(line["policyWorkspace"], line["candidatePolicyWorkspace"]) for line in lines}
    denials = {each["policyWorkspace"] for line in lines for each in line["candidate"]["denials"]}
    assert (where, denials) == ({(LOCAL, PROVIDER)}, {PROVIDER})


def test_differences_name_what_changes_beside_policies(tmp_path: Path) -> None:
    for name, maximum in (("current", "10"), ("candidate", "1")):
        (tmp_path / name / "root.provider").mkdir(parents=True)
        (tmp_path / name / "root.provider" / "limits.json").write_text(json.dumps(limits(maximum)))
    (found,) = diff_folders(tmp_path / "current", tmp_path / "candidate", Versions(SHARD_VERSION, SHARD_VERSION))
    (field,) = found.fields
    assert (found.kind, found.name, found.verb) == ("ConfigMap", "root:provider/default/widget-limits", "changed")
    assert (field.field, field.old, field.new) == ("data.max", "10", "1")

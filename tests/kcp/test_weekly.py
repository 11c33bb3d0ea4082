"""What a weekly report says of the workspaces of a shard."""

from __future__ import annotations

import json
from datetime import UTC
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from replay.errors import ReplayError
from replay.kcp.shard.layout import SHARD_VERSION
from replay.pipeline.options import Focus, Options
from replay.pipeline.scan import ScanOptions, scan
from replay.pipeline.scenario import Scenario
from replay.pipeline.weekly.report import WeeklyQuestion, weekly, weekly_markdown
from replay.report.weekly.json import weekly_json

SAMPLE = Path(__file__).parents[2] / "sample_audit" / "kcp"
SCENARIO = Scenario(
    (str(SAMPLE / "audit.jsonl.zst"),),
    current=SAMPLE / "current",
    candidate=SAMPLE / "candidate",
    cluster=SAMPLE / "cluster",
    version=SHARD_VERSION,
)


def silent(what: str, done: int, total: int) -> None:
    del what, done, total


@cache
def report(*workspaces: str) -> tuple[dict[str, Any], str]:
    options = Options(workers=1, focus=Focus(workspaces=workspaces))
    found = weekly(SCENARIO, WeeklyQuestion(), options, silent)
    return json.loads(weekly_json(found)), weekly_markdown(found, UTC, brief=False)


def consumers(value: dict[str, Any]) -> dict[str, tuple[int, int]]:
    return {each["workspace"]: (each["newlyDenied"], each["actions"].get("deny", 0)) for each in value["workspaces"]}


def test_policies_are_told_apart_by_their_workspace_and_counted_by_consumer() -> None:
    value, text = report()
    for each in (*value["actions"], *value["promotions"], *value["mutations"]):
        assert each["policy"].startswith(f"{each['policyWorkspace']}/")
    assert "## By consumer" in text
    denied = sum(each["requests"] for each in value["actions"] if each["action"] == "deny")
    assert denied == sum(logged for _, logged in consumers(value).values())
    planned = [each for each in value["promotions"] if each["side"] == "candidate"]
    newly = sum(each["requests"] - each["deniedAnyway"] for each in planned)
    assert newly == sum(count for count, _ in consumers(value).values()) > 0
    assert "atRest" not in value


def test_some_workspaces_alone() -> None:
    whole, value = report()[0], report("root:consumer-*")[0]
    chosen = {path: counts for path, counts in consumers(whole).items() if path.startswith("root:consumer-")}
    assert consumers(value) == chosen
    assert 0 < value["requests"] < whole["requests"]
    assert set(value["users"]) <= set(whole["users"])
    assert all(each["namespace"].startswith("root:consumer-") for each in value["denials"])


def test_no_such_workspace() -> None:
    with pytest.raises(ReplayError, match=r"--workspace: the log has no workspace root:nobody: it has "):
        report("root:nobody")


def test_what_is_at_rest_is_not_mixed() -> None:
    with pytest.raises(ReplayError, match="scan does not support several kcp workspaces"):
        scan(SCENARIO, ScanOptions(), silent)

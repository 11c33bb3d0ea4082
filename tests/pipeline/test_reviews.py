"""The requests that webhooks recorded, replayed: the decisions are those of the server."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from replay.pipeline.options import Options
from replay.pipeline.run import run
from replay.pipeline.scenario import Scenario

SHOP = Path(__file__).parents[3] / "shared" / "recordings" / "shop"
_KEYS = ("policy", "binding", "message", "reason", "code")


def expected() -> dict[str, dict[str, Any]]:
    with pa.CompressedInputStream(str(SHOP / "expected/validating.jsonl.zst"), "zstd") as stream:
        lines = stream.read().splitlines()
    return {line["auditID"]: line for line in map(json.loads, lines)}


def denials(decision: dict[str, Any]) -> list[list[Any]]:
    return [[denial.get(key) for key in _KEYS] for denial in decision.get("denials") or ()]


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.skipif(not SHOP.exists(), reason="the recordings do not lie beside the checkout")
def test_recorded_reviews_are_decided_as_the_server_did(tmp_path: Path) -> None:
    shutil.copytree(SHOP / "candidate/vap", tmp_path / "next/vap")
    scenario = Scenario(
        (str(SHOP / "expected/attributes.jsonl.zst"),),
        current=SHOP / "current",
        candidate=tmp_path / "next",
        cluster=SHOP / "cluster.jsonl.zst",
    )
    outcomes = tmp_path / "outcomes.jsonl"
    run(scenario, Options(workers=1, outcomes=outcomes), lambda *_: None)
    server, checked = expected(), 0
    for line in map(json.loads, outcomes.read_bytes().splitlines()):
        want = server.get(line["auditID"])
        if want is None or not want["reached"]:
            continue
        for side in ("current", "candidate"):
            if want[side] is not None:
                assert line[side]["verdict"] != "undetermined", line
                assert denials(line[side]) == denials(want[side]), line
                checked += 1
    assert checked == 4076

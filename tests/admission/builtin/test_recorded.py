"""Every plugin against the real one: the requests of a recording under each configuration of the corpus."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from replay.case.plugin import PluginWorld, configured_plugin, read_config
from replay.pipeline.plugin import case_results, logged_requests, recorded_results
from replay.pipeline.scenario import Scenario
from replay.reconstruct.snapshot import numbered_lines, read_snapshot
from replay.world.order import LoggedRequest

SHARED = Path(__file__).parents[3].parent / "shared"
SHOP = SHARED / "recordings" / "shop"
RECORDED = re.compile(r"^recorded: true", re.MULTILINE)
CONFIGS = [
    path for path in sorted((SHARED / "builtin").glob("*/config-*.yaml")) if RECORDED.search(path.read_text("utf-8"))
]
UNDETERMINED = {
    "OwnerReferencesPermissionEnforcement deny-all": {
        "audit level Metadata does not record bodies": 71,
        "the log has the patch": 1,
    },
}
"""How often which reason is given, by a part of it; nothing is undetermined elsewhere."""


@pytest.fixture(scope="module")
def requests() -> list[LoggedRequest]:
    scenario = Scenario((str(SHOP / "audit.jsonl.zst"),), cluster=SHOP / "cluster.jsonl.zst")
    return list(logged_requests(scenario, lambda *_: None))


@pytest.fixture(scope="module")
def snapshot() -> list[Any]:
    return read_snapshot(SHOP / "cluster.jsonl.zst")


def _name(config: Path) -> str:
    return f"{config.parent.name} {config.stem.removeprefix('config-')}"


@pytest.mark.shared
@pytest.mark.slow
@pytest.mark.skipif(not CONFIGS, reason="the corpus is not beside the checkout")
@pytest.mark.parametrize("config", CONFIGS, ids=_name)
def test_recorded_then_synthetic_requests(config: Path, requests: Sequence[LoggedRequest], snapshot: list[Any]) -> None:
    read = read_config(config, config.parent.name)
    plugin, world = configured_plugin(read), PluginWorld(read, snapshot)
    found = [*recorded_results(plugin, world, requests)]
    after = configured_plugin(read) if plugin.is_timed else plugin
    found += case_results(after, world, numbered_lines(config.parent / "requests.jsonl.zst"), "")
    lines = [orjson.loads(orjson.dumps(each)) for each in found]
    expected = config.with_name(config.name.replace("config-", "expected-")).with_suffix(".jsonl.zst")
    wanted = [orjson.loads(text) for _, text in numbered_lines(expected)]
    assert [each for each in lines if "undetermined" not in each] == wanted
    reasons = Counter(each["undetermined"][0] for each in lines if "undetermined" in each)
    parts = UNDETERMINED.get(_name(config), {})
    counted = {part: sum(n for reason, n in reasons.items() if part in reason) for part in parts}
    assert (counted, sum(reasons.values())) == (parts, sum(parts.values()))

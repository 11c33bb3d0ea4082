"""Every plugin against the real one: synthetic requests under each configuration of the corpus."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import orjson
import pytest

from replay.admission.builtin.registry import BY_NAME
from replay.case.plugin import PluginWorld, configured_plugin, read_config
from replay.pipeline.plugin import case_results
from replay.reconstruct.snapshot import numbered_lines, read_snapshot

SHARED = Path(__file__).parents[3].parent / "shared"
BUILTIN = SHARED / "builtin"
FOLLOWS = re.compile(r"^(namespaceState|startNamespaces):", re.MULTILINE)
"""Configurations whose requests find what the recording, asked before them, has left."""
CONFIGS = [path for path in sorted(BUILTIN.glob("*/config-*.yaml")) if not FOLLOWS.search(path.read_text("utf-8"))]


@pytest.fixture(scope="module")
def snapshot() -> list[Any]:
    return read_snapshot(SHARED / "recordings" / "shop" / "cluster.jsonl.zst")


@pytest.mark.shared
@pytest.mark.skipif(not CONFIGS, reason="the corpus is not beside the checkout")
@pytest.mark.parametrize(
    "config",
    [path for path in CONFIGS if path.parent.name in BY_NAME],
    ids=lambda path: f"{path.parent.name} {path.stem.removeprefix('config-')}",
)
def test_synthetic_requests(config: Path, snapshot: list[Any]) -> None:
    read = read_config(config, config.parent.name)
    requests = config.parent / "requests.jsonl.zst"
    world = PluginWorld(read, snapshot)
    found = [_plain(each) for each in case_results(configured_plugin(read), world, numbered_lines(requests), "")]
    expected = config.with_name(config.name.replace("config-", "expected-")).with_suffix(".jsonl.zst")
    wanted = [line for _, text in numbered_lines(expected) if (line := orjson.loads(text)).get("synthetic")]
    assert [each["id"] for each in found] == [each["id"] for each in wanted]
    assert [(one, other) for one, other in zip(found, wanted, strict=True) if one != other] == []


def _plain(line: Any) -> Any:
    """As a reader of the file sees it."""
    return orjson.loads(orjson.dumps(line))

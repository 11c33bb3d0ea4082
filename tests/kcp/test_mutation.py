"""What kcp itself changes of objects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from replay.compare.attribution import Actor
from replay.kcp.mutation import set_by_plugins
from replay.kcp.shard.layout import SHARD_VERSION
from replay.pipeline.forensic.mutations import mutations
from replay.pipeline.options import Options
from replay.pipeline.scenario import Scenario

SAMPLE = Path(__file__).parents[2] / "sample_audit" / "kcp"
RECORDING = Path(__file__).parents[2].parent / "shared" / "recordings" / "kcp"


def of_metadata(**fields: Any) -> dict[str, Any]:
    return {"metadata": fields}


CLAIM = "claimed.internal.apis.kcp.io/225"
SET = [
    ("nothing", "", of_metadata(), of_metadata(), set()),
    ("of the storage", "", of_metadata(), of_metadata(annotations={"kcp.io/cluster": "2a"}), set()),
    ("of a client", "", of_metadata(), of_metadata(labels={"team": "a"}), set()),
    ("a label", "", of_metadata(), of_metadata(labels={CLAIM: "x", "a": "b"}), {("metadata", "labels", CLAIM)}),
    ("taken off", "", of_metadata(labels={CLAIM: "x"}), of_metadata(), {("metadata", "labels", CLAIM)}),
    (
        "a path",
        "apis.kcp.io",
        of_metadata(),
        of_metadata(annotations={"kcp.io/path": "root"}, finalizers=["f"]),
        {("metadata", "annotations", "kcp.io/path"), ("metadata", "finalizers")},
    ),
    ("finalizers of others", "example.org", of_metadata(), of_metadata(finalizers=["f"]), set()),
    ("a phase", "core.kcp.io", {}, {"status": {"phase": "Ready", "url": "u"}}, {("status", "phase")}),
    ("a status that is reset", "core.kcp.io", {"status": {"phase": "Ready"}}, {}, set()),
]


@pytest.mark.parametrize(("group", "sent", "stored", "expected"), [row[1:] for row in SET], ids=[row[0] for row in SET])
def test_what_plugins_of_kcp_set(group: str, sent: Any, stored: Any, expected: set[tuple[str, ...]]) -> None:
    assert set(set_by_plugins(group, sent, stored)) == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("log", "current", "cluster"),
    [
        (SAMPLE, SAMPLE / "current", SAMPLE / "cluster"),
        pytest.param(
            RECORDING,
            RECORDING / "before",
            RECORDING / "before",
            marks=[pytest.mark.shared, pytest.mark.skipif(not RECORDING.is_dir(), reason="the recording is not there")],
        ),
    ],
    ids=["sample", "recording"],
)
def test_nothing_is_left_unknown(log: Path, current: Path, cluster: Path) -> None:
    scenario = Scenario((str(log / "audit.jsonl.zst"),), current=current, cluster=cluster, version=SHARD_VERSION)
    found = mutations(scenario, Options(workers=1), lambda _what, _done, _total: None).attributions
    assert found.compared
    assert not [key for key in found.groups if key.actor is Actor.UNKNOWN]
    named = {(key.actor, key.name) for key in found.groups if key.actor in (Actor.POLICY, Actor.WEBHOOK)}
    assert named >= {
        (Actor.POLICY, "root:provider/provider-map"),
        (Actor.WEBHOOK, "root:provider/mutate.provider.example.org"),
    }
    assert all("/" in name for _, name in named)
    namespaces = {cell.example.namespace for key, cell in found.groups.items() if key.actor is Actor.POLICY}
    assert namespaces <= {"root:consumer-a default", "root:provider default"}

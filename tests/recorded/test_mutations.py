"""What `replay run` says is mutated, against what the mutating policies of a real kube-apiserver 1.37 changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest

from replay.audit.part import StorePart
from replay.audit.store import Store
from replay.compare.outcome import MUTATIONS
from replay.compare.result import RunResult
from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject
from replay.kube.json_patch import apply, equal
from replay.pipeline.manifests import manifests_of
from replay.pipeline.options import Options
from replay.pipeline.replay.preparation import job_of
from replay.pipeline.scenario import Scenario
from tests.support.shared_run import shared_run

SAMPLE = Path(__file__).parents[2] / "sample_audit" / "shop"
SHARED = Path(__file__).parents[2].parent / "shared" / "recordings" / "shop"


@pytest.fixture(scope="module", params=["sample", pytest.param("shared", marks=[pytest.mark.shared, pytest.mark.slow])])
def recording(request: pytest.FixtureRequest) -> Path:
    folder = SAMPLE if request.param == "sample" else SHARED
    if not folder.is_dir():
        pytest.skip("the full recording is not beside the checkout")
    return folder


@pytest.fixture(scope="module")
def replayed(recording: Path, common: Path) -> tuple[RunResult, list[dict[str, Any]]]:
    result, path = shared_run(common, recording)
    return result, [orjson.loads(line) for line in path.read_bytes().splitlines()]


@pytest.fixture(scope="module")
def expected(recording: Path) -> dict[str, list[JSON]]:
    path = recording / "expected" / "mutating.jsonl.zst"
    with pa.CompressedInputStream(pa.OSFile(str(path)), "zstd") as stream:
        return {each["auditID"]: each["patch"] for each in map(orjson.loads, stream.read().splitlines())}


def test_every_changed_request_is_found_and_no_other(
    recording: Path, replayed: tuple[RunResult, list[dict[str, Any]]], expected: dict[str, list[JSON]], tmp_path: Path
) -> None:
    """Those included that failed before validation, and those that the current set denied: 100 %, by the objects."""
    before = objects_before(recording, tmp_path)
    count: Counter[str] = Counter()
    for line in replayed[1]:
        patch, wanted = line["candidate"]["patch"], expected.get(line["auditID"])
        if not patch and wanted is None:
            count["unchanged"] += 1
            continue
        value = before[line["auditID"]]
        right = wanted is not None and equal(apply(value, patch), apply(value, wanted))
        count["right" if right and patch else line["auditID"]] += 1
    assert set(count) == {"unchanged", "right"}
    assert count["right"] == len(expected)


def objects_before(recording: Path, directory: Path) -> dict[str, JSON]:
    """The objects with which the mutating phase begins, as they are rebuilt; what is not known in them is null."""
    found = Scenario((str(recording),)).resolved()
    values: dict[str, JSON] = {}
    with Store.open(None) as store:
        store.ingest(found.logs, lambda _what, _done, _total: None)
        job = job_of(store, manifests_of(found), Options(), directory)
        parts: Sequence[StorePart] = [store.part(number) for number in range(store.parts)]
        for part in parts:
            for records in part.objects(job.predicate):
                for request in job.reconstructor.requests(records):
                    if not isinstance(request.before_mutation, Missing):
                        values[request.record.audit_id] = plain(request.before_mutation.object)
    return values


def plain(value: Any) -> JSON:
    if isinstance(value, PartialObject):
        value = value.value
    if isinstance(value, Missing):
        return None
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


def test_each_change_has_its_policy(replayed: tuple[RunResult, list[dict[str, Any]]]) -> None:
    """The patches of the policies one after the other are the patch, and every finding says who."""
    result, lines = replayed
    for line in lines:
        decision = line["candidate"]
        assert bool(decision["patch"]) == bool(decision.get("mutatedBy"))
    cells = [(key, cell) for key, cell in result.summary.cells.items() if key.outcome in MUTATIONS]
    assert cells
    for key, cell in cells:
        assert len(key.policies) == len(key.shapes) > 0
        assert all(key.shapes)
        assert cell.examples[0].patch
    for (_, _, shapes), example in result.summary.changes.groups.items():
        assert shapes
        assert not equal(example.current, example.candidate)


def test_chains_are_found(replayed: tuple[RunResult, list[dict[str, Any]]]) -> None:
    """A defaulted label heals the denial of the policy that asks for it."""
    healed = {
        (chain.effect, chain.mutators, chain.policy)
        for chain in replayed[0].summary.chains
        if chain.policy == "team-label.static.k8s.io"
    }
    assert healed == {("healed", ("default-team.static.k8s.io",), "team-label.static.k8s.io")}

"""The decisions of a real kube-apiserver 1.37 against those of `replay run`: every decided one must be equal."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest

from replay.audit.answer import VALIDATION_FAILURE
from replay.compare.outcome import OutcomeKind
from replay.compare.result import RunResult
from replay.pipeline.options import Options
from replay.pipeline.run import run
from replay.pipeline.scenario import Scenario
from tests.support.shared_run import shared_run

SAMPLE = Path(__file__).parents[2] / "sample_audit" / "shop"
SHARED = Path(__file__).parents[2].parent / "shared" / "recordings" / "shop"
DENIAL = ("policy", "binding", "message", "reason", "code")


@dataclass(frozen=True)
class Replayed:
    """A run with its outcome lines by audit id; `deletecollection` events have several."""

    result: RunResult
    lines: dict[str, dict[str, Any]]


@pytest.fixture(scope="module", params=["sample", pytest.param("shared", marks=[pytest.mark.shared, pytest.mark.slow])])
def recording(request: pytest.FixtureRequest) -> Path:
    if request.param == "sample":
        return SAMPLE
    if not SHARED.is_dir():
        pytest.skip("the full recording is not beside the checkout")
    return SHARED


def replayed(found: Scenario, directory: Path) -> Replayed:
    lines = directory / "outcomes.jsonl"
    return read(run(found, Options(outcomes=lines, workers=1), lambda _what, _done, _total: None), lines)


def read(result: RunResult, lines: Path) -> Replayed:
    outcomes: dict[str, dict[str, Any]] = {}
    for line in lines.read_bytes().splitlines():
        value = orjson.loads(line)
        outcomes.setdefault(value["auditID"], value)
    return Replayed(result, outcomes)


@pytest.fixture(scope="module")
def validating(recording: Path, tmp_path_factory: pytest.TempPathFactory) -> Replayed:
    """The validating policies of both sets alone, as the expectation has them."""
    directory = tmp_path_factory.mktemp("validating")
    shutil.copytree(recording / "candidate" / "vap", directory / "candidate" / "vap")
    return replayed(Scenario((str(recording),), candidate=directory / "candidate").resolved(), directory)


@pytest.fixture(scope="module")
def chain(recording: Path, common: Path) -> Replayed:
    return read(*shared_run(common, recording))


def expected(recording: Path, phase: str) -> Iterator[dict[str, Any]]:
    with pa.CompressedInputStream(pa.OSFile(str(recording / "expected" / f"{phase}.jsonl.zst")), "zstd") as stream:
        yield from map(orjson.loads, stream.read().splitlines())


def effects(decision: dict[str, Any]) -> tuple[Any, ...]:
    """Denials, warnings and annotations, the entries of `validation_failure` parsed."""
    annotations = dict(decision["auditAnnotations"])
    if isinstance(annotations.get(VALIDATION_FAILURE), str):
        annotations[VALIDATION_FAILURE] = orjson.loads(annotations[VALIDATION_FAILURE])
    denials = [tuple(denial[key] for key in DENIAL) for denial in decision["denials"]]
    return denials, list(decision["warnings"]), annotations


def test_validating_decisions_are_the_servers(recording: Path, validating: Replayed) -> None:
    count: Counter[str] = Counter()
    wrong = []
    for want in expected(recording, "validating"):
        got = validating.lines[want["auditID"]]
        if not want["reached"]:
            assert {got["current"]["verdict"], got["candidate"]["verdict"]} <= {
                "not_reached",
                "admitted",
                "undetermined",
            }
            continue
        for side in ("current", "candidate"):
            if got[side]["verdict"] == "undetermined":
                count["undetermined"] += 1
                continue
            count["decided"] += 1
            if got[side]["verdict"] == "not_reached" or effects(got[side]) != effects(want[side]):
                wrong.append((want["auditID"], side, effects(got[side]), effects(want[side])))
    assert wrong == []
    assert count["decided"] >= 0.995 * count.total()


def test_the_log_is_reproduced_by_the_current_set(validating: Replayed) -> None:
    fidelity = validating.result.fidelity
    assert fidelity.disagreements == []
    assert fidelity.denials.observed > 0
    for agreement in (fidelity.denials, fidelity.failures, fidelity.annotations):
        assert (agreement.reproduced, agreement.extra) == (agreement.observed, 0)


def test_chain_decisions_are_the_servers(recording: Path, chain: Replayed) -> None:
    count: Counter[str] = Counter()
    wrong = []
    for want in expected(recording, "chain"):
        got = chain.lines[want["auditID"]]["candidate"]
        count[got["verdict"]] += 1
        if got["verdict"] == "undetermined":
            continue
        denials = [tuple(denial[key] for key in DENIAL) for denial in got["denials"]]
        wanted = [tuple(denial[key] for key in DENIAL) for denial in want["denials"]]
        if denials != wanted or operations(got["patch"]) != operations(want["patch"]):
            wrong.append((want["auditID"], got, want))
    assert wrong == []
    assert count["undetermined"] <= 0.005 * count.total()


def operations(patch: list[Any]) -> list[bytes]:
    return sorted(orjson.dumps(operation, option=orjson.OPT_SORT_KEYS) for operation in patch)


def test_the_same_set_twice_changes_nothing(recording: Path, tmp_path: Path) -> None:
    found = Scenario((str(recording),), current=recording / "candidate").resolved()
    result = replayed(found, tmp_path).result
    changes = {kind: n for kind, n in result.summary.outcomes.items() if kind != OutcomeKind.UNCHANGED}
    assert set(changes) <= {OutcomeKind.UNDETERMINED}
    assert result.summary.outcomes[OutcomeKind.UNCHANGED] > 1000

"""A thinner log decides less, and never otherwise: the recording without bodies, halved, and with lines lost."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest

from replay.audit.answer import VALIDATION_FAILURE
from replay.pipeline.options import Options
from replay.pipeline.run import run
from replay.pipeline.scenario import Scenario

SAMPLE = Path(__file__).parents[2] / "sample_audit" / "shop"
SHARED = Path(__file__).parents[2].parent / "shared" / "recordings" / "shop"
DENIAL = ("policy", "binding", "message", "reason", "code")

Lines = list[bytes]


@pytest.fixture(scope="module")
def recording(request: pytest.FixtureRequest) -> Path:
    if request.param == "sample":
        return SAMPLE
    if not SHARED.is_dir():
        pytest.skip("the full recording is not beside the checkout")
    return SHARED


@pytest.fixture(scope="module")
def log(recording: Path) -> Lines:
    return lines(recording / "audit.jsonl.zst")


def lines(path: Path) -> Lines:
    with pa.CompressedInputStream(pa.OSFile(str(path)), "zstd") as stream:
        found: Lines = stream.read().splitlines()
    return found


def at_level(level: str) -> Callable[[Lines], Iterator[bytes]]:
    """What a server writes that records everything at one level."""

    def thin(log: Lines) -> Iterator[bytes]:
        for line in log:
            event = orjson.loads(line)
            if event["level"] == "RequestResponse":
                event["level"] = level
            event.pop("responseObject", None)
            if level == "Metadata":
                event.pop("requestObject", None)
                annotations = event.get("annotations") or {}
                event["annotations"] = {
                    key: value for key, value in annotations.items() if not key.startswith("patch.webhook.")
                }
            yield orjson.dumps(event)

    return thin


def without_managed_fields(log: Lines) -> Iterator[bytes]:
    """What a server writes whose policy says `omitManagedFields`."""
    for line in log:
        event = orjson.loads(line)
        for body in (event.get("requestObject"), event.get("responseObject")):
            for obj in (body, *((body.get("items") or ()) if isinstance(body, dict) else ())):
                if isinstance(obj, dict) and isinstance(obj.get("metadata"), dict):
                    obj["metadata"].pop("managedFields", None)
        yield orjson.dumps(event)


def without_a_tenth(seed: int) -> Callable[[Lines], Iterator[bytes]]:
    def thin(log: Lines) -> Iterator[bytes]:
        chance = random.Random(seed)
        return (line for line in log if chance.random() > 0.1)

    return thin


THIN: dict[str, Callable[[Lines], Iterator[bytes]]] = {
    "level Metadata": at_level("Metadata"),
    "level Request": at_level("Request"),
    "managed fields omitted": without_managed_fields,
    "second half": lambda log: iter(log[len(log) // 2 :]),
    "a tenth lost, seed 0": without_a_tenth(0),
    "a tenth lost, seed 1": without_a_tenth(1),
    "a tenth lost, seed 2": without_a_tenth(2),
    "middle lost": lambda log: iter(log[: len(log) // 3] + log[len(log) // 2 :]),
}


FAST = "second half"
"""What is lost in one row that also runs with the fast tests."""
OF_WHOLE = ("level Request", "a tenth lost, seed 0")
"""What is lost everywhere, and here and there: of the full recording; what else is lost, the cut shows as well."""
IS_WHOLE_HERE = SHARED.is_dir()
"""The sample is cut from the full recording: where that is here, the same losses need not be tried on both."""
ROWS = [
    *(
        pytest.param("sample", thin, id=f"sample-{name}", marks=[] if name == FAST else [pytest.mark.slow])
        for name, thin in THIN.items()
        if not IS_WHOLE_HERE or name not in OF_WHOLE
    ),
    *(
        pytest.param("shared", thin, id=f"shared-{name}", marks=[pytest.mark.shared, pytest.mark.slow])
        for name, thin in THIN.items()
        if name in OF_WHOLE
    ),
]


def effects(decision: dict[str, Any]) -> tuple[Any, ...]:
    annotations = dict(decision["auditAnnotations"])
    if isinstance(annotations.get(VALIDATION_FAILURE), str):
        annotations[VALIDATION_FAILURE] = orjson.loads(annotations[VALIDATION_FAILURE])
    denials = [tuple(denial[key] for key in DENIAL) for denial in decision["denials"]]
    return denials, list(decision["warnings"]), annotations


def replayed(recording: Path, thinned: Iterator[bytes], candidate: Path, directory: Path) -> dict[str, dict[str, Any]]:
    """The outcome of each request; of a `deletecollection` the first."""
    path, outcomes = directory / "audit.jsonl", directory / "outcomes.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in thinned))
    found = Scenario(
        (str(path),),
        current=recording / "current",
        candidate=candidate,
        cluster=recording / "cluster.jsonl.zst",
    )
    run(found, Options(outcomes=outcomes, workers=1), lambda _what, _done, _total: None)
    made: dict[str, dict[str, Any]] = {}
    for value in map(orjson.loads, outcomes.read_bytes().splitlines()):
        made.setdefault(value["auditID"], value)
    return made


@pytest.mark.slow
@pytest.mark.parametrize(("recording", "thin"), ROWS, indirect=["recording"])
def test_no_verdict_of_validation_is_wrong(
    recording: Path, log: Lines, thin: Callable[[Lines], Iterator[bytes]], tmp_path: Path
) -> None:
    """Every decided verdict, of both sets, is that of the server."""
    shutil.copytree(recording / "candidate" / "vap", tmp_path / "candidate" / "vap")
    got = replayed(recording, thin(log), tmp_path / "candidate", tmp_path)
    count: Counter[str] = Counter()
    wrong: list[tuple[Any, ...]] = []
    for want in map(orjson.loads, lines(recording / "expected" / "validating.jsonl.zst")):
        outcome = got.get(want["auditID"], {})
        for side in outcome.keys() & {"current", "candidate"}:
            decision = outcome[side]
            if not want["reached"]:
                if decision["verdict"] == "denied":
                    wrong.append((want["auditID"], side, "denied, but never validated"))
                continue
            count[f"{side} {decision['verdict']}"] += 1
            if decision["verdict"] == "undetermined":
                continue
            if decision["verdict"] == "not_reached" or effects(decision) != effects(want[side]):
                wrong.append((want["auditID"], side, effects(decision), effects(want[side])))
    assert wrong == []
    decided = count["candidate admitted"] + count["candidate denied"]
    print(f"decided: {100 * decided / (decided + count['candidate undetermined']):.2f} %")  # noqa: T201 - asked for
    assert decided


CHAIN_ROWS = [pytest.param("sample", thin, id=f"sample-{name}") for name, thin in THIN.items()]
"""The whole chain is held against the full recording by `test_decisions.py`; what losses do to it, the cut shows as well."""


@pytest.mark.slow
@pytest.mark.parametrize(("recording", "thin"), CHAIN_ROWS, indirect=["recording"])
def test_no_verdict_of_the_chain_is_wrong(
    recording: Path, log: Lines, thin: Callable[[Lines], Iterator[bytes]], tmp_path: Path
) -> None:
    """Every decided patch and denial of the candidate is that of the server."""
    got = replayed(recording, thin(log), recording / "candidate", tmp_path)
    wrong = []
    for want in map(orjson.loads, lines(recording / "expected" / "chain.jsonl.zst")):
        outcome = got.get(want["auditID"])
        if outcome is None or outcome["candidate"]["verdict"] == "undetermined":
            continue
        decision = outcome["candidate"]
        for name, found, expected in (
            ("denials", _denials(decision), _denials(want)),
            ("patch", _operations(decision["patch"]), _operations(want["patch"])),
        ):
            if found != expected:
                wrong.append((want["auditID"], name, found, expected))
    assert wrong == []


def _denials(decision: dict[str, Any]) -> list[Any]:
    return [tuple(denial[key] for key in DENIAL) for denial in decision["denials"]]


def _operations(patch: list[Any]) -> list[bytes]:
    return sorted(orjson.dumps(operation, option=orjson.OPT_SORT_KEYS) for operation in patch)

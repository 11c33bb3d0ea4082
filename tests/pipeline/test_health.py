"""What is odd about a log or a snapshot is said, and decides nothing wrong."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest

from replay.pipeline.options import Options
from replay.pipeline.run import run
from replay.pipeline.scenario import Scenario
from replay.reconstruct.snapshot import read_snapshot

SAMPLE = Path(__file__).parents[2] / "sample_audit" / "shop"
LINES = 3200
"""Of the sample: enough to know what is odd."""
OVERLAP = "2 files overlap in time, as files of several API servers do. Requests are ordered by time"
WRITES, AT = "the log itself writes", "2026-11-21 03:04:05 UTC"
THROUGH = "through the API: both sets count as in force for the whole log, so no verdict includes this change (`replay verify` shows it)"
DECIDED = ("denials", "warnings", "auditAnnotations", "patch")

Event = dict[str, Any]
Files = dict[str, list[Event]]


@pytest.fixture(scope="module")
def log() -> list[Event]:
    with pa.CompressedInputStream(pa.OSFile(str(SAMPLE / "audit.jsonl.zst")), "zstd") as stream:
        return [orjson.loads(line) for line in stream.read().splitlines()[:LINES]]


def replayed(files: Files, directory: Path, cluster: Path) -> tuple[tuple[str, ...], dict[tuple[str, int], Any]]:
    """The notes of a run, and its outcomes by audit id and item."""
    paths = []
    for name, events in files.items():
        paths.append(directory / name)
        paths[-1].write_bytes(b"".join(orjson.dumps(event) + b"\n" for event in events))
    outcomes = directory / "outcomes"
    found = Scenario(
        tuple(map(str, paths)), current=SAMPLE / "current", candidate=SAMPLE / "candidate", cluster=cluster
    )
    result = run(found, Options(outcomes=outcomes, workers=1), lambda _what, _done, _total: None)
    values = map(orjson.loads, outcomes.read_bytes().splitlines())
    return result.notes, {(value["auditID"], value.get("item", 0)): value for value in values}


@pytest.fixture(scope="module")
def truth(log: list[Event], tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], Any]:
    notes, outcomes = replayed({"whole": log}, tmp_path_factory.mktemp("whole"), SAMPLE / "cluster.jsonl.zst")
    assert notes == ()
    return outcomes


def is_of_second_server(event: Event) -> bool:
    return bool(zlib.crc32(event["auditID"].encode()) % 2)


def by_server(log: list[Event], change: Callable[[Event], Event] = lambda event: event) -> Files:
    return {
        "a": [event for event in log if not is_of_second_server(event)],
        "b": [change(event) for event in log if is_of_second_server(event)],
    }


def later(seconds: float) -> Callable[[Event], Event]:
    def shifted(event: Event) -> Event:
        times = {}
        for name in ("requestReceivedTimestamp", "stageTimestamp"):
            at = datetime.fromisoformat(f"{event[name].rstrip('Z')}+00:00") + timedelta(seconds=seconds)
            times[name] = f"{at:%Y-%m-%dT%H:%M:%S.%fZ}"
        return {**event, **times}

    return shifted


CASES: list[tuple[str, Callable[[list[Event]], Files], tuple[str, ...], float]] = [
    ("two servers", by_server, (OVERLAP,), 1.0),
    (
        "files named against time",
        lambda log: {"b": log[: len(log) // 2], "a": log[len(log) // 2 :]},
        ("the file names are not in the order of time",),
        1.0,
    ),
    ("lines out of order", lambda log: {"a": log[::-1]}, (), 1.0),
    ("a file twice", lambda log: {"a": log, "b": log[len(log) // 3 :]}, (), 1.0),
    (
        "clocks half a second apart",
        lambda log: by_server(log, later(0.5)),
        (OVERLAP, "the clocks of b and a differ by "),
        0.99,
    ),
    (
        "clocks three seconds apart",
        lambda log: by_server(log, later(-3)),
        ("the log has gaps", OVERLAP, "the clocks of a and b differ by "),
        0.9,
    ),
    (
        "the middle is missing",
        lambda log: {"a": log[: len(log) // 4] + log[3 * len(log) // 4 :]},
        ("the log has gaps", "the log has no events from 2026-11-21 "),
        0.4,
    ),
    (
        "two minutes of silence",
        lambda log: {"a": log[: len(log) // 2] + list(map(later(120), log[len(log) // 2 :]))},
        ("the log has no events from 2026-11-21 ",),
        0.9,
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("change", "notes", "least"), [row[1:] for row in CASES], ids=[row[0] for row in CASES])
def test_odd_logs(
    change: Callable[[list[Event]], Files],
    notes: tuple[str, ...],
    least: float,
    log: list[Event],
    truth: dict[tuple[str, int], Any],
    tmp_path: Path,
) -> None:
    """Each oddity is named; what is decided all the same is decided as before, and `least` of it is."""
    said, outcomes = replayed(change(log), tmp_path, SAMPLE / "cluster.jsonl.zst")
    assert len(said) == len(notes)
    assert all(one.startswith(start) for one, start in zip(said, notes, strict=True)), said
    decided = 0
    for key, outcome in outcomes.items():
        for side in ("current", "candidate"):
            got, want = outcome[side], truth[key][side]
            if "undetermined" in (got["verdict"], want["verdict"]):
                continue
            decided += 1
            assert [got[name] for name in DECIDED] == [want[name] for name in DECIDED], key
    assert decided >= least * 2 * len(truth) * 0.99


@pytest.mark.slow
def test_a_snapshot_of_another_cluster(log: list[Event], tmp_path: Path) -> None:
    """Its objects have the same names and other uids."""
    objects = read_snapshot(SAMPLE / "cluster.jsonl.zst")
    for obj in objects:
        obj["metadata"]["uid"] = f"other-{obj['metadata'].get('uid')}"
    cluster = tmp_path / "cluster.jsonl"
    cluster.write_bytes(b"".join(orjson.dumps(obj) + b"\n" for obj in objects))
    notes, _ = replayed({"a": log}, tmp_path, cluster)
    (note,) = notes
    assert "objects have another uid in the snapshot than in the log" in note


@pytest.mark.parametrize(
    ("written", "notes"),
    [
        pytest.param([("validatingadmissionpolicies", "a", 201)], (), id="a policy, which does nothing by itself"),
        pytest.param([("validatingadmissionpolicybindings", "a", 422)], (), id="a binding that is refused"),
        pytest.param(
            [("validatingadmissionpolicybindings", "a", 201)],
            (f"{WRITES} a of validatingadmissionpolicybindings from {AT} on {THROUGH}",),
            id="a binding",
        ),
        pytest.param(
            [("mutatingwebhookconfigurations", name, 201) for name in "abcde"],
            (
                f"{WRITES} {', '.join(f'{each} of mutatingwebhookconfigurations from {AT} on' for each in 'abc')} and 2 more {THROUGH}",
            ),
            id="more than a sentence has room for",
        ),
    ],
)
def test_what_the_log_puts_in_force(
    written: list[tuple[str, str, int]], notes: tuple[str, ...], log: list[Event], tmp_path: Path
) -> None:
    events = [
        {
            **log[-1],
            "auditID": f"written-{name}",
            "verb": "create",
            "objectRef": {
                "resource": resource,
                "apiGroup": "admissionregistration.k8s.io",
                "apiVersion": "v1",
                "name": name,
            },
            "responseStatus": {"code": code},
            "stageTimestamp": "2026-11-21T03:04:05.000000Z",
            "requestReceivedTimestamp": "2026-11-21T03:04:05.000000Z",
        }
        for resource, name, code in written
    ]
    said, _ = replayed({"a": [*log[:50], *events]}, tmp_path, SAMPLE / "cluster.jsonl.zst")
    assert tuple(each for each in said if each.startswith(WRITES)) == notes

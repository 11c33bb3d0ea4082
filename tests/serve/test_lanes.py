"""The work in the background: which trial is due, up to which request it is decided, and what the processes are given."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import orjson
import pytest
from msgspec.structs import replace

from replay.audit.store import Store
from replay.serve.processes import Ingest
from replay.serve.runner import ArrivalLane, Run, WholeStoreLane, sets_digest
from replay.serve.settings import Receiving, ServeSettings
from replay.serve.stores import LogState, Stores
from replay.serve.trials import SUMMARY, ResultKey, TrialBoard, TrialPhase, WorkProgress
from tests.serve.conftest import NODE, ROW, state_of, summary
from tests.support.short_sample import write_first_lines


class Growing(Stores):
    """A store that grows each time that it is looked at, up to a last state."""

    def __init__(self, *requests: int) -> None:
        """Take the counts of requests. The last request of each is at the same number of microseconds."""
        super().__init__({})
        self._left = [
            LogState(requests=count, last=count, batch=count // 10, digest=f"of {count}") for count in requests
        ]

    def log_state(self, _cluster: str) -> LogState:
        """Return the next state."""
        return self._left.pop(0) if len(self._left) > 1 else self._left[0]


class Decided(WholeStoreLane):
    """A lane whose process opens a store with 20 requests after a while."""

    runs = 0

    def ran(self, _command: list[str], work: Path, told: Callable[[Run], None]) -> tuple[str, float]:
        """Write a result."""
        self.runs += 1
        for _ in range(3):
            told(Still())  # type: ignore[arg-type]
        (work / SUMMARY).write_bytes(orjson.dumps({**summary(), "log": {"requests": 20}}))
        return "", 1.0


class Still:
    """A process that says nothing of its progress."""

    def progress(self) -> WorkProgress:
        """Return it."""
        return WorkProgress()


@pytest.mark.parametrize(
    ("requests", "covered", "store"),
    [
        pytest.param((20,), 20, "of 20", id="a store that rests"),
        pytest.param((20, 20, 30, 40), 20, "of 20", id="one that grows while it is decided"),
        pytest.param((10, 20, 30, 40), 20, "of 20", id="one that grows before it is opened, too"),
        pytest.param((10, 15, 25, 40), 40, "", id="one that was not seen as it was opened: it is decided again"),
    ],
)
def test_up_to_which_request_a_trial_is_decided(
    settings: ServeSettings, requests: tuple[int, ...], covered: int, store: str
) -> None:
    board = TrialBoard(settings)
    lane = Decided(settings, board, Growing(*requests))
    lane.work(board.states()[0])
    state = board.states()[0]
    assert (state.phase, state.covered, state.key.store) == (TrialPhase.READY, covered, store)


class Arriving(ArrivalLane):
    """A lane that notes what its process is given, and finds a row."""

    given: tuple[str, ...] = ()

    def ran(self, command: list[str], work: Path, _told: Callable[[Run], None]) -> tuple[str, float]:
        """Write a result."""
        self.given = tuple(command[command.index("--batches") + 1 :])
        (work / SUMMARY).write_bytes(orjson.dumps(summary(NODE)))
        return "", 1.0


class Arrival(NamedTuple):
    """The time of the last request and the next batch, of the result and then of the store, and the batches that are decided."""

    name: str
    decided: tuple[int, int]
    store: tuple[int, int]
    given: tuple[str, ...]


ARRIVALS = [
    Arrival("newer requests", (20, 2), (30, 4), ("2", "4")),
    Arrival("requests that come late", (20, 2), (20, 3), ("2", "3")),
    Arrival("nothing new", (20, 2), (20, 2), ()),
    Arrival("a result of an older version", (20, 0), (30, 3), ()),
]


@pytest.mark.parametrize("row", ARRIVALS, ids=lambda row: row.name)
def test_what_arrives_is_decided(settings: ServeSettings, monkeypatch: pytest.MonkeyPatch, row: Arrival) -> None:
    board, trial = TrialBoard(settings), settings.trials[0]
    key = ResultKey(sets_digest(settings, trial), "a", *row.decided)
    work = board.work_directory("next", "whole")
    (work / SUMMARY).write_bytes(orjson.dumps(summary(ROW)))
    board.publish("next", work, key, summary(ROW), 1.0)
    stores = Stores({})
    monkeypatch.setattr(stores, "log_state", lambda _cluster: LogState(last=row.store[0], batch=row.store[1]))
    lane = Arriving(settings, board, stores)
    lane.work(board.states()[0])
    state = board.states()[0]
    assert lane.given == row.given
    assert (state.covered, state.batch) == (row.store if row.given else row.decided)
    assert len(state.rows) == (2 if row.given else 1)


class Due(NamedTuple):
    """A trial with a result; `is_same` says whether its manifests are those of the result."""

    name: str
    phase: TrialPhase
    is_same: bool
    runs: int


DUE = [
    Due("a decided trial", TrialPhase.READY, True, 0),
    Due("changed manifests", TrialPhase.READY, False, 1),
    Due("manifests that are again those of the result, after others that failed", TrialPhase.FAILED, True, 1),
]


@pytest.mark.parametrize("row", DUE, ids=lambda row: row.name)
def test_a_trial_is_due(settings: ServeSettings, row: Due) -> None:
    board, trial = TrialBoard(settings), settings.trials[0]
    sets = sets_digest(settings, trial) if row.is_same else "others"
    board.put(replace(state_of(trial, summary()), phase=row.phase, key=ResultKey(sets, "of 20", 20)))
    lane = Decided(settings, board, Growing(20))
    for _ in range(2):
        lane.work(board.states()[0])
    assert lane.runs == row.runs


def test_a_trial_that_cannot_be_begun_rests(settings: ServeSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_arguments: str) -> Path:
        raise OSError("no space")

    board = TrialBoard(settings)
    monkeypatch.setattr(board, "work_directory", full)
    lane = Decided(settings, board, Growing(20))
    with pytest.raises(OSError, match="no space"):
        lane.work(board.states()[0])
    lane.failed("next", "no space")
    lane.work(board.states()[0])
    assert board.states()[0].phase is TrialPhase.FAILED


PROCESS_SAYS = (
    "import os, sys; sys.exit(os.environ.get('REPLAY_CLUSTER_NAME') or os.environ['REPLAY_CONFIG'] != os.devnull)"
)


def test_a_process_is_told_by_options_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPLAY_CLUSTER_NAME", "eu")
    monkeypatch.setenv("REPLAY_CONFIG", str(tmp_path))
    run = Run([sys.executable, "-c", PROCESS_SAYS], tmp_path)
    while not run.is_ended():
        pass
    assert run.error() == ""
    assert os.environ["REPLAY_CLUSTER_NAME"] == "eu"


class Pulled(NamedTuple):
    """Places, the files that are there for this hour (`{hour}`), whether they are read, and what is said."""

    name: str
    places: tuple[str, ...]
    files: tuple[str, ...]
    is_read: bool
    says: list[str]


PULLED = [
    Pulled("hours without a file", ("%Y%m%d%H.jsonl",), ("{hour}.jsonl",), True, []),
    Pulled("a place without a file beside another", ("none/*.jsonl", "%Y%m%d%H/*"), ("{hour}/a.jsonl",), True, []),
    Pulled("no file at all", ("none-%H.jsonl",), (), False, ["nothing to read from "]),
]


@pytest.mark.parametrize("row", PULLED, ids=lambda row: row.name)
def test_what_is_pulled(settings: ServeSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: Pulled) -> None:
    monkeypatch.setenv("REPLAY_CLUSTER_NAME", "eu")
    for name in row.files:
        file = tmp_path / "log" / name.format(hour=f"{datetime.now(UTC):%Y%m%d%H}")
        file.parent.mkdir(parents=True)
        write_first_lines(file, 100)
    said: list[str] = []
    places = tuple(str(tmp_path / "log" / place) for place in row.places)
    ingest = Ingest(replace(settings, receiving=Receiving(pull=places)), said.append)
    now = time.time()
    assert ingest.is_pulled(now - 3 * 3600, now) is row.is_read
    assert [line.partition(str(tmp_path))[0] for line in said] == row.says
    assert Store.is_at(settings.store) is row.is_read

"""The result of a trial as it grows: parts add up, are kept over a restart, and new findings are told once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from replay.serve.growth import joined, row_key
from replay.serve.settings import ServeSettings
from replay.serve.trials import SUMMARY, ResultKey, TrialBoard, TrialPhase
from tests.serve.conftest import NODE, ROW, summary

LATER: dict[str, Any] = {
    **ROW,
    "requests": 4,
    "alone": 1,
    "follow": 1,
    "users": ["bob"],
    "last": "2026-11-22T10:00:00.000000Z",
    "message": "another message",
}


def test_two_parts_add_up() -> None:
    found = joined(summary(ROW, unknown=2), summary(LATER, NODE, unknown=3))
    both = {**ROW, "requests": 7, "alone": 4, "follow": 3, "users": ["alice", "bob"], "last": LATER["last"]}
    assert found["rows"] == [both, NODE]
    assert found["roots"] == {"newly_denied": 8}
    assert found["decided"] == {"requests": 195, "of": 200}
    assert found["fidelity"]["denials"] == {
        "observed": 20,
        "reproduced": 18,
        "undetermined": 0,
        "differs": 2,
        "notInLog": 0,
    }
    assert found["deniedByDay"] == {ROW["policy"]: {"2026-11-20": 2, "2026-11-21": 4}}
    assert [gap["requests"] for gap in found["undetermined"]] == [5]
    (policy,) = found["findings"]["newly_denied"]["policies"]
    assert (policy["requests"], policy["follow"], policy["workloads"]) == (6, 4, 1)


def test_a_part_without_findings_changes_no_row() -> None:
    assert joined(summary(ROW), summary())["rows"] == [ROW]
    assert joined(summary(), summary(ROW))["rows"] == [ROW]


@pytest.fixture
def board(settings: ServeSettings) -> TrialBoard:
    """A board whose first trial has a result."""
    board = TrialBoard(settings)
    publish(board, ResultKey("a", "b", 100), summary(ROW))
    return board


def publish(board: TrialBoard, key: ResultKey, document: dict[str, Any]) -> None:
    """Put a result over the whole store in the place of the last one."""
    work = board.work_directory("next", "whole")
    (work / SUMMARY).write_bytes(orjson.dumps(document))
    board.publish("next", work, key, document, 1.5)


def test_a_restart_shows_what_was_decided(settings: ServeSettings, board: TrialBoard) -> None:
    board.grow("next", ResultKey("a", "b", 100), summary(NODE), 200, 2)
    board.grow("next", ResultKey("another", "b", 100), summary(LATER), 300, 3)  # of manifests that have changed since
    before, after = board.get("next"), TrialBoard(settings).get("next")
    assert before is not None
    assert after == before
    assert (after.phase, after.covered, after.shown) == (TrialPhase.READY, 200, joined(summary(ROW), summary(NODE)))


def test_the_next_decision_takes_the_place_of_the_parts(board: TrialBoard) -> None:
    board.grow("next", ResultKey("a", "b", 100), summary(NODE), 200, 2)
    publish(board, ResultKey("a", "c", 200), summary(ROW, NODE))
    state = board.get("next")
    assert state is not None
    assert (state.growth, state.covered, state.shown) == (None, 200, summary(ROW, NODE))


@pytest.mark.parametrize(
    ("phase", "grown", "decided"),
    [
        (TrialPhase.READY, (TrialPhase.READY, ""), (TrialPhase.READY, "")),
        (TrialPhase.DECIDING, (TrialPhase.DECIDING, ""), (TrialPhase.READY, "")),
        (TrialPhase.FAILED, (TrialPhase.FAILED, "why"), (TrialPhase.READY, "")),
    ],
)
def test_new_requests_hide_no_failed_decision(
    board: TrialBoard, phase: TrialPhase, grown: tuple[TrialPhase, str], decided: tuple[TrialPhase, str]
) -> None:
    key = ResultKey("a", "b", 100)
    board.change("next", phase=phase, error="why")
    board.grow("next", key, summary(NODE), 200, 2)
    after_growth = board.states()[0]
    publish(board, key, summary(ROW))
    after_decision = board.states()[0]
    assert (after_growth.phase, after_growth.error) == grown
    assert (after_decision.phase, after_decision.error) == decided
    assert after_growth.covered == 200


def test_a_finding_is_new_once(settings: ServeSettings) -> None:
    told: list[list[dict[str, Any]]] = []
    board = TrialBoard(settings, lambda _state, rows: told.append(rows))
    key = ResultKey("a", "b", 100)
    publish(board, key, summary(ROW))
    board.grow("next", key, summary(NODE), 200, 2)
    publish(board, key, summary())
    again = TrialBoard(settings, lambda _state, rows: told.append(rows))
    publish(again, key, summary(ROW, NODE))
    state = again.get("next")
    assert state is not None
    assert told == [[NODE]]
    assert [row_key(row) for row in state.of_last_day()] == [row_key(NODE)]


def test_a_result_that_was_being_replaced_is_there(settings: ServeSettings, board: TrialBoard) -> None:
    directory = board.file("next", "")
    Path(directory).rename(settings.data / "trials" / ".next.old")
    state = TrialBoard(settings).get("next")
    assert state is not None
    assert state.shown == summary(ROW)

"""What policies do after requests: counted by policy and set, and listed."""

from __future__ import annotations

from collections import Counter
from typing import cast

from msgspec import Struct

from replay.compare.result import RunResult
from replay.compare.summary import Summary, TriggeredWork
from replay.report.render.document import Table
from replay.report.run.triggered import triggered_json, triggered_section

NETWORK, LABEL = "ClusterPolicy/network/deny", "ClusterPolicy/network/label"
WORK = {
    TriggeredWork("current", NETWORK, "makes NetworkPolicy a/deny afterwards", ""): 1,
    TriggeredWork("candidate", NETWORK, "makes NetworkPolicy a/deny afterwards", ""): 2,
    TriggeredWork("candidate", NETWORK, "makes NetworkPolicy b/deny afterwards", ""): 1,
    TriggeredWork("candidate", LABEL, "", "metadata: it is not in the log"): 4,
}


class _Result(Struct):
    summary: Summary


RESULT = cast("RunResult", _Result(Summary(triggered=Counter(WORK))))


def test_policies_are_counted_and_their_work_is_listed() -> None:
    section = triggered_section(RESULT, 2)
    assert section is not None
    assert [(each.id, each.rows, each.total) for each in section.blocks if isinstance(each, Table)] == [
        ("triggered", ((LABEL, "0", "4"), (NETWORK, "1", "3")), 2),
        (
            "triggered-work",
            (
                (LABEL, "undetermined: metadata: it is not in the log", "0", "4"),
                (NETWORK, "makes NetworkPolicy a/deny afterwards", "1", "2"),
            ),
            3,
        ),
    ]


def test_json_has_all_of_it() -> None:
    made = "makes NetworkPolicy {}/deny afterwards"
    assert triggered_json(RESULT.summary) == [
        {"policy": LABEL, "work": "undetermined: metadata: it is not in the log", "current": 0, "candidate": 4},
        {"policy": NETWORK, "work": made.format("a"), "current": 1, "candidate": 2},
        {"policy": NETWORK, "work": made.format("b"), "current": 0, "candidate": 1},
    ]


def test_a_run_without_such_policies_has_no_section() -> None:
    assert triggered_section(cast("RunResult", _Result(Summary())), 2) is None

"""A few lines of the log of one of two servers each, for one rule each."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest

from replay.pipeline.options import Options
from replay.pipeline.run import run
from replay.pipeline.scenario import Scenario

LIVE = Path(__file__).parents[2].parent / "shared" / "recordings" / "live"

pytestmark = [pytest.mark.shared]


class Row(NamedTuple):
    """A log, and of each line the outcome, how the request ends, whether it follows another, and who mutated it in the log."""

    name: str
    log: str
    sets: tuple[str, str]
    expected: list[tuple[str, str, bool, tuple[str, ...]]]
    cluster: str = ""


MANAGED = ("managed-by.static.k8s.io",)
SAME = ("unchanged", "succeeds", False, ())
DENIED = ("newly_denied", "denied", False, ())
ROWS = [
    Row(
        "partial RBAC is an unknown answer",
        "crash",
        ("min/A", "min/B"),
        [*[SAME] * 3, DENIED],
        "min/crash-cluster.jsonl",
    ),
    Row(
        "a creation by apply was mutated by the current set",
        "apply",
        ("A/set", "B/set"),
        [SAME, ("no_longer_mutated", "succeeds", False, MANAGED)],
    ),
    Row("a dry-run patch of a namespace", "ns", ("A/set", "B/set"), [SAME, SAME, DENIED]),
    Row(
        "a class that a policy of the current set named",
        "ingress",
        ("B/set", "A/set"),
        [SAME, ("undetermined", "succeeds", False, ())],
    ),
    Row(
        "a conflict of names is no refused creation",
        "follows",
        ("A/set", "B/set"),
        [
            SAME,
            ("no_longer_mutated", "succeeds", False, MANAGED),
            ("newly_denied", "denied", False, MANAGED),
            ("newly_audited", "succeeds", False, ()),
        ],
    ),
    Row(
        "what is in a namespace that was refused",
        "nsfollows",
        ("A/set", "B/set"),
        [
            DENIED,
            ("newly_warned", "absent", True, ()),
            ("unchanged", "absent", True, MANAGED),
            ("newly_warned", "absent", True, ()),
            ("newly_denied", "absent", True, ()),
            ("newly_denied", "absent", True, MANAGED),
        ],
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_minimal_logs(row: Row, tmp_path: Path) -> None:
    if not LIVE.is_dir():
        pytest.skip("the recording is not beside the checkout")
    outcomes = tmp_path / "outcomes.jsonl"
    current, candidate = (LIVE / each for each in row.sets)
    cluster = LIVE / row.cluster if row.cluster else None
    scenario = Scenario((str(LIVE / "min" / f"{row.log}.log"),), current=current, candidate=candidate, cluster=cluster)
    run(scenario, Options(outcomes=outcomes, workers=1), lambda _what, _done, _total: None)
    assert [told(orjson.loads(line)) for line in outcomes.read_bytes().splitlines()] == row.expected


def told(line: dict[str, Any]) -> tuple[str, str, bool, tuple[str, ...]]:
    mutated = tuple(each["policy"] for each in line["current"].get("mutatedBy", ()))
    return line["outcome"], line["candidate"]["result"]["cause"], "follows" in line, mutated

"""The same requests sent to two real servers that differ in plugins, quotas, RBAC and policies, from whole and from thinned logs.

A log that lacks lines, bodies or the writes of quotas leaves more unknown, and is hardly ever wrong.
"""

from __future__ import annotations

import importlib.util
import random
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import orjson
import pyarrow as pa
import pytest

from replay.pipeline.options import Options
from replay.pipeline.run import run
from replay.pipeline.scenario import Scenario

SHARED = Path(__file__).parents[2].parent / "shared"
RECORDING = SHARED / "recordings" / "live-plugins"
TOOL = SHARED / "tools" / "score_live_plugins.py"
WRONG = ("wrong", "other policy", "other code")

pytestmark = [pytest.mark.shared, pytest.mark.slow]
Lines = list[bytes]


def whole(log: Lines) -> Lines:
    return log


def without_a_tenth(seed: int) -> Callable[[Lines], Lines]:
    def thin(log: Lines) -> Lines:
        choice = random.Random(seed)
        return [line for line in log if choice.random() >= 0.1]

    return thin


def metadata_alone(log: Lines) -> Lines:
    def bare(line: bytes) -> bytes:
        event = orjson.loads(line)
        kept = {key: value for key, value in event.items() if key not in ("requestObject", "responseObject")}
        return orjson.dumps(kept | {"level": "Metadata"})

    return [bare(line) for line in log]


def without_writes_of_quotas(log: Lines) -> Lines:
    def is_of_quota(line: bytes) -> bool:
        reference = orjson.loads(line).get("objectRef") or {}
        return reference.get("resource") == "resourcequotas" and reference.get("subresource") == "status"

    return [line for line in log if not is_of_quota(line)]


def second_half(log: Lines) -> Lines:
    return log[len(log) // 2 :]


def is_no_quota(obj: Any) -> bool:
    return bool(obj.get("kind") != "ResourceQuota")


BOTH = ("C0 to C1", "C1 to C0")


class Row(NamedTuple):
    """A way to thin a log, and how much of the predictions may be wrong, and unknown, at most.

    `directions` leaves one out where it shows no more than the other one: each takes 20 to 50 seconds.
    `holds` tells what is left of the snapshot.
    """

    thin: Callable[[Lines], Lines]
    wrong: float
    unknown: float
    holds: Callable[[Any], bool] | None = None
    directions: tuple[str, ...] = BOTH


ROWS = {
    "whole": Row(whole, 0.005, 0.022),
    "without the writes of quotas": Row(without_writes_of_quotas, 0.005, 0.025, directions=("C1 to C0",)),
    "a snapshot without quotas": Row(whole, 0.005, 0.025, is_no_quota, directions=("C0 to C1",)),
    "metadata alone": Row(metadata_alone, 0.01, 1.0, directions=("C1 to C0",)),
    "the second half": Row(second_half, 0.01, 0.5),
    "without a tenth": Row(without_a_tenth(1), 0.01, 0.3),
}


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    """How predictions are compared with what a server answered."""
    if not TOOL.is_file():
        pytest.skip("the recording is not beside the checkout")
    spec = importlib.util.spec_from_file_location("score_live_plugins", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read(path: Path) -> Lines:
    with pa.CompressedInputStream(pa.OSFile(str(path)), "zstd") as stream:
        lines: Lines = stream.read().splitlines()
    return lines


def responses(of: Path) -> dict[str, Any]:
    return {each["id"]: each for each in map(orjson.loads, read(of / "responses.jsonl.zst"))}


EACH_CHANGE = [
    ("whole", "C0 to C1"),
    ("whole", "C1 to C0"),
    ("the second half", "C1 to C0"),
    ("without a tenth", "C0 to C1"),
]
"""The rows that every change must pass. The others are for the nightly tests: each takes 20 to 50 seconds."""


@pytest.mark.parametrize(
    ("name", "direction"),
    [
        pytest.param(name, direction, marks=[] if (name, direction) in EACH_CHANGE else pytest.mark.nightly)
        for name, row in ROWS.items()
        for direction in row.directions
    ],
)
def test_requests_end_as_on_the_other_server(name: str, direction: str, tool: ModuleType, tmp_path: Path) -> None:
    row = ROWS[name]
    own, other = (RECORDING / side for side in direction.split(" to "))
    log, outcomes = row.thin(read(own / "audit.jsonl.zst")), tmp_path / "out.jsonl"
    (tmp_path / "audit.jsonl").write_bytes(b"\n".join(log))
    cluster = own / "cluster.jsonl.zst"
    if row.holds is not None:
        objects = [line for line in read(cluster) if row.holds(orjson.loads(line))]
        cluster = tmp_path / "cluster.jsonl"
        cluster.write_bytes(b"\n".join(objects))
    scenario = Scenario(
        (str(tmp_path / "audit.jsonl"),),
        current=own / "set",
        candidate=other / "set",
        cluster=cluster,
    )
    fidelity = run(scenario, Options(outcomes=outcomes, workers=2), lambda *_: None).fidelity
    if name == "whole":
        assert fidelity.compared[0] == fidelity.compared[1] > 0
    found: dict[str, list[Any]] = defaultdict(list)
    for line in map(orjson.loads, outcomes.read_bytes().splitlines()):
        found[line["auditID"]].append(line)
    first, second = responses(own), responses(other)
    shown = {orjson.loads(line)["auditID"] for line in log} & first.keys()
    grades = Counter(
        tool.kind(found.get(each, []), tool.answer(first[each]), tool.answer(second[each]), second[each]["code"])
        for each in shown
    )
    assert sum(grades[each] for each in WRONG) <= row.wrong * grades.total(), grades
    assert grades["unknown"] <= row.unknown * grades.total(), grades

"""The same requests sent to two real servers, one with each set: how each would end, against how it did."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest

from replay.compare.result import RunResult
from replay.pipeline.options import Options
from replay.pipeline.run import run
from replay.pipeline.scenario import Scenario

SHARED = Path(__file__).parents[2].parent / "shared" / "recordings" / "live"
DENIED = re.compile(
    r"(?:ValidatingAdmissionPolicy|MutatingAdmissionPolicy|policy) '([^']+)' (?:with binding '([^']+)' )?denied request: (.*)",
    re.DOTALL,
)
CAUSES = {404: "absent", 422: "invalid", 403: "forbidden"}
NAMES_TAKEN = {"exists", "conflict"}
MOST_WRONG, MOST_UNKNOWN = 0.01, 0.05

pytestmark = [pytest.mark.shared, pytest.mark.slow]


@dataclass(frozen=True)
class Live:
    """A run of one server's log with the other server's set, its lines by audit id, and both servers' answers."""

    result: RunResult
    lines: dict[str, list[dict[str, Any]]]
    before: dict[str, dict[str, Any]]
    after: dict[str, dict[str, Any]]


def read(path: Path) -> Iterator[dict[str, Any]]:
    with pa.CompressedInputStream(pa.OSFile(str(path)), "zstd") as stream:
        yield from map(orjson.loads, stream.read().splitlines())


@pytest.fixture(scope="module", params=["A to B", "B to A"])
def live(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Live:
    if not SHARED.is_dir():
        pytest.skip("the recording is not beside the checkout")
    own, other = (SHARED / name for name in request.param.split(" to "))
    outcomes = tmp_path_factory.mktemp("live") / "outcomes.jsonl"
    scenario = Scenario(
        (str(own / "audit.jsonl.zst"),), current=own / "set", candidate=other / "set", cluster=own / "cluster.jsonl.zst"
    )
    result = run(scenario, Options(outcomes=outcomes, workers=2), lambda _what, _done, _total: None)
    lines: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in map(orjson.loads, outcomes.read_bytes().splitlines()):
        lines[line["auditID"]].append(line)
    before, after = ({each["id"]: each for each in read(of / "responses.jsonl.zst")} for of in (own, other))
    return Live(result, lines, before, after)


def message(response: dict[str, Any]) -> str:
    body = response["body"]
    return str(body.get("message", "")) if isinstance(body, dict) else str(body)


def cause(response: dict[str, Any]) -> str:
    """Why a server answered as it did, in the words of the lines."""
    code, text = response["code"], message(response)
    if code < 400:
        return "succeeds"
    if DENIED.search(text):
        return "denied"
    if code == 409:
        return "exists" if "already exists" in text else "conflict"
    return CAUSES.get(code, f"error {code}")


def denial(response: dict[str, Any]) -> tuple[Any, ...]:
    """Policy, binding, message, reason and code; maps print in any order, and so the characters are sorted."""
    found = DENIED.search(message(response))
    assert found is not None
    return found[1], found[2], sorted(found[3]), response["body"]["reason"], response["code"]


def first_denial(line: dict[str, Any]) -> tuple[Any, ...]:
    decision = line["candidate"]
    denials = decision["result"].get("denials") or decision["denials"]
    if not denials:
        return ("",)  # the policy is told by nothing, and the prediction wrong
    told = denials[0]
    return told["policy"], told["binding"], sorted(told["message"]), told["reason"], told["code"]


def grade(live: Live, audit_id: str) -> str:
    """How a prediction compares with what the other server did; a request without a line ends as it did."""
    lines, real = live.lines.get(audit_id, []), live.after[audit_id]
    results = [line["candidate"]["result"] for line in lines]
    predicted = results[0]["cause"] if results else cause(live.before[audit_id])
    if predicted == "unknown":
        return "unknown"
    if predicted != cause(real) and {predicted, cause(real)} != NAMES_TAKEN:
        return "wrong"
    if predicted == "denied" and len(lines) == 1 and first_denial(lines[0]) != denial(real):
        return "wrong" if first_denial(lines[0])[0] != denial(real)[0] else "other text"
    return "right"


def test_requests_end_as_on_the_other_server(live: Live) -> None:
    grades = Counter(grade(live, each["id"]) for each in read(SHARED / "plan.jsonl.zst"))
    assert grades.total() == 8000
    assert grades["wrong"] <= MOST_WRONG * grades.total(), grades
    assert grades["unknown"] <= MOST_UNKNOWN * grades.total(), grades


def test_whoever_is_to_blame_ends_otherwise_too(live: Live) -> None:
    for lines in live.lines.values():
        for line in lines:
            assert not ("follows" in line and line.get("root"))
            assert line.get("follows") != line["auditID"]
    world = live.result.world
    assert min(world.roots, world.consequences, world.not_sent) > 100

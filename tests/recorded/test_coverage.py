"""The audit policy that `replay coverage` proposes, applied to a recording as the server would have applied it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
import yaml

from replay.pipeline.coverage import coverage
from replay.pipeline.options import Options
from replay.pipeline.run import run
from replay.pipeline.scenario import Scenario
from replay.report.coverage_report import policy_text, totals
from tests.support.shared_run import shared_run

SAMPLE = Path(__file__).parents[2] / "sample_audit" / "shop"
SHARED = Path(__file__).parents[2].parent / "shared" / "recordings" / "shop"
LEVELS = ("None", "Metadata", "Request", "RequestResponse")
DECIDED = ("verdict", "denials", "warnings", "auditAnnotations", "patch")

Event = dict[str, Any]


def quiet(_what: str, _done: int, _total: int) -> None:
    """No progress."""


@pytest.fixture(
    scope="module", params=[pytest.param("shared", marks=pytest.mark.shared) if SHARED.is_dir() else "sample"]
)
def recording(request: pytest.FixtureRequest) -> Path:
    """The sample is cut from the full recording: where that is here, it need not be tried as well."""
    return SHARED if request.param == "shared" else SAMPLE


def events(recording: Path) -> Iterator[Event]:
    with pa.CompressedInputStream(pa.OSFile(str(recording / "audit.jsonl.zst")), "zstd") as stream:
        yield from map(orjson.loads, stream.read().splitlines())


def server_level(policy: dict[str, Any], event: Event) -> str:
    """What `apiserver/pkg/audit/policy` answers for the request of an event, written down independently of the package."""
    reference = event.get("objectRef") or {}
    resource, subresource = reference.get("resource", ""), reference.get("subresource", "")
    combined = f"{resource}/{subresource}" if subresource else resource
    is_resource_request = bool(resource)
    for rule in policy["rules"]:
        if rule.get("verbs") and event["verb"] not in rule["verbs"]:
            continue
        if rule.get("resources"):
            named = [
                name
                for group in rule["resources"]
                if group["group"] in (reference.get("apiGroup", ""), "*")
                for name in group.get("resources", ["*"])
            ]
            exact = {combined, "*", f"{resource}/*"} | ({f"*/{subresource}"} if subresource else set())
            if not (is_resource_request and exact & set(named)):
                continue
        elif rule.get("nonResourceURLs") and is_resource_request:
            continue
        return str(rule["level"])
    return "None"


def filtered(policy: dict[str, Any], log: Iterable[Event]) -> Iterator[Event]:
    """The events as the server would have written them: a level can only take away from what was recorded."""
    for event in log:
        level = min(server_level(policy, event), event["level"], key=LEVELS.index)
        if level == "None" or event["stage"] in policy["omitStages"]:
            continue
        kept = {**event, "level": level}
        if level != "RequestResponse":
            kept.pop("responseObject", None)
        if level == "Metadata":
            kept.pop("requestObject", None)
        yield kept


def decisions(lines: Path) -> dict[tuple[str, int], list[Any]]:
    """What was decided about each request, of the lines of a run."""
    return {
        (value["auditID"], value.get("item", 0)): [
            [value[side][key] for key in DECIDED] for side in ("current", "candidate")
        ]
        for value in map(orjson.loads, lines.read_bytes().splitlines())
    }


@pytest.mark.slow
def test_the_proposed_policy_records_what_the_sets_read(recording: Path, common: Path, tmp_path: Path) -> None:
    """Every request keeps its verdict when the log holds no more than the policy asks for."""
    result = coverage(Scenario((str(recording),)).resolved(), Options(workers=1), quiet)
    policy = yaml.safe_load(policy_text(result))
    whole, cut = tmp_path / "whole.jsonl", tmp_path / "cut.jsonl"
    whole.write_bytes(b"".join(orjson.dumps(event) + b"\n" for event in events(recording)))
    cut.write_bytes(b"".join(orjson.dumps(event) + b"\n" for event in filtered(policy, events(recording))))
    _, want_lines = shared_run(common, recording)
    got_lines = tmp_path / "outcomes"
    (cluster,) = recording.glob("cluster.*")
    source = Scenario((str(cut),), current=recording / "current", candidate=recording / "candidate", cluster=cluster)
    run(source, Options(outcomes=got_lines, workers=1), quiet)
    want, got = decisions(want_lines), decisions(got_lines)
    differing = {key: (got.get(key), value) for key, value in want.items() if got.get(key) != value}
    assert differing == {}
    # A collection of which nothing is read is one request there, and as many as it has objects here: perhaps none.
    verbs = {event["auditID"]: event["verb"] for event in events(recording)}
    assert {verbs[audit_id] for audit_id, _ in got.keys() - want.keys()} <= {"deletecollection"}
    growth = result.growth
    for estimate, log in ((growth.proposed, cut), (growth.now, whole)):
        assert estimate == pytest.approx(log.stat().st_size, rel=0.05)
    decided, total = totals(result.coverage)
    assert decided >= 0.99 * total

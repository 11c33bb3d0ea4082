"""`replay verify` on a recording, as it is and changed as if other manifests had been in force."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest

from replay.audit.answer import VALIDATION_FAILURE
from replay.compare.in_force import PolicyState
from replay.compare.result import VerifyResult
from replay.pipeline.options import Options
from replay.pipeline.scenario import Scenario
from replay.pipeline.verify import verify
from replay.report.verify_report import agrees, causes

SAMPLE = Path(__file__).parents[2] / "sample_audit" / "shop"
SHARED = Path(__file__).parents[2].parent / "shared" / "recordings"
POLICY = "cand-no-privileged.static.k8s.io"

Event = dict[str, Any]
Files = dict[str, list[Event]]


def events() -> list[Event]:
    with pa.CompressedInputStream(pa.OSFile(str(SAMPLE / "audit.jsonl.zst")), "zstd") as stream:
        return [orjson.loads(line) for line in stream.read().splitlines()]


def verified(logs: Iterable[Path], recording: Path = SAMPLE, *, second_opinion: bool = False) -> VerifyResult:
    asked = Scenario(tuple(map(str, logs)), current=recording / "current", cluster=recording / "cluster.jsonl.zst")
    return verify(asked, Options(workers=1), lambda _what, _done, _total: None, second_opinion=second_opinion)


def silenced(event: Event) -> Event:
    """The event as a server without the policy would have written it."""
    written = event.get("annotations") or {}
    annotations = {key: value for key, value in written.items() if not key.startswith(f"{POLICY}/")}
    failures = orjson.loads(annotations.pop(VALIDATION_FAILURE, "[]"))
    kept = [entry for entry in failures if entry["policy"] != POLICY]
    if kept:
        annotations[VALIDATION_FAILURE] = orjson.dumps(kept).decode()
    return {**event, "annotations": annotations}


def reworded(event: Event) -> Event:
    """The event as it would have been with another message of the policy."""
    annotations = dict(event.get("annotations") or {})
    failures = orjson.loads(annotations.get(VALIDATION_FAILURE, "[]"))
    if not failures:
        return event
    changed = [{**entry, "message": "as it was"} if entry["policy"] == POLICY else entry for entry in failures]
    return {**event, "annotations": {**annotations, VALIDATION_FAILURE: orjson.dumps(changed).decode()}}


def first_only(event: Event) -> Event:
    """The event as an older server would have written it."""
    annotations = dict(event.get("annotations") or {})
    failures = orjson.loads(annotations.get(VALIDATION_FAILURE, "[]"))
    if not failures:
        return event
    return {**event, "annotations": {**annotations, VALIDATION_FAILURE: orjson.dumps(failures[:1]).decode()}}


def middle(log: list[Event]) -> str:
    """The time at which half of what the policy did was done."""
    acting = [
        e["requestReceivedTimestamp"] for e in log if POLICY in (e.get("annotations") or {}).get(VALIDATION_FAILURE, "")
    ]
    return str(sorted(acting)[len(acting) // 2])


def came(log: list[Event]) -> Files:
    at = middle(log)
    return {"audit": [silenced(e) if e["requestReceivedTimestamp"] < at else e for e in log]}


def went(log: list[Event]) -> Files:
    at = middle(log)
    return {"audit": [silenced(e) if e["requestReceivedTimestamp"] >= at else e for e in log]}


def two_servers(log: list[Event]) -> Files:
    mine = [event["auditID"] < "8" for event in log]
    return {
        "a": [event for event, is_mine in zip(log, mine, strict=True) if is_mine],
        "b": [silenced(event) for event, is_mine in zip(log, mine, strict=True) if not is_mine],
    }


def two_servers_in_one_file(log: list[Event]) -> Files:
    return {"audit": [silenced(event) if event["auditID"] < "8" else event for event in log]}


def never(log: list[Event]) -> Files:
    return {"audit": list(map(silenced, log))}


def changed(log: list[Event]) -> Files:
    at = middle(log)
    return {"audit": [reworded(e) if e["requestReceivedTimestamp"] < at else e for e in log]}


CASES: list[tuple[str, Callable[[list[Event]], Files], PolicyState, set[str]]] = [
    ("it came into force", came, PolicyState.APPEARED, {"the policy was not in force yet"}),
    ("it went out of force", went, PolicyState.DISAPPEARED, {"the policy was no longer in force"}),
    (
        "one of two servers had it",
        two_servers,
        PolicyState.SERVERS,
        {"the API server that answered had different manifests from the others"},
    ),
    (
        "one of two servers had it, in one file",
        two_servers_in_one_file,
        PolicyState.SERVERS,
        {"the API server that answered had different manifests from the others"},
    ),
    ("nobody had it", never, PolicyState.NEVER, {"the policy was not in force"}),
    ("its message was changed", changed, PolicyState.CHANGED, {"the policy had another text at the time"}),
]
RELOADED = "the manifests were reloaded at that time"


@pytest.mark.slow
@pytest.mark.parametrize(("change", "story", "expected"), [row[1:] for row in CASES], ids=[row[0] for row in CASES])
def test_other_manifests_are_found_out(
    change: Callable[[list[Event]], Files], story: PolicyState, expected: set[str], tmp_path: Path
) -> None:
    """The story of the one policy is told, and every contradiction is about it and has a cause."""
    paths = []
    for name, log in change(events()).items():
        paths.append(tmp_path / f"{name}.jsonl")
        paths[-1].write_bytes(b"".join(orjson.dumps(event) + b"\n" for event in log))
    result = verified(paths)
    told = {each.policy: each.story for each in result.findings.histories if each.story is not PolicyState.IN_FORCE}
    assert told == {POLICY: story}
    assert {policy for policy, _ in causes(result)} == {POLICY}
    assert {cause for _, cause in causes(result)} - {RELOADED} == expected
    if len(paths) > 1:
        (history,) = [each for each in result.findings.histories if each.policy == POLICY]
        assert history.files == (str(paths[0]),)


@pytest.mark.slow
def test_older_servers_write_the_first_failure_alone(tmp_path: Path) -> None:
    """That is no contradiction."""
    log = tmp_path / "audit.jsonl"
    log.write_bytes(b"".join(orjson.dumps(first_only(event)) + b"\n" for event in events()))
    result = verified([log])
    assert agrees(result)
    assert result.fidelity.failures.reproduced == result.fidelity.failures.observed


def test_a_recording_agrees_with_its_set() -> None:
    """The set that was in force reproduces everything, and cel-python has no other opinion."""
    result = verified([SAMPLE / "audit.jsonl.zst"], second_opinion=True)
    assert agrees(result)
    reproduced, compared = result.fidelity.compared
    assert reproduced == compared > 0
    assert result.opinions is not None
    assert result.opinions.agreed > 0
    assert result.opinions.differing == []
    assert result.notes == ()


@pytest.mark.shared
@pytest.mark.slow
def test_what_was_not_in_force_is_found_out() -> None:
    """`bench` was recorded without three policies of the set of `shop`."""
    if not SHARED.is_dir():
        pytest.skip("the recordings are not beside the checkout")
    result = verified([SHARED / "bench" / "audit.jsonl.zst"], SHARED / "shop")
    told = {each.policy: each.story for each in result.findings.histories if each.story is not PolicyState.IN_FORCE}
    missing = ("external-ips", "no-cluster-admin", "replica-cap")
    assert told == {f"{name}.static.k8s.io": PolicyState.NEVER for name in missing}
    assert {cause for _, cause in causes(result)} == {"the policy was not in force"}

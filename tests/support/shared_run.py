"""A replay of a whole recording, made by whichever process of the tests asks first, and read by all others."""

from __future__ import annotations

import fcntl
import pickle
from pathlib import Path

from replay.compare.result import RunResult
from replay.pipeline.options import Options
from replay.pipeline.run import run
from replay.pipeline.scenario import Scenario


def shared_run(directory: Path, recording: Path, sets: Path | None = None) -> tuple[RunResult, Path]:
    """What a run of a recording with its own sets gives, or those of another one, and its lines of `--outcomes`.

    `directory` is common to all processes.
    """
    place = directory / f"run-{recording.parent.name}-{recording.name}-{(sets or recording).name}"
    place.mkdir(exist_ok=True)
    result, lines = place / "result", place / "outcomes.jsonl"
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not result.exists():
            scenario = scenario_of(recording, sets or recording)
            made = run(scenario, Options(outcomes=lines, workers=1), lambda _what, _done, _total: None)
            result.write_bytes(pickle.dumps(made))
    found: RunResult = pickle.loads(result.read_bytes())
    return found, lines


def scenario_of(recording: Path, sets: Path) -> Scenario:
    """The log of a recording with the sets and the snapshot of one."""
    if sets == recording:
        return Scenario((str(recording),)).resolved()
    (log,), (cluster,) = recording.glob("audit.*"), sets.glob("cluster.*")
    return Scenario((str(log),), current=sets / "current", candidate=sets / "candidate", cluster=cluster)

"""A whole run: the same bytes however it is done, and no part of a result where it fails."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from replay.audit.store import Store
from replay.errors import ReplayError
from replay.pipeline.options import Options
from replay.pipeline.run import run
from replay.pipeline.scenario import Scenario
from replay.report.run.json import summary_json
from tests.support.short_sample import SAMPLE, write_first_lines

LINES = 600
COMMAND = [sys.executable, "-c", "from replay.cli.app import main; main()", "run"]
PATIENCE_SECONDS = 60.0


def silent(_what: str, _done: int, _total: int) -> None:
    """No progress shown."""


@pytest.fixture
def scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scenario:
    """The first lines of the sample, in several parts."""
    monkeypatch.setattr("replay.audit.store.PART_BYTES", 1 << 17)
    log = tmp_path / "audit.jsonl"
    write_first_lines(log, LINES)
    with log.open("ab") as file:
        file.write(b"nonsense\n")
    (cluster,) = SAMPLE.glob("cluster.*")
    return Scenario((str(log),), current=SAMPLE / "current", candidate=SAMPLE / "candidate", cluster=cluster)


@pytest.mark.slow
def test_the_same_bytes_for_any_number_of_workers(scenario: Scenario, tmp_path: Path) -> None:
    def written(name: str, workers: int, store: str = "") -> tuple[bytes, bytes, str]:
        outcomes, rejects = tmp_path / f"{name}.jsonl", tmp_path / f"{name}.tsv"
        options = Options(outcomes=outcomes, rejects=rejects, workers=workers)
        asked = replace(scenario, store=tmp_path / store) if store else scenario
        result = run(asked, options, silent)
        return outcomes.read_bytes(), rejects.read_bytes(), summary_json(result)

    one = written("one", 1)
    assert len(one[0].splitlines()) > 100
    assert written("four", 4) == one
    assert written("stored", 2, "store") == one


def test_outcomes_that_cannot_be_written_leave_nothing(
    scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_args: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "outcomes.jsonl"
    path.write_text("those of last time\n")
    monkeypatch.setattr("replay.pipeline.run.merge", fail)
    with pytest.raises(ReplayError, match=f"^{path}: the outcomes cannot be written: no space left on device$"):
        run(scenario, Options(outcomes=path, workers=1), silent)
    assert (path.read_text(), list(tmp_path.glob(".*"))) == ("those of last time\n", [])


def _kill(_leader: int, helper: int) -> None:
    os.kill(helper, signal.SIGKILL)


def _interrupt(leader: int, _helper: int) -> None:
    os.killpg(leader, signal.SIGINT)


KILLED = "replay: a worker process was killed (out of memory?); nothing is shown of a partial result\n"
INTERRUPTED = "replay: interrupted; only complete files were written\n"
LASTING_SECONDS = 0.2
KEPT = ("--store", "store")
"""Of a new store the log is read ahead; of one that has it, the first process beside the command is a worker."""
ENDS: list[tuple[str, Callable[[int, int], None], tuple[str, ...], bool, int, str]] = [
    ("a killed worker", _kill, KEPT, True, 2, KILLED),
    ("a killed reader of the log", _kill, (), False, 2, KILLED),
    ("a killed reader into a new store", _kill, KEPT, False, 2, KILLED),
    ("Ctrl-C", _interrupt, KEPT, True, 130, INTERRUPTED),
    ("Ctrl-C while the log is read ahead", _interrupt, (), False, 130, INTERRUPTED),
    ("Ctrl-C while the log is read ahead into a new store", _interrupt, KEPT, False, 130, INTERRUPTED),
]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="workers are found in /proc")
@pytest.mark.parametrize(
    ("end", "store", "is_read", "code", "message"), [row[1:] for row in ENDS], ids=[row[0] for row in ENDS]
)
def test_a_run_that_ends_early_shows_nothing(
    end: Callable[[int, int], None],
    store: tuple[str, ...],
    is_read: bool,
    code: int,
    message: str,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    outcomes, temporary = tmp_path / "outcomes.jsonl", tmp_path_factory.mktemp("t")  # short: a socket is made below it
    options = ["--outcomes", str(outcomes), *store, "--workers", "2"]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    if is_read:
        with Store.open(tmp_path / "store") as kept:
            kept.ingest([str(path) for path in SAMPLE.glob("audit.*")])
    with subprocess.Popen(
        [*COMMAND, str(SAMPLE), *options],
        env=environment,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        end(process.pid, _helper_of(process))
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, out, err) == (code, "", message)
    assert (outcomes.exists(), list(tmp_path.glob(".*"))) == (False, [])
    assert not [path for path in temporary.iterdir() if path.name.startswith("replay-")]


def _helper_of(process: subprocess.Popen[str]) -> int:
    """The first process that a run has forked from itself and that keeps its command line.

    A process that is about to run something else has the same command line for a moment, on a busy machine for longer than that.
    """
    deadline, seen = time.monotonic() + PATIENCE_SECONDS, dict[int, float]()
    while (now := time.monotonic()) < deadline and process.poll() is None:
        alike = [pid for pid in _children(process.pid) if _command_line(pid) == _command_line(process.pid)]
        seen = {pid: seen.get(pid, now) for pid in alike}
        ongoing_status = [pid for pid, since in seen.items() if now - since > LASTING_SECONDS]
        if ongoing_status:
            return min(ongoing_status)
        time.sleep(0.02)
    raise AssertionError(f"no process was seen, exit code {process.poll()}")


def _children(parent: int) -> list[int]:
    tasks = Path(f"/proc/{parent}/task").glob("*/children")
    return [int(pid) for path in tasks for pid in path.read_text(encoding="utf-8").split()]


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_behind_standard_output_is_told() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*COMMAND[:-1], "diff", SAMPLE / "current", SAMPLE / "candidate"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert "No space left on device" in done.stderr

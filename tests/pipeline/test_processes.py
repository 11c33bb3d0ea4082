"""Processes that read parts: which process may fork them, and the errors that they pass on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from replay.cli.app import app
from replay.errors import AuditLogError, NoLogError

ASK = "from replay.pipeline.processes import can_fork, forking\nwith forking(): print(can_fork())\nprint(can_fork())"


@pytest.mark.skipif(sys.platform != "linux", reason="libraries of other systems do not bear a fork")
@pytest.mark.parametrize(
    ("before", "can"),
    [
        ("", True),
        ("import replay.cli.run", True),
        (
            "import threading\nended = threading.Event()\nthreading.Thread(target=ended.wait, daemon=True).start()",
            False,
        ),
        ("import polars\npolars.DataFrame({'a': [1]}).lazy().collect()", False),
        ("import duckdb\nconnection = duckdb.connect()", False),
    ],
    ids=["nothing done", "a command about to begin", "a thread of Python", "Polars was asked", "DuckDB was asked"],
)
def test_only_a_process_of_one_thread_forks(before: str, can: bool) -> None:
    told = subprocess.run([sys.executable, "-c", f"{before}\n{ASK}"], capture_output=True, text=True, check=True)
    assert told.stdout == f"{can}\nFalse\n"


# Nothing is imported here that begins a thread: a process with more than one is not forked.
BROKEN = (
    "from replay.pipeline.scenario import Scenario\n"
    "def fail(_scenario): raise AttributeError('no such thing')\n"
    "Scenario.formats = property(fail)\n"
)
COMMAND = "from replay.__main__ import main\nmain()"


def run(directory: Path, code: str, *arguments: object) -> tuple[int, str, str]:
    """What a run in a process of its own gives; nothing is left of it."""
    temporary = directory / "t"
    temporary.mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", code, "run", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd=directory,
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    assert list(temporary.iterdir()) == []
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
def test_the_same_bytes(short_sample: Path, tmp_path: Path) -> None:
    def written(workers: int) -> tuple[int, str, str, bytes]:
        outcomes = tmp_path / f"outcomes-{workers}"
        options = ("--json", "--workers", workers, "--outcomes", outcomes)
        return *run(tmp_path, COMMAND, short_sample, *options), outcomes.read_bytes()

    ahead = written(2)
    assert (ahead[0], ahead[2], bool(ahead[3])) == (1, "", True)
    assert written(1) == ahead


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "kind", "error"),
    [
        (None, NoLogError, "audit.jsonl: no such file"),
        (
            "nonsense\n",
            AuditLogError,
            "audit.jsonl: no audit event: 1 of 1 unusable lines are `malformed` (the line is not one JSON object)",
        ),
    ],
    ids=["no file", "no event"],
)
def test_the_same_errors(
    content: str | None,
    kind: type[AuditLogError],
    error: str,
    short_sample: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if content is not None:
        (tmp_path / "audit.jsonl").write_text(content, encoding="utf-8")
    arguments = ("audit.jsonl", "--candidate", short_sample / "candidate")
    assert run(tmp_path, COMMAND, *arguments, "--workers", 2) == (2, "", f"replay: {error}\n")
    monkeypatch.chdir(tmp_path)
    isolated_end = CliRunner().invoke(app, ["run", *map(str, arguments), "--workers", "1"])
    assert (type(isolated_end.exception), str(isolated_end.exception)) == (kind, error)


def test_an_error_of_its_own_is_told_with_where_it_was(short_sample: Path, tmp_path: Path) -> None:
    code, out, err = run(tmp_path, BROKEN + COMMAND, short_sample, "--workers", "2")
    *lines, last = err.splitlines()
    assert (code, out) == (70, "")
    assert last == "replay: internal error, please report it with the lines above: AttributeError: no such thing"
    assert any("in _read" in line for line in lines)

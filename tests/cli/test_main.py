"""`python -m replay`, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "replay", *arguments]
    env = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=env)


def test_it_is_the_command() -> None:
    done = run("cel", "1 + 1")
    assert (done.returncode, done.stdout.split()[0], done.stderr) == (0, "2", "")
    assert run("sql", "--store", "nowhere", "select 1").returncode == 2


@pytest.mark.parametrize("name", ["rum", "options"], ids=["mistyped", "a module that is no command"])
def test_an_unknown_command_is_a_usage_error(name: str) -> None:
    done = run(name)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"Error: No such command '{name}'. Did you mean" in done.stderr


# The path of a fork server's socket has a limit: below a long path workers are spawned instead, and import what is run.
@pytest.mark.slow
@pytest.mark.parametrize("directory", ["short", "x" * 80], ids=["forkserver", "spawn"])
def test_workers_do_not_run_it_again(directory: str, short_sample: Path, tmp_path: Path) -> None:
    temporary = tmp_path / directory
    temporary.mkdir()
    done = run("run", str(short_sample), "--workers", "2", "--json", TMPDIR=str(temporary))
    assert (done.returncode, done.stderr) == (1, "")
    assert json.loads(done.stdout)["decided"]["requests"] > 500
    assert list(temporary.iterdir()) == []


def test_an_error_of_its_own_is_no_finding() -> None:
    """Python exits with 1 after an uncaught exception, which means that something is newly denied."""
    broken = (
        "import replay.cli.app as app\ndef fail(**_): raise AttributeError('no such thing')\napp.app = fail\napp.main()"
    )
    done = subprocess.run([sys.executable, "-c", broken], capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stdout) == (70, "")
    *_, last = done.stderr.splitlines()
    assert last == "replay: internal error, please report it with the lines above: AttributeError: no such thing"

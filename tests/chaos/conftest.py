"""A log, a store that answers from it, and the command in a process of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.short_sample import SAMPLE, write_first_lines

LINES = 600
PATIENCE_SECONDS = 120.0


class Done(NamedTuple):
    """What a command left: its exit code and what it printed."""

    code: int
    out: str
    err: str

    @property
    def is_told(self) -> bool:
        """Whether it is an error of one line, and nothing else."""
        is_line = self.err.startswith("replay: ") and self.err.count("\n") == 1
        return self.code >= 2 and is_line and not self.out


class Command:
    """The command line, with a directory for temporary files that nobody else uses."""

    def __init__(self, temporary: Path) -> None:
        self.temporary = temporary

    def start(self, arguments: Sequence[object], environment: Mapping[str, str] = {}) -> subprocess.Popen[str]:
        """A process in a session of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", "replay", *map(str, arguments)],
            env={**os.environ, "TMPDIR": str(self.temporary), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments: object) -> Done:
        """The command to its end."""
        with self.start(arguments) as process:
            out, err = process.communicate(timeout=PATIENCE_SECONDS)
        return Done(process.returncode, out, err)

    def not_converted(self) -> list[str]:
        """The names of what is in the temporary directory."""
        return sorted(path.name for path in self.temporary.iterdir())


@pytest.fixture
def command() -> Iterator[Command]:
    path = Path(tempfile.mkdtemp(prefix="t", dir="/tmp"))  # short: a socket is made below it
    yield Command(path)
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first lines of the sample."""
    path = tmp_path_factory.mktemp("log") / "audit.jsonl"
    write_first_lines(path, LINES)
    return path


@pytest.fixture(scope="session")
def sets() -> list[object]:
    """The options of a replay."""
    (cluster,) = SAMPLE.glob("cluster.*")
    return ["--current", SAMPLE / "current", "--candidate", SAMPLE / "candidate", "--cluster", cluster]

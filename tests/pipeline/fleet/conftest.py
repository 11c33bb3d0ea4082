"""Dask processes of this machine, and the bucket that they share with the command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.storage.conftest import bucket, endpoint

__all__ = ["Processes", "bucket", "endpoint", "processes"]

ROOT = Path(__file__).parents[3]


def until(holds: Callable[[], object], patience: float = 300) -> None:
    """Wait for what happens, however busy the machine is."""
    deadline = time.monotonic() + patience
    while not holds():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.05)


class Processes:
    """A scheduler, and workers as they are started; all end with the test."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self._directory = directory
        self._stack = stack
        self._file = directory / "scheduler.json"
        self._started = 0
        self._start("scheduler", "--port", "0")
        until(self._address)
        self.address = self._address()

    def _address(self) -> str:
        """What the scheduler has written of itself, nothing before it has written all of it."""
        try:
            return str(json.loads(self._file.read_text())["address"])
        except (FileNotFoundError, ValueError):
            return ""

    def worker(self, code: Path = ROOT) -> subprocess.Popen[bytes]:
        """A worker with one thread that runs the code of a checkout."""
        place = self._directory / f"worker-{self._started}"
        return self._start("worker", "--nthreads", "1", "--no-nanny", "--local-directory", str(place), code=code)

    def command(self, *arguments: str | Path) -> subprocess.Popen[str]:
        """`replay`, at work."""
        words = [sys.executable, "-m", "replay", *map(str, arguments)]
        process = subprocess.Popen(
            words, cwd=self._directory, env=environment(ROOT), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._stack.callback(process.kill)
        return process

    def _start(self, what: str, *options: str, code: Path = ROOT) -> subprocess.Popen[bytes]:
        self._started += 1
        words = [sys.executable, "-m", "dask", what, "--host", "127.0.0.1", "--no-dashboard"]
        with (self._directory / f"{what}-{self._started}.log").open("wb") as log:
            process = subprocess.Popen(
                [*words, "--scheduler-file", str(self._file), *options],
                cwd=self._directory,
                env=environment(code),
                stdout=log,
                stderr=log,
            )
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        return process


def environment(code: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(code)}


@pytest.fixture
def processes(bucket: str, tmp_path: Path) -> Iterator[Processes]:
    """A scheduler without workers; what is started finds the bucket."""
    assert bucket
    with ExitStack() as stack:
        yield Processes(tmp_path, stack)

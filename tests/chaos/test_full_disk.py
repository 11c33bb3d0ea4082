"""A disk that is full: one line of error, and what was there before stays as it was."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.conftest import Command, Done

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts file systems")]
SIZES = {"store": 1 << 17, "temporary": 1 << 18, "outcomes": 1 << 16, "report": 1 << 15}


@contextmanager
def _small_disk(path: Path, size: int) -> Iterator[None]:
    """A file system of so many bytes; skips where none can be mounted."""
    path.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", str(path)], check=True)


@pytest.fixture(scope="module")
def wanted(log: Path, sets: list[object], tmp_path_factory: pytest.TempPathFactory) -> Done:
    """What the command says where there is room."""
    return Command(tmp_path_factory.mktemp("t")).run("run", log, *sets, "--json")


@pytest.mark.parametrize("place", SIZES)
def test_a_full_disk(place: str, log: Path, sets: list[object], wanted: Done, tmp_path: Path, command: Any) -> None:
    disk = command.temporary if place == "temporary" else tmp_path / place
    store = tmp_path / "store" if place != "store" else disk / "store"
    outcomes = tmp_path / "outcomes" / "file"
    arguments = ["run", log, *sets, "--outcomes", outcomes, "--report", tmp_path / "report"]
    if place == "store":
        arguments += ["--store", store]
    outcomes.parent.mkdir()
    with _small_disk(disk, SIZES[place]):
        done = command.run(*arguments, "--json")
        assert done.is_told, done
        sys.stdout.write(f"{place}: {done.err}")
        assert [path for path in disk.rglob("*") if "partial" in path.name or path.name.startswith("new-")] == []
        if place == "store":
            assert command.run("run", log, *sets, "--json").out == wanted.out
    assert command.not_converted() == []
    again = command.run(*arguments, "--json")
    assert (again.code, again.out) == (wanted.code, wanted.out)

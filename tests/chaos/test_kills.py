"""A command that is killed leaves nothing that is believed, and nothing that the next run does not sweep."""

from __future__ import annotations

import random
import shutil
import signal
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replay.audit.store import Store
from replay.pipeline.replay.kept_result import RESULTS
from tests.support.short_sample import SAMPLE

PATIENCE_SECONDS = 20.0
Ask = Callable[[Path], list[object]]


def _processes(session: int) -> list[int]:
    """The processes of a session that have not ended."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            text = (entry / "stat").read_text(encoding="utf-8") if entry.name.isdigit() else ""
        except OSError:
            continue
        fields = text.rpartition(")")[2].split()
        if fields and fields[3] == str(session) and fields[0] != "Z":
            found.append(int(entry.name))
    return found


def _ended(session: int) -> list[int]:
    """What is left of a session after a while."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (left := _processes(session)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


def _spare(directory: Path) -> list[str]:
    """What a store or a result has that is neither whole nor theirs."""
    return [path.name for path in directory.rglob("*") if "partial" in path.name or path.name.startswith("new-")]


def _kill(command: Any, arguments: list[object], number: int, after: float) -> None:
    """Send a signal to a command after some seconds, and look at what it leaves."""
    with command.start(arguments) as process:
        time.sleep(after)
        process.send_signal(number)
        out, err = process.communicate(timeout=120)
    assert _ended(process.pid) == []
    if number == signal.SIGTERM:
        told = "replay: terminated; only complete files were written\n"
        # Before the first line of `replay` runs, the system ends the process; after the last, it is too late.
        assert (process.returncode, err) in ((143, told), (-signal.SIGTERM, ""), (0, ""), (1, "")), (out, err)
        assert command.not_converted() == []


def _written(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()}


def _commands(log: Path, sets: list[object]) -> dict[str, Ask]:
    """What is asked, by what it writes beside a store."""
    return {
        "ingest": lambda place: ["ingest", log, "--store", place / "store"],
        "run": lambda place: [
            *("run", log, "--store", place / "store", *sets, "--workers", 2, "--json"),
            *("--outcomes", place / "out" / "outcomes", "--report", place / "out"),
        ],
        "run again": lambda place: [
            "run",
            log,
            "--store",
            place / "store",
            *sets,
            "--workers",
            2,
            "--report",
            place / "out",
        ],
        "report": lambda place: [
            *("report", log, "--store", place / "store", *sets, "--workers", 2, "--out", place / "out"),
        ],
    }


def _asked(command: Any, place: Path, ask: Ask) -> tuple[Any, dict[str, bytes], tuple[Any, ...]]:
    """What a command gives and writes, and what the store holds then."""
    (place / "out").mkdir(parents=True, exist_ok=True)
    done = command.run(*ask(place))
    with Store.open(place / "store") as store:
        held = store.sql("select count(*), count(distinct audit_id) from request").row(0)
    return done.code, _written(place / "out"), held


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ingest", "run", "run again", pytest.param("report", marks=pytest.mark.nightly)])
def test_kills(name: str, log: Path, sets: list[object], tmp_path: Path, command: Any) -> None:
    ask = _commands(log, sets)[name]
    start = time.monotonic()
    wanted = _asked(command, tmp_path / "clean", ask)
    length = time.monotonic() - start
    assert wanted[0] in (0, 1)
    place = tmp_path / "place"
    chance = random.Random(name)
    for number, signalled in enumerate(
        (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL)
    ):  # the last over results that are kept
        (place / "out").mkdir(parents=True, exist_ok=True)
        _kill(command, ask(place), signalled, chance.uniform(0.1, length))
        assert _asked(command, place, ask) == wanted, number
        assert (command.not_converted(), _spare(place)) == ([], []), number
    sys.stdout.write(f"{name}: {length:.1f} s, {number + 1} kills\n")


@pytest.mark.slow
def test_kills_of_a_rerun(log: Path, sets: list[object], tmp_path: Path, command: Any) -> None:
    """A store holds the results of other policies; what a run with edited policies leaves of its own is right."""
    edited = tmp_path / "edited"
    shutil.copytree(SAMPLE / "candidate", edited)
    path = edited / "vap" / "memory-limits.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("all containers", "every one"), encoding="utf-8")
    command.run("run", log, "--store", tmp_path / "filled", *sets)
    options = [edited if each == SAMPLE / "candidate" else each for each in sets]
    rerun = ["run", *options, "--workers", 2, "--json", "--store"]
    shutil.copytree(tmp_path / "filled", tmp_path / "clean" / "store", ignore=shutil.ignore_patterns(RESULTS))
    start = time.monotonic()
    wanted = command.run(*rerun, tmp_path / "clean" / "store")
    length, chance = time.monotonic() - start, random.Random(4)
    assert wanted.code == 1
    for number in range(4):
        store = tmp_path / f"killed-{number}" / "store"
        shutil.copytree(tmp_path / "filled", store)
        _kill(command, [*rerun, store], signal.SIGKILL, chance.uniform(0.1, length))
        assert command.run(*rerun, store) == wanted, number


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["SIGTERM", "SIGKILL"])
def test_the_next_ingest_sweeps(number: int, log: Path, tmp_path: Path, command: Any) -> None:
    arguments = ["ingest", log, "--store", tmp_path / "store"]
    with command.start(arguments) as process:
        while process.poll() is None and not list(tmp_path.glob("store/segments/new-*")):
            time.sleep(0.01)
        process.send_signal(number)
        process.communicate(timeout=60)
    assert process.returncode in (143, -number, 0)
    if number == signal.SIGTERM:
        assert (command.not_converted(), _spare(tmp_path)) == ([], [])
    done = command.run(*arguments)
    assert (done.code, command.not_converted(), _spare(tmp_path)) == (0, [], [])


@pytest.mark.slow
def test_what_is_written_is_for_its_owner(log: Path, sets: list[object], tmp_path: Path, command: Any) -> None:
    before = tmp_path / "outcomes"
    before.touch()
    before.chmod(0o644)
    store, out = tmp_path / "store", tmp_path / "out"
    done = command.run(
        "run", log, "--store", store, *sets, "--outcomes", before, "--report", out, "--rejects", tmp_path / "r"
    )
    assert done.code in (0, 1), done.err
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    assert modes.pop(before) == 0o644
    assert {(path.is_dir(), mode) for path, mode in modes.items()} == {(True, 0o700), (False, 0o600)}

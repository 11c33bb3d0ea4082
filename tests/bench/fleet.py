"""How a fleet scales: `python -m tests.bench.fleet [--terabytes 1] [--rounds 2]`.

Measured, in seconds of CPU: every task of an ingest and of a run over the recording, and what the command does besides. Then
one and two Dask workers of this machine, in turns. On paper: a log of some terabytes on up to a hundred workers, with tasks of
the measured cost for each byte and the measured spread, handed out longest first; pass after pass, and what the command does
alone is added: once what a part of the recording costs more than another one, and what both cost. Numbers are printed, nothing
is asserted.
"""

from __future__ import annotations

import argparse
import heapq
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any

from msgspec.structs import replace

from replay.audit import ingest as reading
from replay.audit.source import log_files, open_log
from replay.audit.store import MOST_PARTS, PART_BYTES, Store
from replay.pipeline.fleet.dask import dask_fleet
from replay.pipeline.options import Options
from replay.pipeline.replay.kept_result import RESULTS
from replay.pipeline.run import run
from replay.pipeline.scenario import Scenario
from replay.pipeline.store import fill
from tests.bench.run import log_and_sets

WORKERS = (1, 2, 4, 8, 16, 32, 64, 100)
FILES = 16
"""In how many files the recording is read, to see how much the cost of reading varies."""
PASSES = {"BatchJob": "reading", "Whole": "first pass", "Walk": "second pass"}
TERABYTE = 1e12
HOUR = 3600.0


def silent(_what: str, _done: int, _total: int) -> None:
    """No progress shown."""


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


@dataclass
class Noting(Executor):
    """A fleet whose only worker is this process: it notes the seconds of CPU of each task, by pass."""

    passes: dict[str, list[float]] = field(default_factory=dict)

    def executor(self, _store: Store) -> Executor:
        return self

    def submit(self, fn: Callable[..., Any], /, *args: Any, **_kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        start = time.process_time()
        future.set_result(fn(*args))
        name = PASSES[type(fn.__self__).__name__]  # type: ignore[attr-defined]
        self.passes.setdefault(name, []).append(time.process_time() - start)
        return future


@dataclass(frozen=True)
class Cost:
    """Seconds of CPU for so many bytes of JSON: of each task by pass, and of the command besides, step by step."""

    bytes: int
    passes: dict[str, list[float]]
    alone: dict[str, float]


def pieces(log: Path, directory: Path) -> list[str]:
    """The log in files that are not compressed."""
    with ExitStack() as held:
        (file,) = log_files([log], directory, held)
        lines = held.enter_context(open_log(file)).readlines()
    size = -(-len(lines) // FILES)
    paths = [directory / f"{number:02}.jsonl" for number in range(FILES)]
    for number, path in enumerate(paths):
        path.write_bytes(b"".join(lines[number * size : (number + 1) * size]))
    return [str(path) for path in paths]


def measured(scenario: Scenario) -> Cost:
    """What filling the store of a scenario and a run over it cost."""
    size = sum(Path(path).stat().st_size for path in scenario.logs)
    noting, alone = Noting(), {}
    reading.BATCH_BYTES, usual = size // FILES, reading.BATCH_BYTES
    steps: dict[str, Callable[[], object]] = {
        "ingest": lambda: fill(scenario, None, silent, noting),
        "run": lambda: run(replace(scenario, logs=()), Options(fleet=noting), silent),
    }
    for name, step in steps.items():
        start, before = time.process_time(), sum(map(sum, noting.passes.values()))
        step()
        alone[name] = time.process_time() - start - (sum(map(sum, noting.passes.values())) - before)
    reading.BATCH_BYTES = usual
    return Cost(size, noting.passes, alone)


def print_measured(cost: Cost) -> None:
    say(f"\nMeasured, {cost.bytes / 1e6:.0f} MB of JSON, seconds of CPU\n")
    say("| pass | tasks | all | mean | longest | spread (deviation / mean) |\n| --- | --- | --- | --- | --- | --- |")
    for name, tasks in cost.passes.items():
        mean = statistics.mean(tasks)
        spread = statistics.pstdev(tasks) / mean
        say(f"| {name} | {len(tasks)} | {sum(tasks):.2f} | {mean:.3f} | {max(tasks):.3f} | {spread:.2f} |")
    for name, seconds in cost.alone.items():
        say(f"| {name}, the command alone | | {seconds:.2f} | | | |")


def print_scaling(scenario: Scenario, rounds: int) -> None:
    """One and two workers of this machine, in turns: seconds of a run over a filled store that keeps no results."""
    say("\nDask workers of this machine, which others use as well\n")
    say(
        "| workers | wall s | CPU s of the workers | CPU s of the command | largest worker MiB |\n| --- | --- | --- | --- | --- |"
    )
    asked = replace(scenario, logs=())
    for _ in range(rounds):
        for workers in (1, 2):
            shutil.rmtree(Path(str(scenario.store)) / RESULTS)
            with dask_fleet("", workers) as fleet:
                before = sum(fleet.client.run(time.process_time).values())
                wall, own = time.perf_counter(), time.process_time()
                run(asked, Options(fleet=fleet), silent)
                wall, own = time.perf_counter() - wall, time.process_time() - own
                there = sum(fleet.client.run(time.process_time).values()) - before
                largest = max(
                    fleet.client.run(getrusage, RUSAGE_SELF).values(), key=lambda used: used.ru_maxrss
                ).ru_maxrss
            say(f"| {workers} | {wall:.1f} | {there:.1f} | {own:.1f} | {largest / 1024:.0f} |")


def listed(tasks: Sequence[float], workers: int) -> float:
    """When the last of some tasks ends that are handed out longest first."""
    free = [0.0] * workers
    for task in sorted(tasks, reverse=True):
        heapq.heapreplace(free, free[0] + task)
    return max(free)


def scaled(tasks: Sequence[float], size: float, total: float, count: int) -> list[float]:
    """As many tasks for so many bytes, each as much longer or shorter than the mean as one that was measured."""
    chance = random.Random(1)
    mean = sum(tasks) / size * total / count
    drawn = [chance.choice(tasks) / statistics.mean(tasks) for _ in range(count)]
    return [mean * each for each in drawn]


def extrapolated(part: Cost, whole: Cost, total: float) -> dict[str, float]:
    """What the command does alone for so many bytes, by what it costs for fewer and for more."""
    slope = {name: (whole.alone[name] - part.alone[name]) / (whole.bytes - part.bytes) for name in whole.alone}
    return {name: whole.alone[name] + slope[name] * (total - whole.bytes) for name in slope}


def print_paper(part: Cost, cost: Cost, terabytes: float) -> None:
    total = terabytes * TERABYTE
    parts = round(max(16, min(MOST_PARTS, total / PART_BYTES)))
    counts = {"reading": -(-int(total) // reading.BATCH_BYTES), "first pass": parts, "second pass": parts}
    tasks = {name: scaled(found, cost.bytes, total, counts[name]) for name, found in cost.passes.items()}
    alone = extrapolated(part, cost, total)
    say(f"\nOn paper, {terabytes:g} TB of JSON, {parts} parts; hours\n")
    say("| workers | reading | first pass | second pass | command alone | all | times one worker | busy |")
    say("| --- | --- | --- | --- | --- | --- | --- | --- |")
    one = sum(map(sum, tasks.values())) + sum(alone.values())
    for workers in WORKERS:
        spans = {name: listed(each, workers) for name, each in tasks.items()}
        wall = sum(spans.values()) + sum(alone.values())
        told = " | ".join(f"{spans.get(name, 0) / HOUR:.2f}" for name in PASSES.values())
        busy = sum(map(sum, tasks.values())) / (wall * workers)
        say(
            f"| {workers} | {told} | {sum(alone.values()) / HOUR:.2f} | {wall / HOUR:.2f} | {one / wall:.1f} | {busy:.0%} |"
        )
    say(f"\nCore-hours: {one / HOUR:.1f}, of them {sum(alone.values()) / HOUR:.1f} of the command alone")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--terabytes", type=float, nargs="*", default=[0.1, 1.0])
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    log, sets = log_and_sets()
    os.umask(0o077)
    with tempfile.TemporaryDirectory() as made:
        directory = Path(made)
        scenario = Scenario(
            tuple(pieces(log, directory)),
            store=directory / "store",
            current=sets / "current",
            candidate=sets / "candidate",
            cluster=next(sets.glob("cluster.*")),
        )
        part = measured(replace(scenario, logs=scenario.logs[: FILES // 4], store=directory / "part"))
        cost = measured(scenario)
        print_measured(part)
        print_measured(cost)
        print_scaling(scenario, arguments.rounds)
        for terabytes in arguments.terabytes:
            print_paper(part, cost, terabytes)


if __name__ == "__main__":
    main()

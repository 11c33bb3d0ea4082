"""Dask workers that are processes of their own: what they find is, to the byte, what this machine finds alone."""

from __future__ import annotations

import gzip
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from distributed import Client

from replay.storage.location import opened
from tests.pipeline.fleet.conftest import ROOT, Processes, until

pytestmark = pytest.mark.slow
SETS = ("--current", "sample/current", "--candidate", "sample/candidate", "--cluster", "sample/cluster.jsonl.zst")


@pytest.fixture
def logs(short_sample: Path, tmp_path: Path) -> list[str]:
    """A log in four files that are read one by one, since every other one is compressed; the sets stand in `sample`."""
    (tmp_path / "sample").symlink_to(short_sample)
    lines = (short_sample / "audit.jsonl").read_bytes().splitlines(keepends=True)
    names = [f"{number}.jsonl{'.gz' if number % 2 else ''}" for number in range(4)]
    for number, name in enumerate(names):
        content = b"".join(lines[number::4])
        (tmp_path / name).write_bytes(gzip.compress(content) if number % 2 else content)
    return names


@contextmanager
def asked(processes: Processes) -> Iterator[Client]:
    """Who asks the scheduler what goes on."""
    with Client(processes.address, set_as_default=False) as client:
        yield client


def done(process: subprocess.Popen[str], *codes: int) -> str:
    """What a command printed; it ended with one of some codes."""
    out, error = process.communicate(timeout=900)
    assert process.returncode in codes, error
    return f"{out}{error}"


def in_the_middle(processes: Processes, command: list[str | Path], worker: subprocess.Popen[bytes]) -> str:
    """What a command prints while one worker, which stands still, has something to do and is killed."""
    with asked(processes) as client:
        address = next(name for name, process in client.run(os.getpid).items() if process == worker.pid)
        worker.send_signal(signal.SIGSTOP)
        process = processes.command(*command)
        until(lambda: client.processing().get(address))
        worker.kill()
        return done(process, 0, 1)


def test_a_lost_worker_costs_its_part_alone(processes: Processes, bucket: str, logs: list[str], tmp_path: Path) -> None:
    log = in_bucket(f"{bucket.removesuffix('/store')}/log", logs, tmp_path)
    fleet = ("--scheduler", processes.address)
    stays, first = processes.worker(), processes.worker()
    with asked(processes) as client:
        client.wait_for_workers(2)
    in_the_middle(processes, ["ingest", log, "--store", bucket, *fleet], first)
    second = processes.worker()
    with asked(processes) as client:
        until(lambda: len(client.scheduler_info()["workers"]) == 2)
    run: list[str | Path] = ["run", "--store", bucket, *SETS, "--format", "json", "--outcomes"]
    in_the_middle(processes, [*run, "fleet.jsonl", "--out", "fleet.json", *fleet], second)
    report = ["report", "--store", bucket, *SETS, "--json"]
    found = done(processes.command(*report, *fleet), 0)
    assert stays.poll() is None

    done(processes.command(*run, "here.jsonl", "--out", "here.json"), 1)
    done(processes.command("run", log, *SETS, "--outcomes", "alone.jsonl"), 1)
    outcomes = [(tmp_path / f"{name}.jsonl").read_bytes() for name in ("fleet", "here", "alone")]
    assert outcomes[0] == outcomes[1] == outcomes[2] != b""
    assert (tmp_path / "fleet.json").read_bytes() == (tmp_path / "here.json").read_bytes()
    assert found == done(processes.command(*report), 0)
    assert names_below(f"{bucket}/fleet") == []


def in_bucket(url: str, names: list[str], directory: Path) -> str:
    """The pattern of files, put below a URL."""
    with ExitStack() as stack:
        storage = opened(url, stack)
        for name in names:
            storage.put(name, (directory / name).read_bytes())
    return f"{url}/*"


def names_below(url: str) -> list[Any]:
    obstore = pytest.importorskip("obstore")
    store = pytest.importorskip("obstore.store").from_url(url, client_options={"allow_http": True})
    return [each for page in obstore.list(store) for each in page]


def test_an_interrupt_cancels_what_was_ordered(processes: Processes, bucket: str, logs: list[str]) -> None:
    worker = processes.worker()
    with asked(processes) as client:
        client.wait_for_workers(1)
        worker.send_signal(signal.SIGSTOP)
        process = processes.command("ingest", *logs, "--store", bucket, "--scheduler", processes.address)
        until(lambda: any(client.processing().values()))
        process.send_signal(signal.SIGINT)
        assert done(process, 130) == "replay: interrupted; only complete files were written\n"
        until(lambda: not any(client.processing().values()))
        worker.send_signal(signal.SIGCONT)
        assert client.submit(sum, (1, 2)).result() == 3
    assert [each["path"] for each in names_below(bucket)] == []


def test_another_replay_is_refused(processes: Processes, bucket: str, logs: list[str], tmp_path: Path) -> None:
    other = tmp_path / "other"
    for folder in ("replay", "queries"):
        shutil.copytree(ROOT / folder, other / folder, ignore=shutil.ignore_patterns("__pycache__"))
    with (other / "replay" / "errors.py").open("a") as file:
        file.write("# another one\n")
    worker = processes.worker(other)
    with asked(processes) as client:
        client.wait_for_workers(1)
    told = done(processes.command("ingest", *logs, "--store", bucket, "--scheduler", processes.address), 2)
    assert worker.poll() is None
    assert (told.startswith("replay: worker "), told.count("\n")) == (True, 1), told
    assert told.endswith(": use one image for all\n")


def test_workers_of_this_machine(processes: Processes, logs: list[str], tmp_path: Path) -> None:
    engine = ("--engine", "dask", "--workers", "2")
    done(processes.command("run", *logs, *SETS, "--outcomes", "fleet.jsonl", *engine), 1)
    done(processes.command("run", *logs, *SETS, "--outcomes", "alone.jsonl"), 1)
    assert (tmp_path / "fleet.jsonl").read_bytes() == (tmp_path / "alone.jsonl").read_bytes()

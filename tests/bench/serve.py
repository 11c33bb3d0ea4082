"""Measure `replay serve`: `python -m tests.bench.serve [LOG] [--speed 20] [--kills 0] [--full-disk] [--clock-back]`.

A log, by default the recording `bench`, is played at some times its speed into the listener, as API servers send it. Two trials run, and
the manifests of a third change every ten seconds, while a reader opens pages. With --kills the service and all its processes are killed so
often in the middle; with --full-disk its disk is full for a while; with --clock-back its clock goes back an hour.

Prints what was acknowledged and what the store holds, how long pages took, the memory of all processes together, and whether the results at
the end are those of `replay run`, byte for byte.
"""

from __future__ import annotations

import argparse
import http.client
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import orjson

from replay.audit.source import log_files, open_log
from tests.bench.ingest import BENCH
from tests.bench.run import RECORDINGS
from tests.bench.watch import session
from tests.support.live_command import audit_ids

BATCH = 400
DELAY = 30.0
"""Events of a batch, and seconds of the log after which one is sent: the defaults of an API server."""
EDIT_SECONDS = 10.0
READ_SECONDS = 0.1
PATIENCE = 1800.0
DISK = 192 << 20
FULL_SECONDS = 10.0
CLOCK = Path(__file__).parents[1] / "support" / "clock"
TRIALS = ("one", "two", "edited")


class Batch(NamedTuple):
    """Events as an API server sends them, and the second of the log at which it does."""

    at: float
    body: bytes
    ids: tuple[str, ...]


def batches(path: Path, most: int) -> list[Batch]:
    """The events of a log, in batches."""
    with ExitStack() as held:
        (file,) = log_files([path], path.parent, held)
        lines = [orjson.loads(line) for line in held.enter_context(open_log(file))][:most]
    begin = datetime.fromisoformat(lines[0]["stageTimestamp"]).timestamp()
    found: list[Batch] = []
    events: list[Any] = []
    due = 0.0
    for line in lines:
        at = datetime.fromisoformat(line["stageTimestamp"]).timestamp() - begin
        if events and (len(events) == BATCH or at > due):
            found.append(_batch(at, events))
            events = []
        due = due if events else at + DELAY
        events.append(line)
    return [*found, _batch(at, events)]


def _batch(at: float, events: list[Any]) -> Batch:
    document = {"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "metadata": {}, "items": events}
    return Batch(at, orjson.dumps(document), tuple(event["auditID"] for event in events))


class Played(NamedTuple):
    """What is played, how fast, over which sets, and what happens meanwhile."""

    batches: Sequence[Batch]
    scenario: Path
    speed: float = 20.0
    kills: int = 0
    has_full_disk: bool = False
    has_clock_back: bool = False


class Outcome(NamedTuple):
    """What came of it; `differs` are the trials whose results are not those of `replay run`."""

    events: int
    seconds: float
    refused: dict[int, int]
    acknowledged: int
    missing: set[str]
    pages: list[tuple[float, str]]
    statuses: dict[int, int]
    failed: set[str]
    memory: float
    last: float
    code: int
    differs: list[str]


class Service:
    """`replay serve` on two ports of its own, which is started again after each kill."""

    def __init__(self, place: Path, disk: Path, scenario: Path, environment: dict[str, str]) -> None:
        self.place, self.store = place, disk / "store"
        self.source = scenario / "candidate"
        self.page, self.listener = free_port(), free_port()
        self._environment = {**os.environ, **environment}
        self._log = (place / "said").open("wb")
        self.inputs = ("--current", scenario / "current", "--cluster", scenario / "cluster.jsonl.zst")
        self.candidates = {"one": self.source, "two": place / "two", "edited": place / "edited"}
        shutil.copytree(self.source, place / "edited")
        shutil.copytree(self.source, place / "two")
        next((place / "two").rglob("memory-limits.yaml")).unlink()
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        trials = [text for name, path in self.candidates.items() for text in ("--trial", f"{name}={path}")]
        command = [
            *(sys.executable, "-m", "replay", "serve", "--store", self.store, *trials, *self.inputs),
            *("--listen", f"127.0.0.1:{self.listener}", "--address", f"127.0.0.1:{self.page}"),
            *("--flush-age", "5s", "--every", "5s", "--workers", "1"),
        ]
        return subprocess.Popen(
            [str(each) for each in command], stderr=self._log, start_new_session=True, env=self._environment
        )

    def wait(self) -> None:
        """Wait until it receives events."""
        while self.process.poll() is None:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.listener), timeout=10):
                return
            time.sleep(0.2)

    def kill(self) -> None:
        """End all processes as a loss of power would, and start again."""
        for pid in session(self.process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        self.process = self._start()

    def end(self) -> int:
        """End it as an operator does; return the exit code."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=120)
        self._log.close()
        return code

    def edit(self, number: int) -> None:
        """Change the message of a policy of the third trial."""
        path = next(self.candidates["edited"].rglob("memory-limits.yaml"))
        new = path.with_suffix(".new")
        text = next(self.source.rglob("memory-limits.yaml")).read_text("utf-8")
        new.write_text(text.replace("need a memory limit", f"need a memory limit ({number})"), encoding="utf-8")
        new.replace(path)

    def get(self, path: str) -> tuple[int, bytes]:
        """Ask for a page. Raises OSError, http.client.HTTPException."""
        connection = http.client.HTTPConnection("127.0.0.1", self.page, timeout=60)
        try:
            connection.request("GET", path, headers={"Accept": "text/html"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


def free_port() -> int:
    """A port that nobody has now."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        return int(bound.getsockname()[1])


class Sender(threading.Thread):
    """Sends batches at a speed, each until it is acknowledged, as an API server does."""

    def __init__(self, service: Service, played: Sequence[Batch], speed: float) -> None:
        super().__init__(daemon=True)
        self._service, self._played, self._speed = service, played, speed
        self.acknowledged: set[str] = set()
        self.refused: dict[int, int] = {}
        self.seconds = 0.0

    def run(self) -> None:
        """Send all."""
        begin = time.monotonic()
        for batch in self._played:
            time.sleep(max(0.0, begin + batch.at / self._speed - time.monotonic()))
            while (status := self._posted(batch.body)) != http.client.OK:
                self.refused[status] = self.refused.get(status, 0) + 1
                time.sleep(0.5)
            self.acknowledged.update(batch.ids)
        self.seconds = time.monotonic() - begin

    def _posted(self, body: bytes) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self._service.listener, timeout=60)
        try:
            connection.request("POST", "/audit", body, {"Content-Type": "application/json"})
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return 0
        finally:
            connection.close()


class Reader(threading.Thread):
    """Opens pages in turn; `took` are the seconds of each answer, `memory` the MiB of all processes together at their peak."""

    def __init__(self, service: Service) -> None:
        super().__init__(daemon=True)
        self._service = service
        self.ended = threading.Event()
        self.took: list[tuple[float, str]] = []
        self.statuses: dict[int, int] = {}
        self.failed: set[str] = set()
        self.memory = 0.0

    def run(self) -> None:
        """Read until the end."""
        number = 0
        while not self.ended.wait(READ_SECONDS):
            path = self._paths()[number % len(self._paths())]
            number += 1
            begin = time.monotonic()
            try:
                status, _ = self._service.get(path)
            except (OSError, http.client.HTTPException):
                continue  # it is being started again
            self.took.append((time.monotonic() - begin, path))
            self.statuses[status] = self.statuses.get(status, 0) + 1
            if status >= http.client.INTERNAL_SERVER_ERROR:
                self.failed.add(path)
            if number % 5 == 0:
                self.memory = max(self.memory, sum(map(resident, session(self._service.process.pid))))

    def _paths(self) -> tuple[str, ...]:
        workload = {"policy": "memory-limits.static.k8s.io", "namespace": "team-b", "workload": "Deployment/app-33"}
        return (
            *("/", "/trials/one", "/trials/two", "/trials/edited", f"/trials/one/workload?{urlencode(workload)}"),
            *(
                "/trials/one/workloads?policy=memory-limits.static.k8s.io",
                "/log",
                "/metrics",
                "/api/v1/trials",
                "/?format=md",
            ),
        )


def resident(pid: int) -> float:
    """The MiB of memory of a process, with its share of what several processes have."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    return 0.0


@contextmanager
def small_disk(path: Path, is_wanted: bool) -> Iterator[Path]:
    """A file system of a few MiB if it is wanted, else a directory."""
    path.mkdir()
    if is_wanted:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(path)], check=True)
    try:
        yield path
    finally:
        if is_wanted:
            subprocess.run(["umount", str(path)], check=True)


def fill(disk: Path, seconds: float) -> None:
    """Leave no room on a disk for a while."""
    path = disk / "filler"
    with suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(b"\0" * (1 << 16))
    time.sleep(seconds)
    path.unlink()


def decided(service: Service, requests: int) -> dict[str, bytes]:
    """Wait until each trial is decided over all requests, and return the documents."""
    deadline = time.monotonic() + PATIENCE
    files = {name: Path(f"{service.store}.trials") / "trials" / name / "summary.json" for name in TRIALS}
    found: dict[str, bytes] = {}
    while time.monotonic() < deadline:
        time.sleep(2)
        with suppress(OSError, ValueError, http.client.HTTPException):
            trials = orjson.loads(service.get("/api/v1/trials")[1])["trials"]
            found = {name: path.read_bytes() for name, path in files.items()}
            counts = {orjson.loads(content)["log"]["requests"] for content in found.values()}
            if all(each["phase"] == "ready" for each in trials) and counts == {requests}:
                return found
    raise AssertionError([orjson.loads(content)["log"] for content in found.values()])


def run_bytes(service: Service, candidate: Path) -> bytes:
    """What `replay run` writes over the same store, without results that are kept."""
    results = service.store / "results"
    shutil.rmtree(results, ignore_errors=True)
    out = service.place / "run.json"
    command = (
        *(sys.executable, "-m", "replay", "run", "--store", service.store, "--candidate", candidate, *service.inputs),
        *("--format", "json", "--out", out, "--fail-on", "none"),
    )
    subprocess.run([str(each) for each in command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return out.read_bytes()


def play(played: Played) -> Outcome:
    """Play, read, edit and disturb."""
    with tempfile.TemporaryDirectory() as name, small_disk(Path(name) / "disk", played.has_full_disk) as disk:
        clock = Path(name) / "clock"
        clock.write_text("0")
        set_back = {"PYTHONPATH": str(CLOCK), "REPLAY_TEST_CLOCK": str(clock)}
        service = Service(Path(name), disk, played.scenario, set_back if played.has_clock_back else {})
        return _outcome(service, played, clock)


def _outcome(service: Service, played: Played, clock: Path) -> Outcome:
    chance = random.Random(46)
    length = played.batches[-1].at / played.speed
    moments = sorted(chance.uniform(0.02, 0.98) * length for _ in range(played.kills))
    sender, reader = Sender(service, played.batches, played.speed), Reader(service)
    service.wait()
    begin = time.monotonic()
    for thread in (sender, reader):
        thread.start()
    edits, is_disturbed = 0, False
    while sender.is_alive():
        time.sleep(0.1)
        if service.process.poll() is not None:
            raise AssertionError((service.place / "said").read_text("utf-8"))
        passed = time.monotonic() - begin
        if passed >= EDIT_SECONDS * (edits + 1):
            edits += 1
            service.edit(edits)
        if moments and passed >= moments[0]:
            moments.pop(0)
            service.kill()
        if passed >= length / 2 and not is_disturbed:
            is_disturbed = True
            if played.has_clock_back:
                clock.write_text("-3600")
            if played.has_full_disk:
                threading.Thread(target=fill, args=(service.store.parent, FULL_SECONDS), daemon=True).start()
    sent = time.monotonic()
    found = decided(service, len({each for batch in played.batches for each in batch.ids}))
    last = time.monotonic() - sent
    reader.ended.set()
    reader.join()
    code = service.end()
    return Outcome(
        sum(len(batch.ids) for batch in played.batches),
        sender.seconds,
        sender.refused,
        len(sender.acknowledged),
        sender.acknowledged - set(audit_ids(service.store)),
        sorted(reader.took),
        reader.statuses,
        reader.failed,
        reader.memory,
        last,
        code,
        [name for name, content in found.items() if content != run_bytes(service, service.candidates[name])],
    )


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("log", nargs="?", type=Path, default=BENCH)
    parser.add_argument("--speed", type=float, default=20)
    parser.add_argument("--events", type=int, default=1 << 40)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--full-disk", action="store_true")
    parser.add_argument("--clock-back", action="store_true")
    options = parser.parse_args()
    played = Played(
        batches(options.log, options.events),
        RECORDINGS / "shop",
        options.speed,
        options.kills,
        options.full_disk,
        options.clock_back,
    )
    found = play(played)
    count = len(found.pages)
    half, most, (slowest, path) = found.pages[count // 2][0], found.pages[int(count * 0.95)][0], found.pages[-1]
    sys.stdout.write(
        f"{found.events:,} events sent in {found.seconds:.1f} s ({found.events / found.seconds:,.0f} a second), "
        f"refused {found.refused}; {found.acknowledged:,} requests acknowledged, {len(found.missing)} of them missing\n"
        f"{count:,} pages {found.statuses}: half in {half * 1000:.0f} ms, 95 % in {most * 1000:.0f} ms, "
        f"the slowest, {path}, in {slowest * 1000:.0f} ms; failed {sorted(found.failed)}\n"
        f"memory of all processes together at most {found.memory:,.0f} MiB; decided over all {found.last:.0f} s after the last "
        f"event; exit {found.code}; results that differ from `replay run`: {found.differs}\n"
    )


if __name__ == "__main__":
    main()

"""Measure the listener: `python -m tests.bench.listen [LOG...] [--rate 20000] [--seconds 10] [--kills 0]`, by default the recording `bench`.

API servers are played that send the events of a log over and over, each time as new ones, in batches of 400 at a rate. Prints what
the listener took of the CPU for them, from the socket to the store, beside a bare HTTP server that throws the same batches away and
beside DuckDB's bare read of as many events. With --kills a listener is killed so often in the middle of batches instead.
"""

from __future__ import annotations

import argparse
import http.client
import os
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from threading import Lock, Thread
from urllib.parse import urlsplit

import orjson

from replay.audit.engine import INGEST_MEMORY, connect
from replay.audit.format.wrapper import EVENT, type_of
from replay.audit.source import log_files, open_log
from tests.bench.ingest import BENCH
from tests.support.live_command import LiveCommand, audit_ids
from tests.support.live_kills import BATCH as KILLED_BATCH
from tests.support.live_kills import killed

BATCH = 400
"""`--audit-webhook-batch-max-size` of an API server that is told nothing else."""
BATCHES = 25
CLIENTS = 4
SECOND = 20_000
"""Events by which CPU is stated."""
NEVER = ("--flush-size", "1TB", "--flush-age", "1h")
RECEIVED = 200_000 // BATCH
"""How many batches are received without an ingest: so many find room."""
_MARK = b"@@@@@@@@"
"""Stands for the beginning of each auditID, which is another one in each round."""


def batches(path: Path) -> list[bytes]:
    """The first events of a log as an API server sends them."""
    with ExitStack() as held:
        (file,) = log_files([path], path.parent, held)
        stream = held.enter_context(open_log(file))
        lines = [orjson.loads(line) for line in islice(stream, BATCH * BATCHES)]
    for line in lines:
        del line["kind"], line["apiVersion"]
        line["auditID"] = _MARK.decode() + line["auditID"][len(_MARK) :]
    heads = {"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "metadata": {}}
    return [orjson.dumps({**heads, "items": lines[n : n + BATCH]}) for n in range(0, len(lines), BATCH)]


def requests_of(bodies: Sequence[bytes], count: int) -> int:
    """How many requests so many batches are about: some events are other stages of the same one."""
    ids = [[event["auditID"] for event in orjson.loads(body)["items"]] for body in bodies]
    rounds, rest = divmod(count, len(ids))
    whole, some = ({each for batch in batches for each in batch} for batches in (ids, ids[:rest]))
    return rounds * len(whole) + len(some)


@dataclass
class Load:
    """Batches sent at a rate, by several connections; `answers` counts what was answered by its status."""

    url: str
    bodies: Sequence[bytes]
    rate: int
    batches: int
    answers: dict[int, int] = field(default_factory=dict)
    seconds: float = 0.0
    _next: int = 0
    _lock: Lock = field(default_factory=Lock)

    def run(self) -> None:
        """Send all of it."""
        begin = time.monotonic()
        threads = [Thread(target=self._send, args=(begin,)) for _ in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.seconds = time.monotonic() - begin

    def _send(self, begin: float) -> None:
        place = urlsplit(self.url)
        connection = http.client.HTTPConnection(place.hostname or "", place.port)
        while (number := self._taken()) is not None:
            time.sleep(max(0.0, begin + number * BATCH / self.rate - time.monotonic()))
            round_, index = divmod(number, len(self.bodies))
            body = self.bodies[index].replace(_MARK, b"%08d" % round_)
            while self._posted(connection, place.path, body) != http.client.OK:
                time.sleep(0.5)
        connection.close()

    def _taken(self) -> int | None:
        with self._lock:
            number = self._next
            self._next += 1
        return number if number < self.batches else None

    def _posted(self, connection: http.client.HTTPConnection, path: str, body: bytes) -> int:
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        with self._lock:
            self.answers[answer.status] = self.answers.get(answer.status, 0) + 1
        return answer.status


def cpu() -> float:
    """The seconds of CPU of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def receiving(bodies: Sequence[bytes], count: int, directory: Path) -> float:
    """The CPU that a listener takes for batches until they are on the disk."""
    before = cpu()
    with LiveCommand(["--listen", "127.0.0.1:0", "--store", directory / "received", *NEVER]) as command:
        Load(command.url(), bodies, 1 << 40, count).run()
        command.kill()
    return cpu() - before


def listener(bodies: Sequence[bytes], rate: int, count: int, directory: Path) -> tuple[float, Load, int]:
    """The CPU that a listener takes for so many batches, how they were sent, and how many requests are in the store."""
    before, store = cpu(), directory / "store"
    with LiveCommand(["--listen", "127.0.0.1:0", "--store", store]) as command:
        _on_one_core(command.process.pid)
        load = Load(command.url(), bodies, rate, count)
        load.run()
        code, _ = command.end()
        assert code == 0, command.told
    return cpu() - before, load, len(audit_ids(store))


def bare_server(bodies: Sequence[bytes], count: int) -> float:
    """The CPU that the HTTP server alone takes for them."""
    before = cpu()
    with LiveCommand([], program=("-m", "tests.bench.bare_server")) as command:
        load = Load(command.url(), bodies, 1 << 40, count)
        load.run()
        command.end()
    return cpu() - before


def bare_read(bodies: Sequence[bytes], directory: Path) -> float:
    """The CPU that DuckDB takes to read one round of them into a table."""
    path = directory / "audit.jsonl"
    lines = (orjson.dumps(item) + b"\n" for body in bodies for item in orjson.loads(body)["items"])
    path.write_bytes(b"".join(lines))
    columns = {name: type_of(column) for name, column in EVENT.items()}
    with connect(str(directory), threads=1, memory=INGEST_MEMORY) as connection:
        before = time.process_time()
        connection.execute(
            "create table event as from read_json($path, format = 'newline_delimited', columns = $columns)",
            {"path": str(path), "columns": columns},
        )
        return time.process_time() - before


def _on_one_core(process: int) -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(process, {min(os.sched_getaffinity(0))})


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("log", nargs="?", type=Path, default=BENCH)
    parser.add_argument("--rate", type=int, default=SECOND)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--kills", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        if options.kills:
            outcome = killed(Path(place), options.kills)
            sys.stdout.write(
                f"{options.kills} kills: {outcome.accepted * KILLED_BATCH:,} events accepted in {outcome.accepted} batches, "
                f"which were sent {outcome.sent} times; {len(outcome.missing)} missing, {len(outcome.repeated)} repeated\n"
            )
            return
        measure(options.log, options.rate, options.seconds, Path(place))


def measure(log: Path, rate: int, seconds: int, place: Path) -> None:
    """Print how a listener does beside what it cannot do without."""
    bodies = batches(log)
    count = rate * seconds // BATCH
    events, octets = count * BATCH, sum(map(len, bodies)) / (len(bodies) * BATCH)
    expected = requests_of(bodies, count)
    taken, load, requests = listener(bodies, rate, count, place)
    short = min(count, RECEIVED)
    received, server = receiving(bodies, short, place), bare_server(bodies, short)
    read = bare_read(bodies, place)
    sys.stdout.write(
        f"{events:,} events of {octets:,.0f} bytes, {requests:,} of {expected:,} requests in the store, "
        f"in {load.seconds:.1f} s ({events / load.seconds:,.0f} events/s); answers {load.answers}\n"
        f"CPU for {SECOND:,} events: listener {taken * SECOND / events:.2f} s, to the disk alone "
        f"{received * SECOND / (short * BATCH):.2f} s, a bare HTTP server {server * SECOND / (short * BATCH):.2f} s, "
        f"DuckDB's bare read {read * SECOND / (len(bodies) * BATCH):.2f} s; "
        f"largest process {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10} MiB\n"
    )


if __name__ == "__main__":
    main()

"""A process that reads the log while this one imports the engines.

Both take about as long, so the log is ready when this process is. This module imports no engine.
"""

from __future__ import annotations

import os
import threading
import traceback
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from importlib import import_module
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from replay.pipeline.processes import begin, can_fork, forked, shielded_from_signals
from replay.pipeline.scenario import STDIN, Scenario
from replay.storage.scratch import scratch

if TYPE_CHECKING:
    from replay.audit.catalog import Catalog
    from replay.audit.ingest import Progress
    from replay.audit.segment import IngestReport


_POLL_SECONDS = 0.2


class ReaderTraceback(Exception):  # noqa: N818 - as Python's own executors call it: the cause of an error that came from elsewhere
    """Traceback of a failed reader process."""

    def __str__(self) -> str:
        """Return the traceback of the reader process."""
        return f"\n{self.args[0]}"


class Failure(NamedTuple):
    """Error that ended the reading, and its traceback."""

    error: Exception
    place: str


class Segments(NamedTuple):
    """Result of the reading: the store's catalogue, and the report."""

    catalog: Catalog
    report: IngestReport


class AheadReading(NamedTuple):
    """A log that is being read into the store for one run in a directory."""

    directory: Path
    connection: Connection

    def segments(self, progress: Progress) -> Segments:
        """Return the result when it is ready. Raise the reader's error, and BrokenExecutor if it was killed."""
        while True:
            if not self.connection.poll(_POLL_SECONDS):  # the timeout lets interrupts through
                continue
            try:
                message = self.connection.recv()
            except EOFError as error:
                raise BrokenExecutor from error
            if isinstance(message, Failure):
                raise message.error from ReaderTraceback(message.place)
            if isinstance(message, Segments):
                return message
            progress(*message)


@contextmanager
def read_ahead(scenario: Scenario, workers: int) -> Iterator[AheadReading | None]:
    """Start to read a scenario's log; yield None if the caller must read it.

    That is so for standard input, kept stores (not changed before the manifests are valid), a single worker (0: one for
    each core), and processes that cannot fork.
    """
    is_alone = (workers or os.cpu_count() or 1) == 1
    if not can_fork() or is_alone or scenario.store is not None or STDIN in scenario.logs:
        yield None
        return
    with scratch() as directory:
        ours, theirs = Pipe(duplex=False)
        process = forked().Process(target=_read, args=(directory.resolve(), scenario, theirs), daemon=True)  # type: ignore[attr-defined]
        try:
            with shielded_from_signals(endings=True):  # interrupts are delivered afterwards
                process.start()
            theirs.close()
            yield AheadReading(directory.resolve(), ours)
        finally:
            process.terminate()
            process.join()
            ours.close()


def _read(directory: Path, scenario: Scenario, connection: Connection) -> None:
    """Read in a separate process, and report progress."""
    begin()

    def progress(what: str, count: int, total: int) -> None:
        connection.send((what, count, total))

    from replay.audit.store import Store  # noqa: PLC0415 - the other process does not wait for this

    # Polars writes the last files, and is imported while the threads of DuckDB read.
    threading.Thread(target=import_module, args=("polars",), daemon=True).start()
    try:
        with Store.for_one_run(directory) as store:
            report = store.ingest(scenario.logs, progress, scenario.formats)
            connection.send(Segments(store.catalog, report))
    except Exception as error:  # noqa: BLE001 - whatever it is, the other process tells it
        connection.send(Failure(error, traceback.format_exc()))

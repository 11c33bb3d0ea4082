"""A process that reads the log while this one imports the engines.

Both take about as long, so the log is ready when this process is. This module imports no engine.
"""

from __future__ import annotations

import os
import tempfile
import threading
import traceback
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from replay.errors import StoreError
from replay.pipeline.processes import begin, can_fork, forked, shielded_from_signals
from replay.pipeline.scenario import STDIN, Scenario
from replay.storage.location import is_bucket, opened
from replay.storage.scratch import scratch

if TYPE_CHECKING:
    from replay.audit.catalog import Catalog
    from replay.audit.ingest import Progress
    from replay.audit.segment import IngestReport


_POLL_SECONDS = 0.2
_GO_ON = "go on"


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
    """A log that is being read into a new store: the scenario's, or one for one run in a directory."""

    directory: Path
    connection: Connection

    def segments(self, progress: Progress) -> Segments:
        """Let the reader change a kept store, and return the result when it is ready.

        Raise the reader's error, and BrokenExecutor if it was killed.
        """
        with suppress(BrokenPipeError):  # the reader failed, and its error can be received
            self.connection.send(_GO_ON)
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

    That is so for standard input, stores that exist (they may have all results), a single worker (0: one for each core),
    and processes that cannot fork. A new store has no segment before the caller wants it.
    """
    is_alone = (workers or os.cpu_count() or 1) == 1
    if not can_fork() or is_alone or STDIN in scenario.logs or not (scenario.store is None or _is_new(scenario.store)):
        yield None
        return
    with scratch() as directory:
        ours, theirs = Pipe()
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
            if scenario.store is not None and process.exitcode:
                _sweep(scenario.store)


def _is_new(location: Path | str) -> bool:
    """Return whether a store on this machine would be made."""
    from replay.audit.catalog import CATALOG  # noqa: PLC0415 - only a kept store has one

    return not is_bucket(location) and not (Path(location) / CATALOG).exists()


def _sweep(location: Path | str) -> None:
    """Remove what a reader that was ended left in a store."""
    from replay.audit.directory import sweep  # noqa: PLC0415 - the reader is not to wait for this

    with ExitStack() as stack, suppress(StoreError):
        sweep(opened(location, stack))


def _read(directory: Path, scenario: Scenario, connection: Connection) -> None:
    """Read in a separate process, and report progress."""
    begin()

    def progress(what: str, count: int, total: int) -> None:
        connection.send((what, count, total))

    from replay.audit.store import Store  # noqa: PLC0415 - the other process does not wait for this

    # Polars writes the last files, and is imported while the threads of DuckDB read.
    threading.Thread(target=import_module, args=("polars",), daemon=True).start()
    is_kept = scenario.store is not None
    if is_kept:
        tempfile.tempdir = str(directory)  # the other process removes what this one leaves there if it is ended
    try:
        with Store.open(scenario.store) if is_kept else Store.for_one_run(directory) as store:
            report = store.ingest(
                scenario.logs, progress, scenario.formats, before_change=connection.recv if is_kept else None
            )
            connection.send(Segments(store.catalog, report))
    except Exception as error:  # noqa: BLE001 - whatever it is, the other process tells it
        connection.send(Failure(error, traceback.format_exc()))

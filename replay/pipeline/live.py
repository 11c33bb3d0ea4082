"""`replay ingest --follow` and `--listen`: fills a store from a growing log, until a signal ends it.

Old data is removed.
"""

from __future__ import annotations

import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from types import FrameType

from msgspec import Struct

from replay.audit.catalog import IS_LIVE, JOURNAL, LIVE
from replay.audit.directory import compact_store, compactable
from replay.audit.live.followed_log import FollowedLog
from replay.audit.live.tls import ServerTls
from replay.audit.reject import write_rejects
from replay.audit.segment import IngestReport
from replay.audit.source import LiveLog
from replay.audit.store import Store
from replay.errors import ReplayError, StoreError
from replay.pipeline.options import length
from replay.pipeline.scenario import STDIN, Scenario
from replay.pipeline.store import Retention, octets, prune
from replay.report.render.document import plural
from replay.storage.location import opened
from replay.storage.storage import Storage

_ENDINGS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def ended_by_signals() -> Iterator[Callable[[], bool]]:
    """Yield a function that tells whether the first Ctrl-C or SIGTERM has come. A second one ends the process at once.

    The handler runs between any two steps of the main thread. It takes no lock that this thread may hold, so it uses no
    `threading.Event`.
    """
    numbers: list[int] = []
    handlers = {number: signal.getsignal(number) for number in _ENDINGS}

    def restore() -> None:
        for number, handler in handlers.items():
            signal.signal(number, handler)

    def end(number: int, _frame: FrameType | None) -> None:
        # A second signal has its usual effect.
        restore()
        numbers.append(number)

    for number in _ENDINGS:
        signal.signal(number, end)
    try:
        yield lambda: bool(numbers)
    finally:
        restore()


_POLL_SECONDS = 0.5
_RETRY_SECONDS = 5.0
_ORDER_SECONDS = 3600.0
"""Seconds between removals of old data and compactions. The store is closed and opened again for these."""


class SegmentLimits(Struct, frozen=True):
    """Limits at which new data becomes a segment: bytes, and age."""

    octets: int
    seconds: float

    @classmethod
    def parse(cls, size: str, age: str) -> SegmentLimits:
        """Return the limits of texts such as `256MB` and `5m`. Raise ReplayError."""
        with suppress(OverflowError):
            if (period := length(age)) is not None:
                return cls(max(octets(size), 1), period.total_seconds())
        raise ReplayError(f"no length of time `{age}`: write 30s, 5m, 1h")


class Filling(Struct, frozen=True):
    """Fills the store of a scenario until `is_ended` returns true. `tell` gets lines for the operator.

    At the end, unusable lines of the store are written to `rejects`. Both ways of filling return the ingest's report
    and the number of requests in the store. They raise ReplayError. Data that was taken from the log and is not in the
    store yet is taken by the next process.
    """

    scenario: Scenario
    pace: SegmentLimits
    retention: Retention
    rejects: Path | None
    tell: Callable[[str], None]
    is_ended: Callable[[], bool]

    def follow(self) -> tuple[IngestReport, int]:
        """Fill the store from the growing files of the scenario."""
        if STDIN in self.scenario.logs:
            raise ReplayError("standard input is not followed: name files, directories or patterns")
        with self._locked_store():
            with self._store() as store:
                positions = store.positions
            with closing(FollowedLog(self.scenario.logs, positions, self.tell)) as log:
                self.tell(f"following {' '.join(self.scenario.logs)}")
                report = self._filled(log)
                return self._drained(log, report)

    def listen(self, address: str, tls: ServerTls) -> tuple[IngestReport, int]:
        """Fill the store from API servers that send to an address, `HOST:PORT`.

        The store's directory also holds the journal.
        """
        from replay.audit.live.listener import Listener  # noqa: PLC0415 - an extra, that files need not have

        with self._locked_store() as storage:
            with closing(Listener(address, tls, storage.local(JOURNAL), self.tell)) as log:
                self.tell(f"listening at {log.url}")
                report = self._filled(log)
            return self._drained(log, report)

    def _store(self) -> Store:
        return Store.open(self.scenario.store)

    @contextmanager
    def _locked_store(self) -> Iterator[Storage]:
        """Lock the store against other live ingests. Create it if needed."""
        with self._store() as store:
            store.append((), None)
        with ExitStack() as stack:
            storage = opened(self.scenario.store or "", stack)
            with storage.locked(LIVE, IS_LIVE, patience=0):
                yield storage

    def _filled(self, log: LiveLog) -> IngestReport:
        """Fill the store and tidy it, by turns, until the end. While the store cannot be written, the log waits."""
        report = IngestReport()
        while not self.is_ended():
            try:
                self._put_in_order()
                with self._store() as store:
                    report += self._filled_for_a_while(store, log)
            except (StoreError, OSError) as error:
                self.tell(f"the store cannot be written, the log waits: {error}")
                again = time.monotonic() + _RETRY_SECONDS
                while time.monotonic() < again and self._should_continue():
                    log.waiting()
        return report

    def _filled_for_a_while(self, store: Store, log: LiveLog) -> IngestReport:
        report = IngestReport()
        begin = time.monotonic()
        since: float | None = None
        while self._should_continue():
            waiting, now = log.waiting(), time.monotonic()
            since = (now if since is None else since) if waiting else None
            if since is not None and (waiting >= self.pace.octets or now - since >= self.pace.seconds):
                report += self._flushed(store, log)
                since = None
            if now - begin >= _ORDER_SECONDS and self._is_untidy(store):
                break
        return report

    def _should_continue(self) -> bool:
        """Wait for a moment; return whether to continue."""
        time.sleep(_POLL_SECONDS)
        return not self.is_ended()

    def _drained(self, log: LiveLog, report: IngestReport) -> tuple[IngestReport, int]:
        """Take the rest of the log at the end."""
        with self._store() as store:
            rest = log.waiting()
            while rest > 0:
                flushed = self._flushed(store, log)
                report += flushed
                rest = rest - flushed.bytes if flushed.files + flushed.known_files else 0
            if self.rejects is not None:
                write_rejects(store.rejects(), self.rejects)
            return report, store.requests

    def _flushed(self, store: Store, log: LiveLog) -> IngestReport:
        """Write one segment, and return its report."""
        spool = Path(tempfile.mkdtemp(prefix="live-", dir=store.temporary))
        try:
            batch = log.take(spool, self.pace.octets)
            if not batch.files:
                return IngestReport()
            report = store.append(batch.files, batch.positions, self.scenario.formats)
            # The log gives the data up only after the store has it.
            batch.commit()
        finally:
            shutil.rmtree(spool, ignore_errors=True)
        self.tell(f"{plural(report.events, 'event')} read; the store holds {plural(store.requests, 'request')}")
        return report

    def _is_untidy(self, store: Store) -> bool:
        return self.retention.forgets(store.segments) or bool(compactable(store.segments))

    def _put_in_order(self) -> None:
        """Remove old data and compact segments. If someone reads the store, try again later."""
        with self._store() as store:
            if not self._is_untidy(store):
                return
            forgets = self.retention.forgets(store.segments)
        try:
            if forgets:
                pruned = prune(store.storage.location, self.retention)
                self.tell(f"{plural(pruned.removed, 'ingest')} forgotten, {plural(pruned.left, 'ingest')} left")
            with ExitStack() as stack:
                compact_store(opened(store.storage.location, stack))
        except StoreError as error:
            self.tell(f"the store is not put in order: {error}")

"""Ingest of audit log files into the rows of a store's segment. DuckDB reads, and Python only directs it.

A batch of files becomes Parquet files in one pass, split by a hash of the object's identity. No line and no body passes
through Python. Rows that do not count (earlier stages, duplicates) are found afterwards from the narrow columns alone,
and listed beside the rows. The rows themselves are written once and never again.

Bodies are kept as JSON text. The order of keys and duplicate keys stay, and white space is removed. Escapes of plain
characters are undone. Integers keep every digit and differ from other numbers (`1.0` stays `1.0`, `1e3` becomes
`1000.0`).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from threading import Lock
from typing import NamedTuple, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from replay.audit import queries
from replay.audit.engine import connect, literal
from replay.audit.format.form import FileForm, Layout
from replay.audit.format.recognise import form_at, form_of, forms_of_rejected_lines, head_of
from replay.audit.format.table import REVIEWS, LogFormat
from replay.audit.format.wrapper import EVENT, structure
from replay.audit.place import LOOKED_UP, lookup_parts
from replay.audit.reject import Reject, RejectReason
from replay.audit.salvage import DamagedError, is_altered, rewritten, salvage, split
from replay.audit.source import LogFile, batches
from replay.errors import StoreError
from replay.identity import IdentityMap
from replay.on_demand import duckdb

# Plausible times of a log. A single event with a wrong time would move the end of the log.
# No clock is used: the log itself shows when it was written.

_SECOND = 1_000_000
_EARLIEST = int(datetime(2017, 1, 1, tzinfo=UTC).timestamp()) * _SECOND
"""Earliest time in microseconds since the epoch. Version 1 of the audit API is of 2017."""
_LATEST = int(datetime(2100, 1, 1, tzinfo=UTC).timestamp()) * _SECOND
_YEAR = 366 * 86_400 * _SECOND
"""Longest duration of a request, and longest silence of a log, in microseconds."""
_FEW = 100
"""A group of events counts if the largest group has at most so many times its events."""


def implausible_days(counts: Mapping[date, int]) -> list[date]:
    """Return the days that are more than a year from all others and have hardly any events.

    `counts` are the events by day. Two archives that are years apart are both kept, if both have more than a few
    events.
    """
    groups: list[list[date]] = []
    for day in sorted(counts):
        if groups and day - groups[-1][-1] <= timedelta(microseconds=_YEAR):
            groups[-1].append(day)
        else:
            groups.append([day])
    sizes = [sum(counts[day] for day in group) for group in groups]
    most = max(sizes, default=0)
    return [day for group, size in zip(groups, sizes, strict=True) if size * _FEW < most for day in group]


Progress = Callable[[str, int, int], None]
"""Callback for progress: the activity, how much is done, and how much there is."""

ROW_BITS = 40
"""The number of a row is `batch << ROW_BITS` plus its place in the batch."""
ROWS_HELD = 1 << 15
MOST_ROWS_HELD = 512
"""Number of rows that wait to be written, in all and for each part.

Waiting rows take up to 10 KB each, and files with small row groups are slow to read.
"""
BATCH_BYTES = 1 << 28
"""JSON that is read at a time, in bytes. Two parallel batches must fit into `INGEST_MEMORY`."""
MOST_BATCHES = 8
"""Approximate number of batches of a large log.

Each batch writes a file for each part, and every query opens all files.
"""
PARQUET = "format parquet, string_dictionary_page_size_limit 4096"
"""Options for writing rows. Bodies rarely repeat, so that dictionaries of them would be built for nothing."""
KEPT = "compression zstd, compression_level 1"
PASSING = "compression lz4_raw"
"""Compression of rows. A kept store is half as large. A temporary one is read with less CPU."""
READING = "Reading the audit log"
LONGEST_LINE = 1 << 24
LONGEST_DOCUMENT = 1 << 27
"""Limits in bytes above which files are read one by one. DuckDB reserves twice as much for each thread."""
_MEMORY_FOR_LINE = 32
"""Maximum memory of a long line, as a multiple of its length, from its text to the column with its body."""
_POLL_SECONDS = 0.2


class SegmentNumbers(Struct, frozen=True):
    """The number of parts of the store, and the next free numbers of batches and files."""

    parts: int
    batch: int = 0
    file: int = 0


class ReadFile(Struct):
    """One file after reading. `first_row` is the number of its first row, `lines` the number of its rows."""

    number: int
    file: LogFile
    form: FileForm = field(default_factory=FileForm)
    first_row: int = 0
    lines: int = 0
    events: int = 0
    lists: int = 0
    malformed: int = 0
    other_places: frozenset[int] = frozenset()
    """Places of lines in another form, for which the file is read again."""
    is_another: bool = False
    """Whether this is another reading of a file, for lines of another form."""

    @property
    def size(self) -> int:
        """Size of the stored file in bytes, or 0 for another reading, so that bytes are counted once."""
        return 0 if self.is_another else self.file.size

    @property
    def kind(self) -> object:
        """Key of the files that can be in one batch. Text files are read one by one."""
        return self.number if self.form.text else self.form


class Batch(NamedTuple):
    """Files with successive numbers that are read together, and the number of the batch."""

    files: list[ReadFile]
    number: int

    @property
    def size(self) -> int:
        """Size of the stored files, in bytes."""
        return sum(file.file.size for file in self.files)


class BatchReader(Protocol):
    """Protocol of a reader with processes on other machines."""

    def read(self, batches: Sequence[Batch], parts: int, target: Path, progress: Progress) -> list[Batch]:
        """Write the rows of batches below `target`, as `LogReader` does, and return the batches that it cannot read."""
        ...


class LogReader(Struct):
    """Reader of files into Parquet files under `target`, with one directory for each batch.

    `batch_reader` reads the batches that it can, if given. `formats` are the formats that the user named. Without them,
    the beginning of a file decides about its form. `is_kept` says whether the rows outlive the run.
    """

    connection: duckdb.DuckDBPyConnection
    target: Path
    numbers: SegmentNumbers
    progress: Progress
    formats: Sequence[LogFormat] = ()
    batch_reader: BatchReader | None = None
    is_kept: bool = True
    files: list[ReadFile] = field(default_factory=list)
    damaged: list[Reject] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)
    _is_single_process: bool = False
    _batches: int = 0
    _running: list[duckdb.DuckDBPyConnection] = field(default_factory=list)

    def read(self, files: Sequence[LogFile], workers: int) -> None:
        """Read all files. Raises `StoreError` if the rows cannot be written."""
        self.files = [
            ReadFile(self.numbers.file + index, file, form_of(head_of(file, self.connection), self.formats))
            for index, file in enumerate(files)
        ]
        files_by_log = IdentityMap((file_read.file, file_read) for file_read in self.files)
        # Processes elsewhere take small batches, so that all of them have some.
        most = BATCH_BYTES if self.batch_reader else sum(file.expected_bytes for file in files) // MOST_BATCHES
        runs = batches(files, max(BATCH_BYTES, most), lambda file: files_by_log[file].kind)
        jobs = [Batch([files_by_log[file] for file in batch], self._next_batch()) for batch in runs]
        if self.batch_reader is not None:
            jobs = self.batch_reader.read(jobs, self.numbers.parts, self.target, self.progress)
        self._is_single_process = (
            len(jobs) == 1 and sum(file.file.expected_bytes for file in jobs[0].files) <= BATCH_BYTES
        )
        self._run(jobs, workers)
        self._count()
        again = [file for file in self.files if file.malformed and not (file.events or file.lists or file.form.text)]
        for file in again:
            self._read_documents(file)
        if again:
            self._count()
        if not self.formats and self._read_other_forms(again):
            self._count()
        if any(file.lists for file in self.files):
            self._read_lists()

    @property
    def next_numbers(self) -> SegmentNumbers:
        """The next free numbers, after the read."""
        numbers = self.numbers
        return SegmentNumbers(numbers.parts, numbers.batch + self._batches, numbers.file + len(self.files))

    def _next_batch(self) -> int:
        with self._lock:
            self._batches += 1
            return self.numbers.batch + self._batches - 1

    def _run(self, jobs: Sequence[Batch], workers: int) -> None:
        """Read batches in parallel and report progress. An interrupt stops the queries first."""
        total = sum(file.file.size for file in self.files)
        cursors = [self.connection.cursor() for _ in jobs]
        self._running.extend(cursors)
        with ThreadPoolExecutor(max(1, min(workers, len(jobs)))) as pool:
            running: dict[Future[None], int] = {
                pool.submit(self._read_batch, cursor, job): job.size for cursor, job in zip(cursors, jobs, strict=True)
            }
            done_count, waiting = 0, set(running)
            try:
                while waiting:
                    finished, waiting = wait(waiting, timeout=_POLL_SECONDS, return_when=FIRST_COMPLETED)
                    done_count += sum(running[future] for future in finished)
                    for future in finished:
                        future.result()
                    self.progress(READING, done_count, total)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                for connection in self._running:
                    with suppress(duckdb.ConnectionException):  # it has ended
                        connection.interrupt()
                raise

    def _read_batch(self, cursor: duckdb.DuckDBPyConnection, batch: Batch) -> None:
        """Read a batch. If one of its files is damaged, read each file on its own."""
        if self.copied(cursor, batch):
            return
        if len(batch.files) > 1:
            for file in batch.files:
                self._read_batch(cursor, Batch([file], self._next_batch()))
        else:
            self._read_by_line(cursor, batch.files[0], batch.number)

    def copied(self, cursor: duckdb.DuckDBPyConnection, batch: Batch) -> bool:
        """Write the rows of a batch whose files can be read directly. Return whether that was possible."""
        try:
            if not batch.files[0].form.text and not any(is_altered(file.file) for file in batch.files):
                self._copy_lines(cursor, batch.files, batch.number)
                return True
        except _unreadable() as error:
            _raise_if_disk_full(error, self.target.parents[1])
        return False

    def _read_by_line(self, cursor: duckdb.DuckDBPyConnection, source: ReadFile, batch: int) -> None:
        """Read a file line by line: a damaged one, one with lines that are too long, or one that is not JSON.

        Only the damaged or long lines are lost.
        """
        target = self.target / f"rewritten-{source.number}"
        documents = source.form.text.documents if source.form.text else None
        try:
            file, longest = rewritten(source.file, target, documents)
        except DamagedError:
            self.damaged.append(Reject(source.file.name, 0, RejectReason.DAMAGED, "", ""))
            source.file = salvage(source.file, self.target / f"salvaged-{source.number}")
            file, longest = rewritten(source.file, target, documents)
        if file.size and longest < LONGEST_LINE and documents:
            self._copy_lines(cursor, [replace(source, file=file)], batch)
        elif file.size:
            try:
                self._copy_long(replace(source, file=file), batch, longest)
            except _unreadable():
                if source.form.layout is Layout.LINES:
                    raise
                self._copy_documents(replace(source, file=file), batch, target.with_suffix(".split"))
        target.unlink()

    def _copy_long(self, source: ReadFile, batch: int, longest: int) -> None:
        """Write the rows of a file whose longest line or document has `longest` bytes."""
        # DuckDB wants room for a longest line in every thread, more than the others have together.
        memory = f"{max(longest * _MEMORY_FOR_LINE >> 20, 1024)}MB"
        with connect(str(self.target), threads=1, memory=memory) as connection:
            self._running.append(connection)
            self._copy_lines(connection, [source], batch, longest)

    def _copy_documents(self, source: ReadFile, batch: int, target: Path) -> None:
        """Write the rows of a file with damaged documents. Only these are lost, and an array counts as one document."""
        file, longest = split(source.file, target)
        self._copy_long(replace(source, file=file, form=replace(source.form, layout=Layout.LINES)), batch, longest)
        target.unlink()

    def _copy_lines(
        self, cursor: duckdb.DuckDBPyConnection, files: list[ReadFile], batch: int, longest: int = 0
    ) -> None:
        """Write the rows of files of one form. `longest` is the length of the longest document in bytes, or 0 if unknown."""
        form = files[0].form
        is_lines = form.layout is Layout.LINES
        parameters: dict[str, object] = {
            "files": [file.file.path for file in files],
            "format": form.layout.value,
            "compression": files[0].file.compression,
            "tolerant": is_lines,
            "longest": max(longest, LONGEST_LINE if is_lines else LONGEST_DOCUMENT),
            "first_file": files[0].number,
        }
        self._copy(cursor, form.source(), batch, parameters)

    def _copy(self, cursor: duckdb.DuckDBPyConnection, source: str, batch: int, parameters: dict[str, object]) -> None:
        """Write the rows of a source, by part. After a failure nothing is left."""
        directory = self.target / f"rows-{batch}"
        # Only one thread numbers the lines; where these are held in memory then, all threads do the rest.
        materialized = "materialized" if self._is_single_process else ""
        query = f"with event as {materialized} ({source}) {queries.text('ingest_request')}"
        parts, lookups = self.numbers.parts, lookup_parts(self.numbers.parts)
        split = {
            "looked_up": list(LOOKED_UP),
            "lookup_parts": lookups,
            "lookups_from": parts - lookups,
            "rest_parts": max(parts - lookups, 1),  # of a single part there is none to spare
        }
        numbers = {"first_row": batch << ROW_BITS, "earliest": _EARLIEST, "latest": _LATEST, "year": _YEAR, **split}
        compression = KEPT if self.is_kept else PASSING
        try:
            # DuckDB compares it with the mean number of rows that wait for a part.
            cursor.execute(f"set partitioned_write_flush_threshold = {min(ROWS_HELD // parts, MOST_ROWS_HELD)}")
            # DuckDB goes on in another file where it had to close one; part -1 has the rejects.
            cursor.execute(f"set partitioned_write_max_open_files = {parts + 1}")
            cursor.execute(
                f"copy ({query}) to {literal(directory)} "
                f"({PARQUET}, {compression}, partition_by (part), write_partition_columns true)",
                {**parameters, **numbers},
            )
        except (duckdb.Error, UnicodeDecodeError):
            shutil.rmtree(directory, ignore_errors=True)
            raise

    def _read_documents(self, source: ReadFile) -> None:
        """Read a file that does not have one event per line: documents over several lines, or an array of events."""
        for layout in (Layout.DOCUMENTS, Layout.ARRAY):
            batch = self._next_batch()
            try:
                form = replace(source.form, layout=layout)
                self._copy_lines(self.connection, [replace(source, form=form)], batch)
            except _unreadable() as error:
                _raise_if_disk_full(error, self.target.parents[1])
                continue
            source.first_row = batch << ROW_BITS
            return

    def _read_other_forms(self, again: Sequence[ReadFile]) -> bool:
        """Read the rejected lines that have another form than their file. Return whether there are any.

        Such a reading has its own number and the name of the file. Files that were read `again` have documents, not
        lines. A review may take several lines, so its file is left alone.
        """
        if not (paths := self.paths(-1)):
            return False
        rows = self.connection.execute(queries.text("ingest_rejected"), {"paths": paths}).fetchall()
        rejected_rows: dict[int, list[int]] = {}
        for number, row, *_ in rows:
            rejected_rows.setdefault(number, []).append(row)
        by_document = {file.number for file in again}
        count_before = len(self.files)
        for file in self.files[:count_before]:
            is_by_line = file.form.layout is Layout.LINES and REVIEWS not in file.form.wrappers
            if file.number not in rejected_rows or file.number in by_document or not is_by_line:
                continue
            rejected = {row - file.first_row for row in rejected_rows[file.number]}
            for form, places in forms_of_rejected_lines(file.file, file.form, rejected):
                file.other_places |= places
                other = ReadFile(self.numbers.file + len(self.files), file.file, form_at(form, places), is_another=True)
                self.files.append(other)
                self._read_by_line(self.connection, other, self._next_batch())
        return len(self.files) > count_before

    def _read_lists(self) -> None:
        """Write the events in EventLists as rows."""
        lists = self.paths(-1)
        items = queries.filled("ingest_lists", structure=structure(EVENT))
        self._copy(self.connection, items, self._next_batch(), {"lists": lists})

    def _count(self) -> None:
        """Count the rows of each file. If a file was read twice, only the second time counts."""
        if not (paths := self.paths()):
            return
        rows = self.connection.execute(queries.text("ingest_files"), {"paths": paths}).fetchall()
        by_number = {file.number: file for file in self.files}
        for number, first_rows, lines, events, lists, malformed in sorted(rows, key=lambda row: row[1]):
            file = by_number[number]
            if first_rows < file.first_row:
                continue
            # Of a file of text, which is alone in its batch, the first lines may be parts of a document.
            file.first_row = first_rows >> ROW_BITS << ROW_BITS if file.form.text else first_rows
            file.lines, file.events, file.lists, file.malformed = (
                lines - len(file.other_places),
                events,
                lists,
                malformed,
            )

    def paths(self, part: int | None = None) -> list[str]:
        """Return the Parquet files of one part, or of all parts with requests or rejects."""
        pattern = f"rows-*/part={'*' if part is None else part}/*.parquet"
        return sorted(str(path) for path in self.target.glob(pattern))


def _raise_if_disk_full(error: Exception, target: Path) -> None:
    text = str(error)
    if "No space left" in text or "Disk quota" in text or "max_temp_directory_size" in text:
        raise StoreError("no space left on the device", path=str(target)) from error


def _unreadable() -> tuple[type[Exception], ...]:
    """Return the errors that damage can raise. The last one comes from DuckDB messages that quote bytes which are not text."""
    return OSError, duckdb.IOException, duckdb.InvalidInputException, UnicodeDecodeError

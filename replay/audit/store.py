"""The ingested log: Parquet files in a directory, for one run or kept for later runs.

A store is a place (`replay.storage`) with `store.json`, which names the segments that count, one folder for each
ingest, and `open.sql` for the DuckDB command line. A segment is written first, and then `store.json` is replaced in one
step. So an interrupted ingest leaves the store unchanged.
"""

from __future__ import annotations

import io
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, Self

import orjson
from msgspec import Struct
from msgspec.structs import replace

from replay.audit import queries
from replay.audit.arrow import frame_from_relation
from replay.audit.catalog import (
    BUSY,
    CATALOG,
    IN_USE,
    READERS,
    SCHEMA,
    SEGMENTS,
    WRITERS,
    Catalog,
    FilePosition,
    SegmentEntry,
    read_catalog,
    require_complete,
)
from replay.audit.directory import (
    neighbours,
    remembered,
    segment_entry,
    segment_octets,
    sweep,
    sweep_segments,
    tables,
    write_store,
)
from replay.audit.engine import FEW_BYTES, FEW_PARTS, INGEST_MEMORY, Engine, ingest_errors
from replay.audit.event import RequestRecord
from replay.audit.format.table import LogFormat
from replay.audit.ingest import BatchReader, LogReader, Progress, SegmentNumbers
from replay.audit.part import (
    KeyedRecords,
    Lookups,
    StorePart,
    Tables,
    deserialized_objects,
    deserialized_records,
    keyed_records,
    object_ref,
    serialized_lookups,
    serialized_records,
    write_lookups,
)
from replay.audit.place import LOOKED_UP, lookup_parts
from replay.audit.reject import Reject, RejectReason
from replay.audit.segment import IngestReport, Segment, finished, refusal_of_nothing, report_of, write_segment
from replay.audit.source import LogFile, log_files
from replay.errors import AuditLogError, StoreError
from replay.kube.gvk import ObjectRef
from replay.on_demand import duckdb, pl
from replay.storage.directory import DirectoryStorage, store_error
from replay.storage.location import cluster_names, opened
from replay.storage.scratch import scratch
from replay.storage.storage import Storage

PART_BYTES = 32 << 20
"""Approximate size of the JSON in a part of a new store, in bytes."""
JOINED_BYTES = 3 << 20
"""Maximum size of the files of parts that are read together, in bytes."""
MOST_FRAME_BYTES = 64 << 20
"""Maximum size in memory of a stored frame, in bytes."""
MOST_LOOKUP_BYTES = 16 << 20
"""Maximum size of kept lookups, and of kept deletions of collections, in bytes."""
MOST_PARTS = 128
FEWEST_KEPT_PARTS = 16
"""Number of parts of a kept store, which will grow and so needs more than its first log does."""


class _Reading(NamedTuple):
    """Settings for reading files.

    These are the receiver of progress, allowed formats, other readers, the positions of a live log, and what is called
    before the store changes.
    """

    progress: Progress
    formats: Sequence[LogFormat]
    batch_reader: BatchReader | None = None
    positions: tuple[FilePosition, ...] | None = None
    before_change: Callable[[], object] | None = None


def _silent(_what: str, _count: int, _total: int) -> None:
    """Show no progress."""


class Store:
    """An open store. Close it, or use `with`. Closing removes the files of this run."""

    def __init__(self, storage: Storage, *, is_kept: bool) -> None:
        """Use `Store.open` or `Store.for_one_run`."""
        self.storage = storage
        self._is_kept = is_kept
        self._stack = ExitStack()
        self._answers: dict[bytes, list[list[Any]]] = {}
        self._empty: frozenset[str] | None = None
        try:
            if is_kept:
                self._stack.enter_context(storage.locked(READERS, IN_USE, shared=True))
                sweep(storage)
            self._spill = self._stack.enter_context(scratch()) if is_kept else storage.local("spill")
            self._engine = Engine(str(self._spill), self._views)
            self._catalog = read_catalog(storage) if is_kept else Catalog()
            if is_kept:
                require_complete(storage, self._catalog)
        except BaseException:
            self._stack.close()
            raise

    @classmethod
    def open(cls, location: Path | str | None = None) -> Store:
        """Open the store in a directory or object storage, or create it.

        Without a location, create one for this run alone.

        Raises `StoreError` for a store of another version, a damaged one, or a place with other files.
        """
        with ExitStack() as stack:
            if location is None:
                store = cls(DirectoryStorage(stack.enter_context(scratch()).resolve()), is_kept=False)
                store._stack.push(stack.pop_all())
                return store
            try:
                storage = opened(location, stack)
                read_catalog(storage)
                storage.make(SEGMENTS)
                store = cls(storage, is_kept=True)
            except OSError as error:
                raise store_error(error, str(location)) from error
            store._stack.push(stack.pop_all())
            return store

    @staticmethod
    def is_at(location: Path | str) -> bool:
        """Return whether there is a store at a location."""
        with ExitStack() as stack:
            return opened(location, stack).has(CATALOG)

    @classmethod
    def for_one_run(cls, directory: Path) -> Store:
        """Return an empty store in a directory that the caller removes."""
        return cls(DirectoryStorage(directory), is_kept=False)

    def __enter__(self) -> Self:
        """Return the store itself."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Close the store."""
        self.close()

    def close(self) -> None:
        """Release locks and connections, and remove a store for one run."""
        self._engine.stop()
        self._stack.close()

    def begin(self) -> None:
        """Start the engine early. Starting takes a moment in which other processes read."""
        frame_from_relation(self._engine.connection().sql("select 1"))

    def take_over(self, catalog: Catalog) -> None:
        """Adopt a catalogue that another process wrote into the directory."""
        self._catalog, self._empty = catalog, None
        self._engine.refresh()

    def rest(self) -> None:
        """Release the memory of queries over a large store while other processes work.

        The next query starts a new engine with the prepared data.
        """
        if self.parts > FEW_PARTS and sum(map(segment_octets, self.segments)) > FEW_BYTES:
            self._engine.stop()

    def prepare(self, text: str) -> None:
        """Run SQL that defines views or sets variables, now and after every new start of the engine."""
        self._engine.prepare(text)

    def _views(self) -> str:
        """Return the SQL of the views. An empty store has no files and so no views."""
        return self.tables.views() if self._catalog.segments else ""

    def ingest(
        self,
        arguments: Sequence[str | Path],
        progress: Progress = _silent,
        formats: Sequence[LogFormat] = (),
        batch_reader: BatchReader | None = None,
        before_change: Callable[[], object] | None = None,
    ) -> IngestReport:
        """Read audit logs: files, directories, globs, `-` for standard input. Files that the store has are skipped.

        `formats` limits the formats of files. Without any, formats are recognised. `batch_reader` reads what it can.
        `before_change` is called when all is read, before the store changes.

        Raises `AuditLogError` if an argument names nothing, or if there is no event at all in the files and the store,
        and `StoreError` if the store cannot be written. The store is then unchanged.
        """
        with ingest_errors(self.storage.location), ExitStack() as stack:
            files = log_files(arguments, self._input_directory(stack), stack)
            digests = {file: file.digest() for file in files} if self._is_kept else {}
            if digests and self._catalog.digests.issuperset(digests.values()):
                return IngestReport(known_files=len(files))  # nothing is written: a read-only store will do
            reading = _Reading(progress, formats, batch_reader, before_change=before_change)
            return self._locked_ingest(stack, files, digests, reading)

    def append(
        self, files: Sequence[LogFile], positions: Sequence[FilePosition] | None, formats: Sequence[LogFormat] = ()
    ) -> IngestReport:
        """Read new data of a growing log. In the same step, `positions` become the stored positions of its files.

        Files whose content the store already has are not read again. On `StoreError` the store is unchanged.
        """
        positions_known = tuple(self._catalog.positions if positions is None else positions)
        with ingest_errors(self.storage.location), ExitStack() as stack:
            digests = {file: file.digest() for file in files}
            return self._locked_ingest(
                stack, list(files), digests, _Reading(_silent, formats, positions=positions_known)
            )

    def _input_directory(self, stack: ExitStack) -> Path:
        """Return a directory for copies of sources that cannot be read twice."""
        self._spill.mkdir(exist_ok=True)
        path = Path(tempfile.mkdtemp(prefix="input-", dir=self._spill))
        stack.callback(shutil.rmtree, path, ignore_errors=True)
        return path

    def _locked_ingest(
        self, stack: ExitStack, files: list[LogFile], digests: dict[LogFile, str], reading: _Reading
    ) -> IngestReport:
        self._answers.clear()
        self._empty = None
        if self._is_kept:
            stack.enter_context(self.storage.locked(WRITERS, BUSY))
            self._catalog = read_catalog(self.storage)
            sweep_segments(self.storage)  # nobody else writes now: what does not count was left by a killed process
        target = self.storage.workspace(SEGMENTS)
        stack.callback(shutil.rmtree, target, ignore_errors=True)
        return self._ingest(target, files, digests, reading)

    def _ingest(
        self, target: Path, logs: list[LogFile], digests: dict[LogFile, str], reading: _Reading
    ) -> IngestReport:
        digests_known = self._catalog.digests
        files = [file for file in logs if digests.get(file) not in digests_known]
        if not files:
            self._keep(reading.positions)
            return IngestReport(known_files=len(logs))
        catalog = self._catalog
        numbers = SegmentNumbers(catalog.parts or self._parts_for(files), catalog.batch, catalog.file)
        self._engine.stop()
        connection = self._engine.connection(INGEST_MEMORY)
        reader = LogReader(
            connection, target, numbers, reading.progress, reading.formats, reading.batch_reader, self._is_kept
        )
        segment = write_segment(reader, files, is_first=not catalog.segments)
        report = report_of(segment, files, len(logs) - len(files))
        if not segment.events and not catalog.segments:
            if reading.positions is None:
                raise AuditLogError(refusal_of_nothing(segment.rejects), path=files[0].name if len(files) == 1 else "")
            self._keep(reading.positions)  # what a live log began with; more will come
            return report
        if reading.before_change is not None:
            reading.before_change()
        # What was digested is what was read, unless the file changed in between: then it is read again another time.
        sure = {number: digests.get(file, "") for number, file in enumerate(files, numbers.file) if file.is_unchanged}
        self._commit(reader, segment, sure, reading.positions)
        return report

    def _keep(self, positions: tuple[FilePosition, ...] | None) -> None:
        """Store the positions of a live log if nothing else is written."""
        if positions is not None and (positions != self._catalog.positions or not self.storage.has(CATALOG)):
            self._catalog = replace(self._catalog, positions=positions)
            write_store(self.storage, self._catalog, durable=self._is_kept)

    def _parts_for(self, files: Iterable[LogFile]) -> int:
        part_count = sum(file.expected_bytes for file in files) // PART_BYTES + 1
        return max(min(part_count, MOST_PARTS), FEWEST_KEPT_PARTS if self._is_kept else 1)

    def _commit(
        self, reader: LogReader, segment: Segment, digests: dict[int, str], positions: tuple[FilePosition, ...] | None
    ) -> None:
        """Publish the new segment: its files first, then the catalogue."""
        numbers = segment.numbers
        name = f"{numbers.batch:06}-{numbers.file:06}"
        data = finished(reader)
        if self._is_kept and not self._catalog.segments and not self.storage.has(CATALOG):
            write_store(self.storage, self._catalog, durable=True)  # a segment without a catalog is a damaged store
        self.storage.adopt(reader.target, f"{SEGMENTS}/{name}", durable=self._is_kept)
        segments = (*self._catalog.segments, segment_entry(name, segment, digests, data))
        log_positions = self._catalog.positions if positions is None else positions
        catalog = Catalog(numbers.parts, numbers.batch, numbers.file, segments, log_positions)
        write_store(self.storage, catalog, durable=self._is_kept)
        self._catalog = catalog
        if sum(file.file.expected_bytes for file in reader.files) > PART_BYTES:
            self._engine.spend()

    @property
    def requests(self) -> int:
        """Number of requests in the store."""
        return self._catalog.requests

    @property
    def catalog(self) -> Catalog:
        """The catalogue of the store."""
        return self._catalog

    @property
    def segments(self) -> tuple[SegmentEntry, ...]:
        """The ingests, in order."""
        return self._catalog.segments

    @property
    def positions(self) -> tuple[FilePosition, ...]:
        """Positions in the files of live logs. The one that changed last is at the end."""
        return self._catalog.positions

    @property
    def parts(self) -> int:
        """Number of parts. Each has the whole history of its objects."""
        return self._catalog.parts

    @property
    def temporary(self) -> str:
        """Directory into which queries may spill."""
        return str(self._spill)

    @property
    def tables(self) -> Tables:
        """The files of all parts."""
        return tables(self.storage, self._catalog)

    def part(self, number: int) -> StorePart:
        """Return one part, as a value that can be sent to another process."""
        return StorePart(number, tables(self.storage, self._catalog, (number,)), self.temporary)

    def joined_parts(self, fewest: int) -> list[StorePart]:
        """Return all parts in order, small neighbours as one, but no fewer than `fewest`.

        To select rows takes as long in a small part as in a large one.
        """
        joined = neighbours(self._catalog, self.parts, fewest, JOINED_BYTES)
        return [StorePart(each[0], tables(self.storage, self._catalog, each), self.temporary) for each in joined]

    def whole(self, numbers: Collection[int] | None = None) -> StorePart:
        """Return some parts, or all, as one, for queries with few rows."""
        return StorePart(0, tables(self.storage, self._catalog, numbers), self.temporary)

    def lookups(self, resources: Iterable[str]) -> Lookups:
        """Return all successful writes to some resources, each `resource.group`, or `resource` in the core group.

        Their file exists as long as the store is open. A kept store keeps them, unless they are large.
        """
        names = sorted(set(resources))
        self._spill.mkdir(exist_ok=True)
        descriptor, path = tempfile.mkstemp(prefix="lookups-", dir=self._spill)
        os.close(descriptor)
        read: list[Lookups] = []

        def content() -> bytes:
            read.append(write_lookups(self._looked_up(names), Path(path)))
            return serialized_lookups(read[0], MOST_LOOKUP_BYTES)

        if not self._is_kept:
            return write_lookups(self._looked_up(names), Path(path))
        question = f"{queries.text('writes')} {names}".encode()
        remembered_content = self.remembered("lookups", content, question)
        if read:
            return read[0]
        objects = deserialized_objects(remembered_content) if remembered_content else self._looked_up(names)
        return write_lookups(objects, Path(path))

    def _looked_up(self, names: Sequence[str]) -> Iterator[tuple[ObjectRef, list[RequestRecord]]]:
        """Yield the written objects of some resources, each with its records in order."""
        first = self.parts - lookup_parts(self.parts) if set(names) <= set(LOOKED_UP) else 0
        some = self._part_by_part(range(first, self.parts), "writes", "object_name", resources=list(names))
        rows = (row for rows in some for row in zip(*rows, strict=True))
        for key, of_object in groupby(rows, key=lambda row: object_ref(row[1], row[0])):
            yield key, [record for _, record in of_object]

    def collections(
        self,
        group: str | None = None,
        *,
        refused: bool = False,
        written: bool = False,
        let_in: Collection[int] = (),
    ) -> list[RequestRecord]:
        """Return all successful `deletecollection` requests in order, or those of an API group.

        `refused` adds those that policies denied, and `let_in` those that the authorizers refused, by their numbers.
        `written` omits those for which the log shows no write.
        """
        numbers = sorted(let_in)
        parameters = {"group": group, "refused": refused, "written": written, "let_in": numbers}
        read: list[list[RequestRecord]] = []

        def asked() -> list[RequestRecord]:
            if self.is_empty("collections"):
                return []
            rows = keyed_records(self.query("collections", **parameters), "identity")
            return [record for some in rows for record in some.records]

        def content() -> bytes:
            read.append(asked())
            return serialized_records(read[0], MOST_LOOKUP_BYTES)

        if not self._is_kept:
            return asked()
        # Records and not a frame, because a rerun forks its workers before it first uses Polars.
        question = f"{queries.text('collections')} {sorted(parameters.items())}".encode()
        remembered_content = self.remembered("collections", content, question)
        if read:
            return read[0]
        return deserialized_records(remembered_content) if remembered_content else asked()

    def _part_by_part(self, parts: Iterable[int], name: str, key: str, **parameters: Any) -> Iterator[KeyedRecords]:
        """Yield the rows of a query over one part after the other, because all together may not fit into memory."""
        if self.parts == 1:
            yield from keyed_records(self.query(name, **parameters), key)
            return
        of_parts = [files for files in (self.part(part).tables for part in parts) if files.rows]
        if not of_parts:
            return
        # A connection of its own: whoever takes the rows may ask the store something else in between.
        with self._engine.connection().cursor() as connection:
            connection.execute(self.tables.views())
            for files in of_parts:
                # A condition on the part would open the files of all parts for each of them.
                connection.execute(files.variables())
                rows = frame_from_relation(connection.sql(queries.text(name), params=parameters))
                yield from keyed_records(rows, key)

    def query(self, name: str, **parameters: Any) -> pl.DataFrame:
        """Return the rows of a query of `queries/`. Raises `StoreError` if it does not exist or fails."""
        return self.sql(queries.text(name), **parameters)

    def sql(self, text: str, *values: str, **parameters: Any) -> pl.DataFrame:
        """Return the rows of an SQL query over the views of the store. Raises `StoreError` if it fails.

        `values` are those of its `?`, if any.
        """
        try:
            relation = self._engine.connection().sql(text, params=list(values) or parameters)
            return frame_from_relation(relation) if relation is not None else pl.DataFrame()
        except duckdb.Error as error:
            raise StoreError(" ".join(str(error).split())) from error

    def rows(self, text: str, *values: str, **parameters: Any) -> list[tuple[Any, ...]]:
        """Return what `sql` does as tuples. For few rows this takes half as long, because DuckDB plans a query once."""
        try:
            return self._engine.connection().execute(text, list(values) or parameters).fetchall()
        except duckdb.Error as error:
            raise StoreError(" ".join(str(error).split())) from error

    def is_empty(self, name: str) -> bool:
        """Return whether a query has no row, because no request meets the condition that the query's header states.

        One read of the log finds out about all such queries. Most of them have no row in most logs.
        """
        conditions = queries.needs()
        if name not in conditions:
            return False
        if self._empty is None:
            columns = ", ".join(f"bool_or({condition})" for condition in conditions.values())
            ((*are_met,),) = self.rows(f"select {columns} from request")  # noqa: S608 - of our own queries
            self._empty = frozenset(query for query, is_met in zip(conditions, are_met, strict=True) if not is_met)
        return name in self._empty

    def remembered(self, name: str, make: Callable[[], bytes], question: bytes = b"") -> bytes:
        """Return the stored result of `make` for this store, or call `make` and store the result.

        The result may depend only on the ingested log, this installation's code, and `question`. A result for another
        log (by names and contents of all files), code or question is never used. `name` is a file name. The last few
        results per name are kept. Files are replaced in one step and checked on reading. A damaged one counts as
        absent. A read-only or temporary store keeps nothing. Errors of `make` propagate. Do not unpickle a result:
        anyone who can write the store can write it.
        """
        if not self._is_kept or not self._catalog.segments:
            return make()
        return remembered(self.storage, self._catalog, name, make, question)

    def answer(self, name: str, **parameters: int | list[int]) -> list[list[Any]]:
        """Return the rows of a query about the whole log. They are kept until the next ingest, in a kept store also on disk."""
        question = f"{queries.text(name)} {sorted(parameters.items())}".encode()
        if question not in self._answers:
            content = self.remembered(name, lambda: orjson.dumps(self._asked(name, parameters)), question)
            self._answers[question] = orjson.loads(content)
        return self._answers[question]

    def _asked(self, name: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
        return [] if self.is_empty(name) else self.rows(queries.text(name), **parameters)

    def frame(self, name: str, **parameters: Any) -> pl.DataFrame:
        """Return the frame of a query that takes long, without columns if `is_empty`. A kept store keeps it, unless it is too large."""
        frames: list[pl.DataFrame] = []

        def asked() -> pl.DataFrame:
            return pl.DataFrame() if self.is_empty(name) else self.query(name, **parameters)

        def content() -> bytes:
            frames.append(asked())
            if frames[0].estimated_size() > MOST_FRAME_BYTES:
                return b""
            frames[0].write_ipc(file := io.BytesIO(), compression="zstd")
            return file.getvalue()

        if not self._is_kept:
            return asked()
        question = f"{queries.text(name)} {sorted(parameters.items())}".encode()
        remembered_content = self.remembered(name, content, question)
        if frames:
            return frames[0]
        return pl.read_ipc(remembered_content) if remembered_content else asked()

    def rejects(self) -> Iterator[Reject]:
        """Yield every line of every ingest that is not used."""
        for row in self.sql("select file, line, reason, audit_id, text from reject").iter_rows():
            yield Reject(row[0], row[1], RejectReason(row[2]), row[3], row[4])


class StoreInfo(Struct, frozen=True):
    """Facts about a store. Times are microseconds since the epoch (0 in an empty store). `octets` is its size on disk."""

    directory: str
    schema: int
    requests: int
    parts: int
    first: int
    last: int
    octets: int
    rejects: Counter[str]
    segments: tuple[SegmentEntry, ...]


def store_info(location: Path | str) -> StoreInfo:
    """Return facts about a store. Raises StoreError if there is none, or if its schema is unknown."""
    require_store(location)
    with Store.open(location) as store:
        first, last = 0, 0
        rejects: Counter[str] = Counter()
        if store.segments:
            first, last = store.sql("select epoch_us(min(received)), epoch_us(max(stage_time)) from request").row(0)
            rejects.update(dict(store.sql("select reason, count(*) from reject group by reason").iter_rows()))
        octets = sum(entry.size for entry in store.storage.entries())
        name = str(location)
        return StoreInfo(
            directory=name,
            schema=SCHEMA,
            requests=store.requests,
            parts=store.parts,
            first=first or 0,
            last=last or 0,
            octets=octets,
            rejects=rejects,
            segments=store.segments,
        )


def require_store(location: Path | str) -> None:
    """Raise StoreError if there is no store yet. Only an ingest creates one."""
    if not Store.is_at(location):
        if names := cluster_names(str(location)):
            raise StoreError(
                f"it has the clusters {', '.join(names)}: name one, as {location}/cluster={names[0]}",
                path=str(location),
            )
        raise StoreError("there is no store: `replay ingest LOG --store DIR` makes one", path=str(location))

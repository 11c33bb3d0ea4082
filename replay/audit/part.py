"""Reading of records, in any process: of a part of a store, or of the objects that decisions look up, from a file.

The writes to looked-up objects of a large log do not fit into every process's memory.
"""

from __future__ import annotations

import atexit
import os
import pickle
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from sys import intern
from typing import Any, NamedTuple, Protocol

import msgspec
import orjson
from msgspec import Struct
from msgspec.structs import replace

from replay.audit import queries
from replay.audit.arrow import frame_from_relation
from replay.audit.engine import connect, literal, running
from replay.audit.event import RequestRecord
from replay.kube.attributes import UserInfo
from replay.kube.gvk import ObjectRef
from replay.on_demand import duckdb, pl

_SLICE = 2048
_ELSEWHERE = ("file", "line", "selected")
_STORED = ["identity", "row_id", "list_row", "file_id", *(n for n in RequestRecord._fields if n not in _ELSEWHERE)]
_WRITES = ["create", "update", "patch", "delete"]
_CONNECTIONS = ["attach", "exec", "portforward", "proxy"]
"""Subresources of connections. INVARIANT: as in `collections.sql`, which leaves out what none of these could be about."""
_NOT_TOLD = ("uid", "groups", "extra")
"""User fields that logs of other APIs lack. An audit event omits empty fields and has no null."""
_BODIES = ("request_object", "response_object")
_record = partial(tuple.__new__, RequestRecord)
"""Function that makes a record of its fields in order. It runs no Python code, because there are many records."""
_USER = RequestRecord._fields.index("user")
_FEW_VALUES = [
    RequestRecord._fields.index(name)
    for name in (
        *("level", "stage", "verb", "user_agent", "caller", "api_group", "api_version", "resource", "subresource"),
        *("namespace", "status", "status_reason", "file", "response_kind", "workspace"),
    )
]


class RowPredicate(Protocol):
    """An SQL expression over the columns of `request`, with the values of its `?` in order."""

    @property
    def sql(self) -> str:
        """The SQL expression."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """The values of its `?`."""


class Tables(Struct, frozen=True):
    """The Parquet files of the views `request`, `reject` and `file`. It can be pickled, so that any process can open them."""

    rows: tuple[str, ...]
    dropped: tuple[str, ...]
    files: tuple[str, ...]
    rejects: tuple[str, ...]

    def views(self) -> str:
        """Return the SQL that defines the views."""
        return "\n".join([self.variables(), queries.text("ingest_views")])

    def variables(self, below: str = "") -> str:
        """Return the SQL that sets the paths of the Parquet files.

        `below` is an expression for the directory of relative paths.
        """
        lists = {"rows": self.rows, "dropped": self.dropped, "files": self.files, "rejects": self.rejects}
        variables = []
        for name, paths in lists.items():
            files = f"[{', '.join(map(literal, paths))}]"
            placed = f"list_transform({files}, lambda file: {below} || '/' || file)" if below else files
            variables.append(f"set variable store_{name} = {placed};")
        return "\n".join(variables)


class Share(NamedTuple):
    """One of `total` equal shares of a part's objects, by bits of their hash that do not choose the part."""

    number: int = 0
    total: int = 1

    @property
    def sql(self) -> str:
        """SQL expression over `request` that selects the share."""
        return f"(identity >> 32) % {self.total} = {self.number}" if self.total > 1 else "true"


class StorePart(Struct, frozen=True):
    """The requests of some objects, with everything in the store about these objects. A query may read a share of them."""

    number: int
    tables: Tables
    temporary: str
    share: Share = Share()

    def shares(self, total: int) -> list[StorePart]:
        """Return the shares of the part, for workers that would otherwise be idle."""
        return [replace(self, share=Share(number, total)) for number in range(total)]

    def records(self, predicate: RowPredicate | None = None) -> Iterator[RequestRecord]:
        """Yield the records of every object with a selected record: by object, then in order.

        These are the selected records, and the earlier writes that can show the object's state, with `selected=False`.
        Reads and refused requests are never among the latter.
        """
        for some in self._rows(predicate):
            yield from some.records

    def objects(self, predicate: RowPredicate | None = None) -> Iterator[list[RequestRecord]]:
        """Yield the records of `records` as one list for each object.

        A `deletecollection` and a request without a name are alone in their lists.
        """
        return (records for _, records in _records_by_object(self._rows(predicate)))

    def selection(
        self, predicate: RowPredicate, within: RowPredicate | None = None, *, only_failed: bool
    ) -> PartSelection:
        """Return what the two predicates select.

        `only_failed` limits the other requests, which only `within` selects, to failed ones.
        """
        others = "not (code between 200 and 299)" if only_failed else "true"
        return PartSelection(self, self._selected_rows(predicate, within, others) if self.tables.rows else _no_rows())

    def writes(self, identities: Sequence[int]) -> Iterator[tuple[int, list[RequestRecord]]]:
        """Yield all writes and connections of some objects, in the order of `objects`, with each object's hash (`ObjectPlace`).

        If all objects are wanted, the part is read once.
        """
        if not self.tables.rows:
            return
        are_theirs = pl.col("identity").is_in(pl.Series(identities, dtype=pl.UInt64).implode())
        are_writes = pl.col("verb").is_in(_WRITES) | pl.col("subresource").is_in(_CONNECTIONS)
        frame = self._frame(are_theirs & are_writes & pl.col("reject").is_null(), [pl.col(name) for name in _STORED])
        dropped = _dropped(_stamped(self.tables.dropped))
        counted = frame if dropped.is_empty() else frame.join(dropped, on="row_id", how="anti")
        written = counted.with_columns(pl.lit(value=True).alias("selected"))
        since = pl.col("seq").min().over("identity")
        yield from _records_by_object(keyed_records(written.sort(since, "identity", "seq", "audit_id")))

    def bare_records(self, rows: pl.DataFrame) -> Iterator[RequestRecord]:
        """Yield the records of rows (`row_id`, `selected`), in their order, without bodies.

        Names are those of their objects.
        """
        if rows.is_empty():
            return
        bodies = [pl.lit(None, pl.String).alias(name) for name in _BODIES]
        columns = [pl.col(name) for name in _STORED if name not in (*_BODIES, "name")]
        frame = self._frame(_among(rows), [*columns, pl.col("object_name").alias("name"), *bodies])
        for some in keyed_records(rows.join(frame, on="row_id", how="left", maintain_order="left")):
            yield from some.records

    def _rows(self, predicate: RowPredicate | None) -> Iterator[KeyedRecords]:
        if self.tables.rows:
            yield from self.keyed_records(self._selected_rows(predicate))

    def keyed_records(self, rows: pl.DataFrame) -> Iterator[KeyedRecords]:
        """Yield the records of rows (`row_id`, `selected`), in their order, with the hashes of their objects."""
        if not rows.is_empty():
            frame = self._frame(_among(rows), [pl.col(name) for name in _STORED])
            yield from keyed_records(rows.join(frame, on="row_id", how="left", maintain_order="left"))

    def _selected_rows(
        self, predicate: RowPredicate | None, within: RowPredicate | None = None, others: str = "false"
    ) -> pl.DataFrame:
        """Return the numbers of the rows to read, in order.

        For each row, two flags say whether it is selected, and whether it is one of the others.
        """
        query = queries.text("object_history").replace("$share", self.share.sql).replace("$others", others)
        parameters: list[str] = []
        for name, each in (("$predicate", predicate), ("$within", within)):
            query = query.replace(name, each.sql if each else "true")
            parameters += each.parameters if each else ()
        with (running(self.temporary) or engine(self.temporary)).cursor() as connection:
            connection.execute(self.tables.variables())
            return frame_from_relation(connection.sql(query, params=parameters))

    def _frame(self, condition: pl.Expr, columns: Sequence[pl.Expr]) -> pl.DataFrame:
        """Return some columns of the rows that meet a condition, in any order, with the names of their files."""
        stored = pl.scan_parquet(list(self.tables.rows), hive_partitioning=False, glob=False)
        rows = stored.filter(condition).select(columns).collect()
        line = pl.coalesce("list_row", "row_id") - pl.col("first_row") + 1
        times = [pl.col(name).dt.epoch("us") for name in ("received", "stage_time")]
        texts = [pl.col(pl.Binary).cast(pl.String)]  # JSON columns are bytes to Parquet
        named = rows.join(_files(_stamped(self.tables.files)), on="file_id", how="left")
        return named.with_columns(line.alias("line"), *times, *texts)


class KeyedRecords(NamedTuple):
    """Some records, each with a key: the hash of its object, or another one."""

    keys: list[Any]
    records: list[RequestRecord]


class PartSelection(NamedTuple):
    """Selected rows of a part: `rows` are row numbers (`row_id`, `selected`, `is_other`) in order."""

    part: StorePart
    rows: pl.DataFrame

    def objects(self) -> Iterator[list[RequestRecord]]:
        """Yield the selected requests with the histories of their objects, as `StorePart.objects` reads them."""
        rows = self.rows.filter(~pl.col("is_other"))
        return map(itemgetter(1), _records_by_object(self.part.keyed_records(rows)))

    def others(self) -> Iterator[RequestRecord]:
        """Yield the other requests, as `StorePart.bare_records` reads them."""
        return self.part.bare_records(self.rows.filter("is_other"))


def _no_rows() -> pl.DataFrame:
    return pl.DataFrame(schema={"row_id": pl.Int64, "selected": pl.Boolean, "is_other": pl.Boolean})


_Stamped = tuple[tuple[str, int], ...]
"""Files with their times of modification in nanoseconds, because a store may be replaced by another one."""


def _stamped(paths: Iterable[str]) -> _Stamped:
    return tuple((path, Path(path).stat().st_mtime_ns) for path in paths)


@lru_cache(maxsize=1)
def _files(stamped: _Stamped) -> pl.DataFrame:
    """Return the files of a store whose parts are read in sequence."""
    columns = ["file_id", "name", "first_row"]
    files = [pl.read_parquet(path, columns=columns, hive_partitioning=False, glob=False) for path, _ in stamped]
    return pl.concat(files).rename({"name": "file"})


@lru_cache(maxsize=1)
def _dropped(stamped: _Stamped) -> pl.DataFrame:
    """Return the numbers of the rows that no longer count (`row_id`)."""
    paths = [path for path, _ in stamped]
    return pl.read_parquet(paths, columns=["row_id"], hive_partitioning=False, glob=False)


def _among(chosen: pl.DataFrame) -> pl.Expr:
    return pl.col("row_id").is_in(chosen["row_id"].implode())


def _records_by_object(rows: Iterable[KeyedRecords]) -> Iterator[tuple[int, list[RequestRecord]]]:
    """Yield the records of each object, which are adjacent: the object's hash and a list."""
    identity: int | None = None
    of_object: list[RequestRecord] = []
    for identities, records in rows:
        start = 0
        for next_identity, group in groupby(identities):
            end = start + len(list(group))
            if next_identity == identity:
                of_object += records[start:end]
            else:
                if identity is not None:
                    yield identity, of_object
                identity, of_object = next_identity, records[start:end]
            start = end
    if identity is not None:
        yield identity, of_object


def keyed_records(frame: pl.DataFrame, key: str = "identity") -> Iterator[KeyedRecords]:
    """Yield the rows of a frame with a key and the fields of `RequestRecord`, a few thousand at a time."""
    for part in frame.select(key, *RequestRecord._fields).iter_slices(_SLICE):
        keys, *columns = [column.to_list() for column in part.get_columns()]
        columns[_USER] = [user_info_from_json(text) for text in columns[_USER]]
        for index in _FEW_VALUES:  # equal texts are one object, here and wherever they are sent together
            columns[index] = list(map(intern, columns[index]))
        yield KeyedRecords(keys, list(map(_record, zip(*columns, strict=True))))


@lru_cache(maxsize=1)
def engine(temporary: str) -> duckdb.DuckDBPyConnection:
    """Return the DuckDB of a process without the store's. It has no data. Its start takes as long as selecting the rows of a part."""
    return connect(temporary, threads=1)


# DuckDB prints a list of leaks if a connection outlives its module. Decoders may keep this module, and with it the cache.
atexit.register(engine.cache_clear)


@lru_cache(maxsize=4096)
def user_info_from_json(text: str | None) -> UserInfo:
    """Return the user of an event. Fields of a wrong type are omitted, and a null field is unknown."""
    try:
        value = orjson.loads(text) if text else None
    except orjson.JSONDecodeError:  # DuckDB reads deeper JSON than orjson
        value = None
    if not isinstance(value, dict):
        return UserInfo()
    extra = value.get("extra")
    return UserInfo(
        _string(value.get("username")),
        _string(value.get("uid")),
        _strings(value.get("groups")),
        {key: _strings(values) for key, values in extra.items()} if isinstance(extra, Mapping) else {},
        tuple(name for name in _NOT_TOLD if name in value and value[name] is None),
    )


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""


def _strings(value: object) -> tuple[str, ...]:
    return (
        tuple(item for item in value if isinstance(item, str))
        if isinstance(value, Sequence) and not isinstance(value, str)
        else ()
    )


class Lookups(Mapping[ObjectRef, list[RequestRecord]]):
    """Mapping from an object to its records in order. Each access reads them from a file.

    The file stays open, so it may be unlinked. A process that receives the value opens the file again, so the file must
    exist then. Only file positions are in memory.
    """

    def __init__(self, path: Path, places: dict[ObjectRef, tuple[int, int]]) -> None:
        """Use `write_lookups`. `places` are offsets and lengths."""
        self._path = path
        self._places = places
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        weakref.finalize(self, os.close, self._file)

    def __reduce__(self) -> tuple[type[Lookups], tuple[Path, dict[ObjectRef, tuple[int, int]]]]:
        """Return the path and the places, for pickling."""
        return Lookups, (self._path, self._places)

    def __getitem__(self, key: ObjectRef) -> list[RequestRecord]:
        """Return the records of an object. Raises KeyError."""
        offset, length = self._places[key]
        # The file was written by this run, in a directory that only this user may read.
        records: list[RequestRecord] = pickle.loads(os.pread(self._file, length, offset))  # noqa: S301
        return records

    @property
    def size(self) -> int:
        """Return the size of the file in bytes."""
        return sum(length for _, length in self._places.values())

    def __iter__(self) -> Iterator[ObjectRef]:
        """Iterate over the objects, in no particular order."""
        return iter(self._places)

    def __len__(self) -> int:
        """Return the number of objects."""
        return len(self._places)


def object_ref(record: RequestRecord, name: str) -> ObjectRef:
    """Return the object that a record concerns. A namespace's URL names it as its own namespace."""
    namespace = "" if record.resource == "namespaces" and not record.api_group else record.namespace
    return ObjectRef(record.api_group, record.resource, namespace, name, record.workspace)


def write_lookups(objects: Iterable[tuple[ObjectRef, list[RequestRecord]]], path: Path) -> Lookups:
    """Write objects with their records in order to a file."""
    places: dict[ObjectRef, tuple[int, int]] = {}
    with path.open("wb") as file:
        for key, records in objects:
            content = pickle.dumps(records, pickle.HIGHEST_PROTOCOL)
            places[key] = file.tell(), len(content)
            file.write(content)
    return Lookups(path, places)


_Objects = list[tuple[ObjectRef, list[RequestRecord]]]
_OBJECTS = msgspec.msgpack.Decoder(_Objects)


def serialized_lookups(lookups: Lookups, most: int) -> bytes:
    """Return lookups as bytes that need no pickle. They are empty if their file has more than `most` bytes."""
    return b"" if lookups.size > most else msgspec.msgpack.encode(list(lookups.items()))


def deserialized_objects(content: bytes) -> _Objects:
    """Return the objects of `serialized_lookups`."""
    return _OBJECTS.decode(content)


_RECORDS = msgspec.msgpack.Decoder(list[RequestRecord])


def serialized_records(records: Sequence[RequestRecord], most: int) -> bytes:
    """Return records as bytes that need no pickle. They are empty if they are more than `most` bytes."""
    content = msgspec.msgpack.encode(records)
    return content if len(content) <= most else b""


def deserialized_records(content: bytes) -> list[RequestRecord]:
    """Return the records of `serialized_records`."""
    return _RECORDS.decode(content)

"""The writes to what decisions look up, by object: in a file, because those of a large log have no room in every process."""

from __future__ import annotations

import os
import pickle
import weakref
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path

from replay.audit.event import RequestRecord
from replay.kube.object_ref import ObjectRef


class Lookups(Mapping[ObjectRef, list[RequestRecord]]):
    """Mapping from an object to its records in order. Each access reads them from a file.

    The file stays open, so it may be unlinked. A process that receives the value opens the file again, so the file must
    exist then. Only file positions are in memory.
    """

    def __init__(self, path: Path, places: dict[ObjectRef, tuple[int, int]]) -> None:
        """Use `write_lookups`; `places` are offset and length."""
        self._path = path
        self._places = places
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        weakref.finalize(self, os.close, self._file)

    def __reduce__(self) -> tuple[type[Lookups], tuple[Path, dict[ObjectRef, tuple[int, int]]]]:
        """The path and the places."""
        return Lookups, (self._path, self._places)

    def __getitem__(self, key: ObjectRef) -> list[RequestRecord]:
        """The records of an object; raises KeyError."""
        offset, length = self._places[key]
        # The file was written by this run, in a directory that only this user may read.
        records: list[RequestRecord] = pickle.loads(os.pread(self._file, length, offset))  # noqa: S301
        return records

    def __iter__(self) -> Iterator[ObjectRef]:
        """The objects, in no particular order."""
        return iter(self._places)

    def __len__(self) -> int:
        """How many objects there are."""
        return len(self._places)


def object_ref(record: RequestRecord, name: str) -> ObjectRef:
    """Return the object that a record concerns. A namespace's URL names it as its own namespace."""
    namespace = "" if record.resource == "namespaces" and not record.api_group else record.namespace
    return ObjectRef(record.api_group, record.resource, namespace, name, record.workspace)


def write_lookups(records: Iterable[tuple[str, RequestRecord]], path: Path) -> Lookups:
    """Write records, each with the name of its object and those of one object together, to a file."""
    places: dict[ObjectRef, tuple[int, int]] = {}
    with path.open("wb") as file:
        for key, group in groupby(records, key=lambda named: object_ref(named[1], named[0])):
            content = pickle.dumps([record for _, record in group], pickle.HIGHEST_PROTOCOL)
            places[key] = file.tell(), len(content)
            file.write(content)
    return Lookups(path, places)

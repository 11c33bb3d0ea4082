"""The writes to objects that decisions look up, in a file. Those of a large log do not fit into every process's memory."""

from __future__ import annotations

import os
import pickle
import weakref
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from replay.audit.event import RequestRecord
from replay.kube.object_ref import ObjectRef


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

"""Removal of data that a store no longer needs: old segments, and leftovers of killed processes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import accumulate

from msgspec.structs import replace

from replay.audit.catalog import BUSY, IN_USE, READERS, SEGMENTS, WRITERS, SegmentEntry, read_catalog
from replay.audit.directory.layout import write_store
from replay.audit.directory.remembered import REMEMBERED
from replay.errors import StoreError
from replay.storage.storage import Storage


def kept_segments(
    segments: Sequence[SegmentEntry], instant: int, octets: int | None = None
) -> tuple[SegmentEntry, ...]:
    """Return the segments whose last request was not before an instant (microseconds).

    If `octets` is given, only the newest of them that fit into so many bytes.
    """
    recent = sorted((segment for segment in segments if segment.last >= instant), key=lambda segment: -segment.last)
    sizes = accumulate(segment_octets(segment) for segment in recent)
    names = {segment.name for segment, size in zip(recent, sizes, strict=True) if octets is None or size <= octets}
    return tuple(segment for segment in segments if segment.name in names)


def segment_octets(segment: SegmentEntry) -> int:
    """Return the size of an ingest on the disk, in bytes."""
    return sum(file.size for file in segment.data)


def prune_store(storage: Storage, instant: int, octets: int | None = None) -> int:
    """Remove the ingests of a store that are not among the `kept_segments`, and return their number.

    Leftovers of an interrupted ingest are removed too. Raises `StoreError` if another process uses the store.
    """
    with storage.locked(WRITERS, BUSY), storage.locked(READERS, IN_USE, patience=0):
        catalog = read_catalog(storage)
        recent = kept_segments(catalog.segments, instant, octets)
        write_store(storage, replace(catalog, segments=recent), durable=True)
        storage.remove(REMEMBERED)
        sweep_segments(storage)
    return len(catalog.segments) - len(recent)


def sweep(storage: Storage) -> None:
    """Remove leftovers of killed processes, unless another process writes to the store or the store is read-only."""
    with suppress(StoreError, OSError), storage.locked(WRITERS, BUSY, patience=0):
        sweep_segments(storage)
    storage.sweep()


def sweep_segments(storage: Storage) -> None:
    """Remove the segments that are not in the catalogue. No other process may write, because its segment is not in it yet."""
    names = {segment.name for segment in read_catalog(storage).segments}
    for name in storage.folders(f"{SEGMENTS}/"):
        if name not in names:
            storage.remove(f"{SEGMENTS}/{name}")

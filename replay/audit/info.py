"""Facts about a store that need no bodies."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from msgspec import Struct

from replay.audit.catalog import SCHEMA, SegmentEntry
from replay.audit.store import Store
from replay.errors import StoreError
from replay.storage.location import cluster_names


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

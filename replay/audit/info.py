"""What a store holds, told without reading a body."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from replay.audit.catalog import CATALOG, SCHEMA, SegmentEntry
from replay.audit.store import Store
from replay.errors import StoreError


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """What a store holds; times are microseconds since the epoch (0 in an empty store), `octets` what it takes on the disk."""

    directory: str
    schema: int
    requests: int
    parts: int
    first: int
    last: int
    octets: int
    rejects: Counter[str]
    segments: tuple[SegmentEntry, ...]


def store_info(directory: Path) -> StoreInfo:
    """What a store holds. Raises StoreError where there is none, or one that this version does not read."""
    require_store(directory)
    with Store.open(directory) as store:
        first, last = 0, 0
        rejects: Counter[str] = Counter()
        if store.segments:
            first, last = store.sql("select epoch_us(min(received)), epoch_us(max(stage_time)) from request").row(0)
            rejects.update(dict(store.sql("select reason, count(*) from reject group by reason").iter_rows()))
        octets = sum(path.stat().st_size for path in store.directory.rglob("*") if path.is_file())
        name = str(directory)
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


def require_store(directory: Path) -> None:
    """Raise StoreError where there is no store yet: only an ingest makes one."""
    if not (directory / CATALOG).is_file():
        raise StoreError("there is no store: `replay ingest LOG --store DIR` makes one", path=str(directory))

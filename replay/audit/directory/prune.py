"""What a store has no use for: segments that are forgotten, and what killed processes left."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from replay.audit.catalog import BUSY, IN_USE, PARTIAL, locked, read_catalog
from replay.audit.directory.integrity import SEGMENTS
from replay.audit.directory.layout import write_store
from replay.audit.directory.remembered import REMEMBERED
from replay.errors import StoreError

_WRITTEN = ("", f"{REMEMBERED}/", "results/*/")
"""Where files are replaced in one step, and may be left half written."""


def prune_store(directory: Path, before: int) -> int:
    """Forget the ingests of a store whose last request was before an instant (microseconds); returns how many.

    What an interrupted ingest left is removed too. Raises `StoreError` if another process uses the store.
    """
    directory = directory.resolve()
    with locked(directory / "lock", BUSY), locked(directory / "readers", IN_USE, patience=0):
        catalog = read_catalog(directory)
        kept = tuple(segment for segment in catalog.segments if segment.last >= before)
        write_store(directory, replace(catalog, segments=kept), kept=True)
        shutil.rmtree(directory / REMEMBERED, ignore_errors=True)
        sweep_segments(directory)
    return len(catalog.segments) - len(kept)


def sweep(directory: Path) -> None:
    """Remove what killed processes left in a store, unless somebody writes to it now, or nobody can."""
    with suppress(StoreError, OSError), locked(directory / "lock", BUSY, patience=0):
        sweep_segments(directory)
    for path in (path for place in _WRITTEN for path in directory.glob(f"{place}*{PARTIAL}*")):
        owner = path.name.rpartition(PARTIAL)[2]
        with suppress(OSError):
            if owner.isdecimal() and not _is_alive(int(owner)):
                path.unlink()


def sweep_segments(directory: Path) -> None:
    """Remove the segments that do not count. Nobody else may write: theirs are among them until they count."""
    names = {segment.name for segment in read_catalog(directory).segments}
    for path in (directory / SEGMENTS).iterdir():
        if path.name not in names:
            shutil.rmtree(path, ignore_errors=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True

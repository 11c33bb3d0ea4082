"""Listing of files below a directory, while other processes write there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def files_below(directory: Path) -> Iterator[Path]:
    """Yield all files below a directory without following links. A directory that disappears meanwhile is empty.

    `Path.rglob` raises FileNotFoundError for such a directory before Python 3.13.
    """
    for place, _, names in os.walk(directory):
        yield from (Path(place, name) for name in names)

"""The files below a directory, while others write there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def files_below(directory: Path) -> Iterator[Path]:
    """What is no directory, links to directories not entered; a folder that goes away meanwhile holds nothing.

    `Path.rglob` raises FileNotFoundError for such a folder before Python 3.13.
    """
    for place, _, names in os.walk(directory):
        yield from (Path(place, name) for name in names)

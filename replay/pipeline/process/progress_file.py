"""Progress of a command, in a file for the process that started it.

The variable `REPLAY_PROGRESS_FILE` names the file. It holds one JSON list: activity, amount done, and total (0 if
unknown).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

VARIABLE = "REPLAY_PROGRESS_FILE"
_SECONDS = 0.5
"""Least seconds between two writes of the file."""


def progress_to(path: Path) -> Callable[[str, int, int], None]:
    """Return a function that reports progress. An unwritable file is ignored."""
    last = [0.0]

    def report(what: str, count: int, total: int) -> None:
        now = time.monotonic()
        if now - last[0] >= _SECONDS:
            last[0] = now
            with suppress(OSError):
                path.write_text(json.dumps([what, count, total]), encoding="utf-8")

    return report


def read_progress(path: Path) -> tuple[str, int, int]:
    """Return activity, amount done and total, empty if nothing is known yet."""
    try:
        what, done, total = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return "", 0, 0
    return str(what), int(done), int(total)

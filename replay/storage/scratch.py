"""Temporary directories for one run. They are removed at its end, or by the next run if it was killed.

Each has a lock file that its owner keeps locked. The system releases the lock of a killed process. Only directories of
the same user with our name, mode and lock file are ever removed.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PREFIX = "replay-"
_NAME = re.compile(rf"{_PREFIX}[a-z0-9_]{{8}}")
_LOCK = "owner"


@contextmanager
def scratch() -> Iterator[Path]:
    """Yield a new private directory that exists during the context. Raises OSError if none can be created."""
    _sweep(Path(tempfile.gettempdir()))
    path, descriptor = _new_directory()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(descriptor)


def is_of_one_run(path: Path) -> bool:
    """Return whether a path is a directory of `scratch`, or is below one."""
    temporary = Path(tempfile.gettempdir()).resolve()
    return any(_NAME.fullmatch(each.name) and each.parent.resolve() == temporary for each in (path, *path.parents))


def _new_directory() -> tuple[Path, int]:
    """Return a new locked directory. Try again if another process removed it before it was locked."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        with suppress(FileNotFoundError):
            descriptor = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            if _is_locked(descriptor) and (path / _LOCK).exists():
                return path, descriptor
            os.close(descriptor)


def _is_locked(descriptor: int) -> bool:
    """Lock a file without waiting, and return whether that succeeded."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _sweep(place: Path) -> None:
    """Remove the directories whose owners have ended."""
    try:
        directories = [Path(entry.path) for entry in os.scandir(place) if _NAME.fullmatch(entry.name)]
    except OSError:
        return
    for path in directories:
        with suppress(OSError):
            _sweep_one(path)


def _sweep_one(path: Path) -> None:
    """Remove one directory of this user that no process holds. Raises OSError for concurrent removals."""
    mode = path.lstat()
    if not stat.S_ISDIR(mode.st_mode) or mode.st_uid != os.geteuid() or stat.S_IMODE(mode.st_mode) != stat.S_IRWXU:
        return
    try:
        descriptor = os.open(path / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        path.rmdir()  # its owner was killed before it locked; only an empty one can be removed like this
        return
    try:
        if _is_locked(descriptor):
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(descriptor)

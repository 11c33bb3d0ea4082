"""Storage in a directory of this machine."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from replay.errors import StoreError, reason_of
from replay.storage.storage import StoredFile

# Listing of files below a directory, while other processes write there.


def files_below(directory: Path) -> Iterator[Path]:
    """Yield all files below a directory without following links. A directory that disappears meanwhile is empty.

    `Path.rglob` raises FileNotFoundError for such a directory before Python 3.13.
    """
    for place, _, names in os.walk(directory):
        yield from (Path(place, name) for name in names)


PARTIAL = ".partial-"
"""Suffix of a file while it is written. The machine's name and the process number follow."""
PATIENCE_SECONDS = 120.0
"""Seconds that a process waits for another one that writes to the same store."""
_WAIT_SECONDS = 0.2
_READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)


class DirectoryStorage:
    """A directory (see `Storage`). New files are readable by their owner only."""

    def __init__(self, path: Path) -> None:
        """Use the directory at `path`, which does not have to exist yet."""
        self.path = path

    @property
    def location(self) -> str:
        """Path of the directory."""
        return str(self.path)

    def make(self, name: str) -> None:
        """See `Storage.make`."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self.path / name).mkdir(exist_ok=True)

    def has(self, name: str) -> bool:
        """See `Storage.has`."""
        return (self.path / name).is_file()

    def read(self, name: str) -> bytes:
        """See `Storage.read`."""
        return (self.path / name).read_bytes()

    def put(self, name: str, content: bytes, *, durable: bool = False) -> None:
        """See `Storage.put`."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f"{path.name}{PARTIAL}{socket.gethostname()}-{os.getpid()}")
        with temporary.open("wb") as file:
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
        if durable:
            sync(path.parent)

    def entries(self, prefix: str = "") -> Iterator[StoredFile]:
        """See `Storage.entries`. Files that are being written are not listed."""
        for path in files_below(self.path / prefix):
            if PARTIAL not in path.name:
                with suppress(FileNotFoundError):
                    stat = path.stat()
                    if path.is_file():
                        yield StoredFile(path.relative_to(self.path).as_posix(), stat.st_size, stat.st_mtime)

    def folders(self, prefix: str) -> Iterator[str]:
        """See `Storage.folders`. Empty folders count."""
        place = self.path / prefix
        if place.is_dir():
            yield from (path.name for path in place.iterdir() if path.is_dir())

    def touch(self, name: str) -> None:
        """See `Storage.touch`."""
        os.utime(self.path / name)

    def remove(self, name: str) -> None:
        """See `Storage.remove`."""
        path = self.path / name
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)

    @contextmanager
    def locked(self, name: str, message: str, *, shared: bool = False, patience: float | None = None) -> Iterator[None]:
        """See `Storage.locked`.

        On a read-only file system nobody can write, so readers share an existing lock file or use none.
        """
        path = self.path / name
        descriptor = _lock_file(path, shared=shared)
        try:
            mode = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
            if descriptor is not None:
                _acquire(descriptor, path, message, mode, PATIENCE_SECONDS if patience is None else patience)
            yield
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def local(self, name: str) -> Path:
        """See `Storage.local`. It is the stored file itself."""
        return self.path / name

    def workspace(self, name: str) -> Path:
        """See `Storage.workspace`. It is next to its final place, because a rename must stay on one file system."""
        place = self.path / name
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise store_error(error, place) from error
        if not os.access(place, os.W_OK):
            raise StoreError("the store is read-only", path=str(place))
        return Path(tempfile.mkdtemp(prefix="new-", dir=place))

    def adopt(self, path: Path, name: str, *, durable: bool = False) -> None:
        """See `Storage.adopt`. The directory is renamed."""
        if durable:
            for each in path.rglob("*"):
                sync(each)
            sync(path)
        target = self.path / name
        path.rename(target)
        if durable:
            sync(target.parent)

    def sweep(self) -> None:
        """See `Storage.sweep`."""
        for path in files_below(self.path):
            if PARTIAL not in path.name:
                continue
            # Only processes of this machine can be checked. Files of other machines stay.
            machine, _, process = path.name.rpartition(PARTIAL)[2].rpartition("-")
            with suppress(OSError):
                if machine == socket.gethostname() and process.isdecimal() and not _is_alive(int(process)):
                    path.unlink()


def sync(path: Path) -> None:
    """Wait until a file, or the entries of a directory, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _lock_file(path: Path, *, shared: bool) -> int | None:
    """Return a descriptor of a lock file, or None if it cannot be created, which only readers accept."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        if error.errno not in _READ_ONLY:
            raise store_error(error, path) from error
        if not shared:
            raise StoreError("the store is read-only", path=str(path.parent)) from error
    try:
        return os.open(path, os.O_RDONLY)
    except OSError:
        return None


def _acquire(descriptor: int, path: Path, message: str, mode: int, patience: float) -> None:
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() >= deadline:
                raise StoreError(message, path=str(path.parent)) from error
            time.sleep(_WAIT_SECONDS)
        else:
            return


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def store_error(error: OSError, place: Path | str) -> StoreError:
    """Return the error for users about something that the operating system refused."""
    return StoreError(reason_of(error), path=str(error.filename or place))

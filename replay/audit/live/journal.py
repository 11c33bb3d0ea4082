"""Journal of received events that are not in the store yet. Lines are on disk before a request is answered.

Requests that arrive together share one flush. The current file is closed for its ingest and removed when the store has
it. The files of a killed process are left for the next one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import Future
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock, Thread

from replay.audit.source import LogBatch, LogFile, plain_file
from replay.storage.directory import sync

_SUFFIX = ".jsonl"
_CHUNK = 1 << 20
_Write = tuple[bytes, Future[None]]


class Journal:
    """See `LiveLog`. Only one process at a time can have a journal."""

    def __init__(self, directory: Path) -> None:
        """Open the journal in a directory, which is created if needed. Raises `OSError`."""
        directory.mkdir(mode=0o700, exist_ok=True)
        sync(directory.parent)
        self._directory = directory
        self._closed = {path: size for path in sorted(directory.glob(f"*{_SUFFIX}")) if (size := _cut(path))}
        self._octets = sum(self._closed.values())
        self._file: _File | None = None
        self._lock = Lock()  # of the three above
        self._writes: SimpleQueue[_Write | None] = SimpleQueue()
        self._writer = Thread(target=self._write, name="journal", daemon=True)
        self._writer.start()

    def append(self, lines: bytes) -> Future[None]:
        """Write whole lines. The future is done when they are on the disk, or has an `OSError`."""
        written: Future[None] = Future()
        written.set_running_or_notify_cancel()  # what is begun is written, whoever still waits for it
        self._writes.put((lines, written))
        return written

    def close(self) -> None:
        """Write waiting lines and close."""
        self._writes.put(None)
        self._writer.join()
        with self._lock:
            self._end_file()

    def waiting(self) -> int:
        """Return the bytes on disk that are not in the store (see `LiveLog.waiting`)."""
        return self._octets

    def take(self, spool: Path, limit: int) -> LogBatch:
        """See `LiveLog.take`. The files are whole, and there is at least one if any lines wait."""
        del spool
        with self._lock:
            self._end_file()
            # A closed file gets no more lines, so the batch can be read without the lock.
            paths = list(self._closed)
        files: list[LogFile] = []
        for path in paths:
            if files and limit <= 0:
                break
            files.append(plain_file(path.name, path))
            limit -= files[-1].size

        def commit() -> None:
            self._remove(files)

        return LogBatch(tuple(files), None, commit)

    def _remove(self, files: Iterable[LogFile]) -> None:
        for file in files:
            path = Path(file.path)
            path.unlink()
            with self._lock:
                self._octets -= self._closed.pop(path)

    def _end_file(self) -> None:
        """Close the current file. The next write begins another one."""
        if self._file is not None:
            self._file.close()
            if self._file.size:
                self._closed[self._file.path] = self._file.size
            else:
                self._file.path.unlink(missing_ok=True)
            self._file = None

    def _write(self) -> None:
        """Write the waiting lines, all at once, until the journal is closed."""
        is_open = True
        while is_open:
            # All that waits is flushed at once, because one flush costs as much as the writes of many requests.
            group = [self._writes.get()]
            with suppress(Empty):
                while True:
                    group.append(self._writes.get_nowait())
            writes = [write for write in group if write is not None]
            is_open = len(writes) == len(group)
            if writes:
                self._commit(writes)

    def _commit(self, writes: list[_Write]) -> None:
        lines = [lines for lines, _ in writes]
        try:
            with self._lock:
                self._append(lines)
        except OSError as error:
            for _, written in writes:
                written.set_exception(error)
            return
        for _, written in writes:
            written.set_result(None)

    def _append(self, lines: list[bytes]) -> None:
        """Write and flush lines. After a failure the file's content is unknown, and it gets no more lines."""
        if self._file is None:
            self._file = _File(self._directory)
        try:
            self._octets += self._file.append(lines)
        except OSError:
            # None of these lines was acknowledged, so API servers send them again.
            self._file.cut()
            self._end_file()
            raise


class _File:
    """The file that is being written. All of it up to `size` is on the disk."""

    def __init__(self, directory: Path) -> None:
        """Create a file whose name sorts after those of older files. Raises `OSError`."""
        self.path = directory / f"webhook-{datetime.now(UTC):%Y-%m-%dT%H-%M-%S.%fZ}{_SUFFIX}"
        self._descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self.size = 0
        # The flush of a file does not make its name survive a crash.
        sync(directory)

    def append(self, lines: list[bytes]) -> int:
        """Write lines, flush them to the disk, and return their size in bytes. Raises `OSError`."""
        content = memoryview(b"".join(lines))
        written = 0
        while written < len(content):
            written += os.write(self._descriptor, content[written:])
        os.fsync(self._descriptor)
        self.size += written
        return written

    def cut(self) -> None:
        """Remove what a failed write left, if possible."""
        with suppress(OSError):
            os.ftruncate(self._descriptor, self.size)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


def _cut(path: Path) -> int:
    """Remove an unacknowledged partial line at the end of a file, and return the bytes left.

    A file without bytes is removed.
    """
    with path.open("r+b") as file:
        end = file.seek(0, os.SEEK_END)
        while end:
            begin = max(0, end - _CHUNK)
            file.seek(begin)
            line_end = file.read(end - begin).rfind(b"\n")
            end = begin + line_end + 1
            if line_end >= 0:
                break
        file.truncate(end)
    if not end:
        path.unlink()
    return end

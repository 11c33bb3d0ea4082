"""`replay ingest --follow`: the files of a log that grows and rotates, and the position in each.

A log rotates by renaming (the API server itself), by copying and truncating, and by compressing old files. So content,
not name or inode, identifies a file. If the identity is uncertain, the file is read again, and the store counts each
event once.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Container, Sequence
from contextlib import suppress
from pathlib import Path

from replay.audit.catalog import Position
from replay.audit.live.followed_file import FollowedFile, Piece
from replay.audit.live.source import LogBatch
from replay.audit.source import FileFingerprint, expanded, stamp_of, unreadable
from replay.errors import AuditLogError

SETTLED_SECONDS = 10.0
"""Seconds without a change after which a compressed or renamed file counts as complete."""
_MOST_POSITIONS = 1000
_MOST_OPEN = 256
_NEWEST = 16
"""Number of files that stay open, so that they can be read even if they move. Others are opened again when they change.
"""
_Key = tuple[int, int]


class FollowedLog:
    """Followed files (see `LiveLog`). `positions` come from the store. `report` receives messages for the operator."""

    def __init__(
        self,
        arguments: Sequence[str],
        positions: Sequence[Position],
        report: Callable[[str], None],
        settled: float = SETTLED_SECONDS,
    ) -> None:
        """Follow files, directories and patterns. They need not exist yet."""
        self._arguments = arguments
        self._positions = {position.head: position for position in positions}
        self._report = report
        self._settled = settled
        self._files: dict[_Key, FollowedFile] = {}
        self._refused: set[_Key] = set()
        self._at_rest: dict[_Key, FileFingerprint] = {}

    def close(self) -> None:
        """Close all files."""
        for file in self._files.values():
            file.close()
        self._files.clear()

    def waiting(self) -> int:
        """See `LiveLog.waiting`."""
        self._look()
        return sum(self._waiting(file) for file in self._chosen())

    def take(self, spool: Path, limit: int) -> LogBatch:
        """See `LiveLog.take`. The file with the oldest last write comes first."""
        self._look()
        pieces: list[Piece] = []
        for file in sorted(self._chosen(), key=lambda file: file.stamp.modified):
            target = spool / f"piece-{len(pieces)}"
            piece = file.piece(self._known(file), target, limit, is_whole=self._is_whole(file)) if limit > 0 else None
            if piece is not None:
                pieces.append(piece)
                limit -= piece.file.size
        positions = dict(self._positions)
        for position in (piece.position for piece in pieces if piece.position is not None):
            positions.pop(position.head, None)
            positions[position.head] = position
        newest = tuple(positions.values())[-_MOST_POSITIONS:]

        def commit() -> None:
            self._positions = {position.head: position for position in newest}
            for piece in pieces:
                piece.done()

        return LogBatch(tuple(piece.file for piece in pieces), newest, commit)

    def _look(self) -> None:
        """Refresh the list of existing files and their state."""
        paths: list[str] = []
        for argument in self._arguments:
            with suppress(AuditLogError):  # it may come
                paths += expanded(argument)
        paths_by_key: dict[_Key, str] = {}
        for path in paths:
            with suppress(FileNotFoundError):
                paths_by_key.setdefault(self._opened(path), path)
        for key, file in list(self._files.items()):
            path = paths_by_key.get(key, "")
            file.is_left = file.is_left or path != file.path
            file.path = path or file.path
            file.look()
            if not path and file.is_read(self._known(file)):
                self._files.pop(key).close()
        self._rest(paths_by_key)

    def _rest(self, keys: Container[_Key]) -> None:
        """Close the older files that are read to their ends."""
        self._at_rest = {key: stamp for key, stamp in self._at_rest.items() if key in keys}
        for key, file in sorted(self._files.items(), key=lambda item: item[1].stamp.modified)[:-_NEWEST]:
            if file.is_read(self._known(file)):
                self._at_rest[key] = file.stamp
                self._files.pop(key).close()

    def _is_open(self, key: _Key, status: os.stat_result) -> bool:
        """Return whether a file need not be opened, or cannot be opened now."""
        is_known = key in self._files or key in self._refused or self._at_rest.get(key) == stamp_of(status)
        return is_known or len(self._files) >= _MOST_OPEN or not stat.S_ISREG(status.st_mode)

    def _opened(self, path: str) -> _Key:
        """Return the identity of a file, and open it if needed. Raises `FileNotFoundError`."""
        status = os.stat(path)  # noqa: PTH116 - any text
        key = (status.st_dev, status.st_ino)
        if not self._is_open(key, status):
            try:
                file = FollowedFile(path)
            except FileNotFoundError:
                raise
            except (OSError, AuditLogError) as error:
                self._refused.add(key)
                self._report(
                    f"{error if isinstance(error, AuditLogError) else unreadable(error, path)}; it is left out"
                )
                return key
            key = (file.stamp.device, file.stamp.inode)
            if self._files.setdefault(key, file) is not file:
                file.close()
        return key

    def _chosen(self) -> list[FollowedFile]:
        """Return the files with new lines. Of several copies, the longest is chosen."""
        chosen: dict[str, FollowedFile] = {}
        for file in self._files.values():
            if (waiting := self._waiting(file)) and (file.head or file.is_compressed):
                other = chosen.setdefault(file.head, file)
                if waiting > self._waiting(other):
                    chosen[file.head] = file
        return list(chosen.values())

    def _known(self, file: FollowedFile) -> Position | None:
        return self._positions.get(file.head)

    def _waiting(self, file: FollowedFile) -> int:
        if file.is_compressed and not file.is_settled(self._settled):
            return 0
        return file.waiting(self._known(file), is_whole=self._is_whole(file))

    def _is_whole(self, file: FollowedFile) -> bool:
        return file.is_left and file.is_settled(self._settled)

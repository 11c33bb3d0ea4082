"""Protocol of a store's storage."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, Protocol


class StoredFile(NamedTuple):
    """Stored file: its name in the storage, its size in bytes, and the time of its last write or touch (Unix seconds)."""

    name: str
    size: int
    modified: float


class Storage(Protocol):
    """Files of a store, by names relative to one place. `/` separates the parts of a name.

    All methods raise OSError if the place refuses, and FileNotFoundError for a missing name. A reader sees either the
    old or the new content of a file, never a part of it.
    """

    @property
    def location(self) -> str:
        """Return the place, as its user names it."""
        ...

    def make(self, name: str) -> None:
        """Create the place and a folder in it unless they exist. New ones are readable only by their owner."""
        ...

    def has(self, name: str) -> bool:
        """Return whether a file exists."""
        ...

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        ...

    def put(self, name: str, content: bytes, *, durable: bool = False) -> None:
        """Write a file atomically. With `durable` it survives a power loss."""
        ...

    def entries(self, prefix: str = "") -> Iterator[StoredFile]:
        """Yield all files whose names begin with `prefix`, which is empty or ends in `/`."""
        ...

    def folders(self, prefix: str) -> Iterator[str]:
        """Yield the folders directly below `prefix`, which ends in `/`."""
        ...

    def touch(self, name: str) -> None:
        """Record that a file is still in use."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file, or everything below a name, if it exists."""
        ...

    def locked(
        self, name: str, message: str, *, shared: bool = False, patience: float | None = None
    ) -> AbstractContextManager[None]:
        """Hold a lock during the context.

        Raises StoreError with `message` if another process holds it longer than `patience` seconds.

        With `shared`, several readers can hold it at once.
        """
        ...

    def local(self, name: str) -> Path:
        """Return a local file with the content of a stored file. It exists as long as the storage is open."""
        ...

    def workspace(self, name: str) -> Path:
        """Return a new local directory for the files below a name. Raises StoreError if it cannot be created."""
        ...

    def adopt(self, path: Path, name: str, *, durable: bool = False) -> None:
        """Publish the content of a `workspace` as the files below `name`."""
        ...

    def sweep(self) -> None:
        """Remove files that killed processes left half written."""
        ...

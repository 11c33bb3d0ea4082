"""Protocol of a store's storage."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, Protocol


class StoredFile(NamedTuple):
    """A file: its name below the storage, its size in bytes, and when it was written or touched (seconds since the epoch)."""

    name: str
    size: int
    modified: float


class Storage(Protocol):
    """Files by names relative to one place, with `/` between the parts of a name.

    All methods raise `OSError` for what the place refuses, `FileNotFoundError` for a name that is not there. A reader sees a
    file as it was or as it is, never half of it.
    """

    @property
    def location(self) -> str:
        """The place, as its user names it."""
        ...

    def make(self, name: str) -> None:
        """Make sure that the place and a folder of it are there, readable by their owner alone where they are made now."""
        ...

    def has(self, name: str) -> bool:
        """Whether there is a file."""
        ...

    def read(self, name: str) -> bytes:
        """The content of a file."""
        ...

    def put(self, name: str, content: bytes, *, durable: bool = False) -> None:
        """Write a file in one step; with `durable` it outlives a loss of power."""
        ...

    def entries(self, prefix: str = "") -> Iterator[StoredFile]:
        """Yield all files whose names begin with `prefix`, which is empty or ends in `/`."""
        ...

    def folders(self, prefix: str) -> Iterator[str]:
        """The first part of what follows `prefix`, which ends in `/`, in the names that have more than that part."""
        ...

    def touch(self, name: str) -> None:
        """Say that a file is still of use."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file, or everything below a name, if it exists."""
        ...

    def locked(
        self, name: str, message: str, *, shared: bool = False, patience: float | None = None
    ) -> AbstractContextManager[None]:
        """Hold a lock; raises `StoreError` saying `message` if another process holds it for longer than `patience` seconds."""
        ...

    def local(self, name: str) -> Path:
        """Return a local file with the content of a stored file. It exists as long as the storage is open."""
        ...

    def workspace(self, name: str) -> Path:
        """Return a new local directory for the files below a name; raises `StoreError` if it cannot be created."""
        ...

    def adopt(self, path: Path, name: str, *, durable: bool = False) -> None:
        """Publish the content of a `workspace` as the files below `name`."""
        ...

    def sweep(self) -> None:
        """Remove what killed processes left half written."""
        ...

"""Exchange between the processes of a fleet: values in the store's storage, under digests, sealed for one run.

Values are pickled, and anyone who can write to the storage could place one there. So each parcel is sealed with the
run's key, which only orders carry. A parcel with another seal is not unpickled.

A value may name files and directories of its machine. Such a file is stored beside it. A temporary directory becomes
the reader's own.
"""

from __future__ import annotations

import hashlib
import hmac
import io
import pickle
import secrets
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from replay.audit.catalog import FLEET, Catalog, SegmentEntry, require_complete
from replay.audit.directory import portion, tables
from replay.audit.part import StorePart
from replay.errors import StoreError
from replay.storage.scratch import is_of_one_run
from replay.storage.storage import Storage

LONGEST_RUN = 7 * 24 * 3600.0
"""Seconds without a new parcel after which a run counts as killed."""
_SEAL = 32


class FleetRun(NamedTuple):
    """One run of a fleet: its store, the name of its parcels, and the sealing key."""

    location: str
    name: str
    key: bytes

    def __repr__(self) -> str:
        """Return the run without its key, because errors are written to the logs of workers."""
        return f"run {self.name} over {self.location}"

    def seal(self, *contents: bytes) -> bytes:
        """Return the seal of contents, which requires the key."""
        seal = hashlib.blake2b(key=self.key, digest_size=_SEAL)
        for content in contents:
            seal.update(len(content).to_bytes(8, "big") + content)
        return seal.digest()


def new_run(location: str) -> FleetRun:
    """Return a new run on the store at a location."""
    return FleetRun(location, secrets.token_hex(8), secrets.token_bytes(32))


class Parcels:
    """The parcels of one run, for one process."""

    def __init__(self, storage: Storage, run: FleetRun, scratch: Path, segments: Sequence[SegmentEntry] = ()) -> None:
        """`scratch` is a directory of this process. Parts of a store with `segments` can be packed."""
        self._storage = storage
        self._run = run
        self._temporary = str(scratch)
        self._spool = scratch / "spool"
        self.clear()
        self._segments = tuple(segments)
        self._catalogs: dict[str, Catalog] = {}

    def put(self, value: object) -> str:
        """Store a value under a digest of its content, and return the name."""
        content = self.pack(value)
        name = self._run.seal(content).hex()
        self.put_as(name, content)
        return name

    def put_as(self, name: str, content: bytes) -> None:
        """Store the output of `pack` under a name, atomically."""
        self._storage.put(self._place(name), self._run.seal(name.encode(), content) + content)

    def get(self, name: str) -> Any:
        """Return a value. Raise `FileNotFoundError`, and `StoreError` for a value of another run."""
        sealed = self._storage.read(self._place(name))
        seal, content = sealed[:_SEAL], sealed[_SEAL:]
        self._require(seal, self._run.seal(name.encode(), content), name)
        return self.unpack(content)

    def has(self, name: str) -> bool:
        """Return whether a value of this name is stored."""
        return self._storage.has(self._place(name))

    def pack(self, value: object) -> bytes:
        """Return a value as bytes that any process of the run can `unpack`.

        Files that it names are stored beside it.
        """
        content = io.BytesIO()
        _Packer(content, self).dump(value)
        return content.getvalue()

    def unpack(self, content: bytes) -> Any:
        """Return a value with files of this machine.

        INVARIANT: `content` came with an order, or has the seal of the run.
        """
        return _Unpacker(io.BytesIO(content), self).load()

    def portable_name(self, path: Path) -> tuple[str, str] | None:
        """Return a path's portable name, or None for paths outside of the run."""
        if not is_of_one_run(path):
            return None
        if path.is_dir():
            return "directory", ""
        content = path.read_bytes()
        name = self._run.seal(content).hex()
        self._storage.put(self._place(name), content)
        return "file", name

    def local_path(self, kind: str, name: str) -> Path:
        """Return this machine's path for a portable name."""
        if kind == "directory":
            return self._spool
        path = self._storage.local(self._place(name))
        self._require(bytes.fromhex(name), self._run.seal(path.read_bytes()), name)
        return path

    def portable_part(self, part: StorePart) -> tuple[str, int, str]:
        """Return a part's portable name: its number, and the store's segments."""
        if not self._catalogs:
            self._catalogs[self.put(self._segments)] = Catalog(segments=self._segments)
        (name,) = self._catalogs
        return "part", part.number, name

    def part(self, number: int, segments: str) -> StorePart:
        """Return the part of a portable name. Its files are fetched and checked."""
        if segments not in self._catalogs:
            self._catalogs[segments] = Catalog(segments=self.get(segments))
        catalog = portion(self._catalogs[segments], number)
        require_complete(self._storage, catalog)
        return StorePart(number, tables(self._storage, catalog, (number,)), self._temporary)

    def clear(self) -> None:
        """Empty this process's temporary directory. Its results are stored."""
        shutil.rmtree(self._spool, ignore_errors=True)
        self._spool.mkdir()

    def remove(self) -> None:
        """Remove the parcels of this run, and of those that were killed long ago."""
        self._storage.remove(f"{FLEET}/{self._run.name}")
        newest: dict[str, float] = {}
        for entry in self._storage.entries(f"{FLEET}/"):
            name = entry.name.rpartition("/")[0]
            newest[name] = max(newest.get(name, 0.0), entry.modified)
        for name, modified in newest.items():
            if modified < time.time() - LONGEST_RUN:
                self._storage.remove(name)

    def _place(self, name: str) -> str:
        return f"{FLEET}/{self._run.name}/{name}"

    def _require(self, seal: bytes, expected_seal: bytes, name: str) -> None:
        # The comparison takes the same time for any seal, so no seal can be guessed byte by byte.
        if not hmac.compare_digest(seal, expected_seal):
            place = f"{self._run.location}/{self._place(name)}"
            raise StoreError("altered since this run wrote it: see who else writes there", path=place)


class _Packer(pickle.Pickler):
    """Pickler that replaces paths of this machine by portable names."""

    def __init__(self, file: io.BytesIO, parcels: Parcels) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._parcels = parcels

    def persistent_id(self, value: Any) -> tuple[str | int, ...] | None:
        if isinstance(value, Path):
            return self._parcels.portable_name(value)
        return self._parcels.portable_part(value) if isinstance(value, StorePart) else None


class _Unpacker(pickle.Unpickler):
    """Unpickler that replaces portable names by paths of this machine."""

    def __init__(self, file: io.BytesIO, parcels: Parcels) -> None:
        super().__init__(file)
        self._parcels = parcels

    def persistent_load(self, reference: tuple[Any, ...]) -> Path | StorePart:
        kind, *rest = reference
        return self._parcels.part(*rest) if kind == "part" else self._parcels.local_path(kind, *rest)

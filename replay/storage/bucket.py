"""Object storage through obstore: S3 and compatible services, Google Cloud Storage, Azure Blob Storage.

Files are fetched to a temporary directory and read there. A written file is uploaded as a whole. Credentials and
endpoints come from the environment, as for the tools of the clouds (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`, ...). Only
the named place is contacted.
"""

from __future__ import annotations

import json
import os
import re
import socket
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from fnmatch import translate
from functools import partial
from html import unescape
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import BaseError
from obstore.store import from_url

from replay.errors import AuditLogError, NoLogError, StoreError
from replay.storage.location import NEEDS_EXTRA, RemoteFile, shown
from replay.storage.scratch import scratch
from replay.storage.storage import StoredFile

try:
    import obstore
    from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
    from obstore.store import from_url
except ImportError as error:  # pragma: no cover - where the extra is not installed
    raise StoreError(NEEDS_EXTRA) from error

LEASE_SECONDS = 60.0
"""Seconds after which a lock without renewal expires: its holder was killed or lost the network."""
PATIENCE_SECONDS = 120.0
_WAIT_SECONDS = 1.0
_RENEWALS = 3
"""Number of renewals within the lifetime of a lock."""

_Found = TypeVar("_Found")


class BucketStorage:
    """Storage below a prefix of a bucket (see `Storage`). Readers fetch files when they open them, and hold no lock."""

    def __init__(self, url: str, store: Any, mirror: Path) -> None:
        """`store` is obstore's object. `mirror` is a directory for fetched files."""
        self._url = url
        self._store = store
        self._mirror = mirror
        self._leases: list[_Lease] = []
        self._versions: dict[str, Any] = {}
        """Version of each file that was last read or written, or `create` if there was none."""

    @property
    def location(self) -> str:
        """URL of the prefix."""
        return self._url

    def make(self, name: str) -> None:
        """See `Storage.make`. There are no folders in a bucket."""

    def has(self, name: str) -> bool:
        """See `Storage.has`."""
        try:
            self._do(lambda: obstore.head(self._store, name))
        except FileNotFoundError:
            return False
        return True

    def read(self, name: str) -> bytes:
        """See `Storage.read`."""
        try:
            response = self._do(lambda: obstore.get(self._store, name))
        except FileNotFoundError:
            self._versions[name] = "create"
            raise
        self._versions[name] = _version_of(response.meta)
        return bytes(self._do(response.bytes))

    def put(self, name: str, content: bytes, *, durable: bool = False) -> None:
        """See `Storage.put`. A write is atomic, and durable when it returns.

        A durable write needs the locks, and replaces only the version that was read before.
        """
        if durable and not all(lease.is_held for lease in self._leases):
            raise StoreError("the lock of the store was lost: run again", path=self._url)
        mode: Any = self._versions.get(name, "overwrite") if durable else "overwrite"
        try:
            self._versions[name] = _version_of(self._do(lambda: obstore.put(self._store, name, content, mode=mode)))
        except (AlreadyExistsError, PreconditionError) as error:
            raise StoreError("another process wrote to the store meanwhile: run again", path=self._url) from error
        except FileNotFoundError as error:
            raise StoreError("there is no such bucket", path=self._url) from error

    def entries(self, prefix: str = "") -> Iterator[StoredFile]:
        """See `Storage.entries`."""
        pages = self._do(lambda: list(obstore.list(self._store, prefix.rstrip("/") or None)))
        for page in pages:
            for each in page:
                yield StoredFile(each["path"], each["size"], each["last_modified"].timestamp())

    def folders(self, prefix: str) -> Iterator[str]:
        """See `Storage.folders`."""
        listing = self._do(lambda: obstore.list_with_delimiter(self._store, prefix.rstrip("/")))
        yield from (str(name).rpartition("/")[2] for name in listing["common_prefixes"])

    def touch(self, name: str) -> None:
        """See `Storage.touch`. An object has only the time of its last write, so nothing is done."""

    def remove(self, name: str) -> None:
        """See `Storage.remove`."""
        names = [entry.name for entry in self.entries(f"{name}/")] or [name]
        with suppress(FileNotFoundError):
            self._do(lambda: obstore.delete(self._store, names))

    @contextmanager
    def locked(self, name: str, message: str, *, shared: bool = False, patience: float | None = None) -> Iterator[None]:
        """See `Storage.locked`.

        The lock is an object that is created only if it does not exist, and renewed until its release.

        A lock without renewal expires. It is taken over by a conditional put, so only one process succeeds.
        """
        if shared:
            yield
            return
        lease = _Lease(self._store, name)
        deadline = time.monotonic() + (PATIENCE_SECONDS if patience is None else patience)
        while not self._do(lease.take):
            if time.monotonic() >= deadline:
                raise StoreError(message, path=self._url)
            time.sleep(_WAIT_SECONDS)
        self._leases.append(lease)
        try:
            with lease.renewed():
                yield
        finally:
            self._leases.remove(lease)

    def local(self, name: str) -> Path:
        """See `Storage.local`. A folder is the directory to which its files were fetched."""
        path = self._mirror / name
        if not path.exists():
            content = self.read(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            fetched = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
            fetched.write_bytes(content)
            fetched.replace(path)
        return path

    def workspace(self, name: str) -> Path:
        """See `Storage.workspace`. It is below the mirror."""
        place = self._mirror / name
        place.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix="new-", dir=place))

    def adopt(self, path: Path, name: str, *, durable: bool = False) -> None:
        """See `Storage.adopt`. All files are uploaded, in no particular order, and stay in the mirror."""
        del durable
        for each in sorted(each for each in path.rglob("*") if each.is_file()):
            target = f"{name}/{each.relative_to(path).as_posix()}"
            self._do(partial(obstore.put, self._store, target, each))
        path.rename(self._mirror / name)

    def sweep(self) -> None:
        """See `Storage.sweep`. No file is ever half written."""

    def _do(self, ask: Callable[[], _Found]) -> _Found:
        """Return the storage's answer. Raises StoreError if it refuses."""
        try:
            return ask()
        except (AlreadyExistsError, PreconditionError):
            raise
        except BaseError as error:
            raise StoreError(reason(error), path=self._url) from error


class _Lease:
    """Exclusive lock that expires without renewal."""

    def __init__(self, store: Any, name: str) -> None:
        self._store = store
        self._name = name
        self._owner = f"{socket.gethostname()}/{os.getpid()}/{uuid.uuid4().hex}"
        self._version: dict[str, str] = {}
        self._until = 0.0

    @property
    def is_held(self) -> bool:
        """Return whether no other process can have taken the lock."""
        return time.time() < self._until

    def take(self) -> bool:
        """Take the lock if it is free or has expired."""
        if self._put("create"):
            return True
        try:
            lease = obstore.get(self._store, self._name)
        except FileNotFoundError:
            return self._put("create")
        return _until(bytes(lease.bytes())) < time.time() and self._put(_version_of(lease.meta))

    def _put(self, mode: Any) -> bool:
        until = time.time() + LEASE_SECONDS
        content = json.dumps({"owner": self._owner, "until": until}).encode()
        try:
            self._version = _version_of(obstore.put(self._store, self._name, content, mode=mode))
        except (AlreadyExistsError, PreconditionError):
            return False
        self._until = until
        return True

    @contextmanager
    def renewed(self) -> Iterator[None]:
        """Hold and renew the lock during the context, then release it."""
        ended = threading.Event()
        renewal = threading.Thread(target=self._renew, args=(ended,), daemon=True)
        renewal.start()
        try:
            yield
        finally:
            ended.set()
            renewal.join()
            # An expired lock may already belong to another process.
            if self.is_held:  # else it may be somebody else's by now
                with suppress(BaseError, OSError):
                    obstore.delete(self._store, self._name)

    def _renew(self, ended: threading.Event) -> None:
        while not ended.wait(LEASE_SECONDS / _RENEWALS):
            with suppress(BaseError, OSError):  # the next time may do
                self._put(self._version)


def _until(content: bytes) -> float:
    """Return when a lock expires.

    Content without a time was not written by a holder, so it counts as expired.
    """
    try:
        return float(json.loads(content)["until"])
    except (ValueError, KeyError, TypeError):
        return 0.0


def _version_of(meta: Any) -> dict[str, str]:
    """Return the identifiers of one version of an object. Clouds use either or both."""
    return {key: meta[key] for key in ("e_tag", "version") if meta.get(key)}


_SAID = re.compile(r"<Code>([^<]*)</Code>\s*<Message>([^<]*)</Message>")


def reason(error: Exception) -> str:
    """Return the server's code and message for an error, or else the first line of its text."""
    text = str(error)
    said = _SAID.search(text)
    return " ".join((f"{said[1]}: {unescape(said[2])}" if said is not None else text.partition("\n")[0]).split())


def open_bucket(url: str, stack: ExitStack) -> BucketStorage:
    """Return the storage at a URL. Raises StoreError for an invalid URL. `stack` removes the local copy on close."""
    try:
        store = from_url(url.rstrip("/"), client_options={"allow_http": True})
    except (BaseError, ValueError) as error:
        raise StoreError(reason(error), path=url) from error
    return BucketStorage(url.rstrip("/"), store, stack.enter_context(scratch()).resolve())


_MAGIC = re.compile(r"[*?\[]")


def objects(url: str) -> Iterator[RemoteFile]:
    """Yield the objects that a URL selects, sorted by name. See `remote_files`."""
    scheme, bucket, path = urlsplit(url, allow_fragments=False)[:3]
    root, path = f"{scheme}://{bucket}", path.lstrip("/")
    if "?" in url:  # to a URL the rest is a query, to a pattern any letter
        path = url.removeprefix(root).lstrip("/")
    try:
        store = from_url(root, client_options={"allow_http": True})
        names = list(_names(store, path))
    except (BaseError, ValueError, OSError) as error:
        raise AuditLogError(reason(error), path=shown(url)) from error
    if not names:
        raise NoLogError("no such object, and none below it", path=shown(url))
    for name in sorted(names):
        own = f"{root}/{name}"
        yield RemoteFile(own, partial(_pieces, store, name, own))


def _names(store: Any, path: str) -> Iterator[str]:
    """Yield the names that a path selects.

    In folders, objects whose name begins with a dot are skipped, like hidden files.
    """
    magic = _MAGIC.search(path)
    if magic is None and path and not path.endswith("/") and _is_there(store, path):
        yield path
        return
    folder = path[: path.rfind("/", 0, magic.start()) + 1] if magic is not None else path
    regex = _pattern(path) if magic is not None else None
    for listed in obstore.list(store, prefix=folder or None):
        for meta in listed:
            name = str(meta["path"])
            hidden = name.rpartition("/")[2].startswith(".")
            if regex.fullmatch(name) if regex is not None else not hidden:
                yield name


def _is_there(store: Any, path: str) -> bool:
    try:
        obstore.head(store, path)
    except FileNotFoundError:
        return False
    return True


def _pattern(path: str) -> re.Pattern[str]:
    """Return a shell pattern as a regular expression: `*` within one folder, `**` across folders."""
    parts = path.split("/")
    texts = [
        "(?:[^/]+/)*" if part == "**" else _part_pattern(part) + ("/" if number < len(parts) else "")
        for number, part in enumerate(parts, 1)
    ]
    return re.compile("".join(texts))


def _part_pattern(part: str) -> str:
    """Return the regular expression for one part. A leading `*` or `?` does not match a dot."""
    text = translate(part).removeprefix("(?s:")[: -len(r")\Z")].replace(".*", "[^/]*")  # `)\z` since Python 3.14
    return text if part.startswith(".") else rf"(?!\.){text}"


def _pieces(store: Any, name: str, url: str) -> Iterator[bytes]:
    try:
        response = obstore.get(store, name)
        fetched = 0
        for piece in response.stream():
            fetched += len(piece)
            yield bytes(piece)
    except (BaseError, OSError) as error:
        raise AuditLogError(reason(error), path=shown(url)) from error
    if fetched != response.meta["size"]:
        raise AuditLogError(
            f"the object ended after {fetched} of {response.meta['size']} bytes: run again", path=shown(url)
        )

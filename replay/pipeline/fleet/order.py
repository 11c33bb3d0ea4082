"""Orders to the workers of another executor.

A call becomes an order, each worker runs one at a time, and results are fetched on demand.
"""

from __future__ import annotations

import gc
import hashlib
import os
import platform
import socket
import weakref
from collections.abc import Callable
from concurrent.futures import CancelledError, Executor, Future
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, TypeVar

from replay.audit import queries
from replay.distribution import VERSION
from replay.errors import ReplayError
from replay.identity import IdentityMap
from replay.pipeline.fleet.parcels import FleetRun, Parcels
from replay.storage.location import opened
from replay.storage.scratch import scratch

_PACKAGE = Path(__file__).parents[2]
_PRIVATE = 0o077
"""File mode mask: only the owner may read, as on the ordering side."""


class WorkOrder(NamedTuple):
    """An order: the names of a function and of its arguments except the last, which is included.

    `code` is the orderer's `fingerprint`, `collect` its garbage collection thresholds.
    """

    run: FleetRun
    code: str
    collect: tuple[int, int, int]
    shared: tuple[str, ...]
    own: bytes

    @property
    def result(self) -> str:
        """Return the result's name: a digest of all inputs."""
        return self.run.seal(self.code.encode(), *(name.encode() for name in self.shared), self.own).hex()


@cache
def fingerprint() -> str:
    """Return the version of this code, its dependencies and Python."""
    digest = hashlib.sha256()
    for folder, suffixes in ((_PACKAGE, (".py", ".json")), (queries.folder(), (".sql",))):
        for path in sorted(path for path in folder.rglob("*") if path.suffix in suffixes):
            content = path.read_bytes()
            digest.update(f"{path.relative_to(folder)} {len(content)} ".encode() + content)
    python = ".".join(platform.python_version_tuple()[:2])
    return f"replay {VERSION} ({digest.hexdigest()[:12]}) on Python {python}"


class _WorkerState:
    """State of a worker for one run: the storage, a directory, and loaded values."""

    def __init__(self, run: FleetRun) -> None:
        self.run = run
        stack = ExitStack()
        self._parcels = Parcels(opened(run.location, stack), run, stack.enter_context(scratch()).resolve())
        self._values: dict[str, Any] = {}
        self.close = weakref.finalize(self, stack.close)

    def do(self, order: WorkOrder) -> None:
        """Store the result of an order, unless it is stored already by a worker that was lost later."""
        if self._parcels.has(order.result):
            return
        # Only the values of this order stay in memory.
        results = self._values
        self._values = {name: results[name] if name in results else self._get(name) for name in order.shared}
        function, *shared = (self._values[name] for name in order.shared)
        try:
            result = function(*shared, self._parcels.unpack(order.own))
            self._parcels.put_as(order.result, self._parcels.pack(result))
        finally:
            self._parcels.clear()

    def _get(self, name: str) -> Any:
        try:
            return self._parcels.get(name)
        except FileNotFoundError as error:
            message = f"worker {socket.gethostname()} does not see it: keep the store on a file system of all workers, or in a bucket"
            raise ReplayError(message, path=self.run.location) from error


_worker_state: _WorkerState | None = None
_busy = Lock()


def execute_order(order: WorkOrder) -> str:
    """Execute an order and return the name of its result.

    Raise ReplayError if this worker has another version of replay, and any error of the function.
    """
    require_same(order.code, f"worker {socket.gethostname()}")
    with _busy:  # only one thread of a worker runs at a time, because jobs are not thread-safe
        if _worker_state is None or _worker_state.run != order.run:
            _begin_run(order)
        assert _worker_state is not None
        _worker_state.do(order)
    return order.result


def require_same(code: str, who: str) -> None:
    """Raise ReplayError naming `who` unless the orderer has this `fingerprint`.

    Results would come from another version.
    """
    if fingerprint() != code:
        raise ReplayError(f"has {fingerprint()}, the command {code}: use one image for all", path=who)


def remove_worker_files(run: FleetRun) -> None:
    """Remove this worker's files of a run. If the worker is busy, its next run does so."""
    global _worker_state  # noqa: PLW0603 - a worker has one desk, for the last run that ordered
    if _busy.acquire(blocking=False):
        try:
            if _worker_state is not None and _worker_state.run == run:
                _worker_state.close()
                _worker_state = None
        finally:
            _busy.release()


def _begin_run(order: WorkOrder) -> None:
    global _worker_state  # noqa: PLW0603 - as above
    if _worker_state is not None:
        _worker_state.close()
        _worker_state = None
    os.umask(_PRIVATE)
    gc.set_threshold(*order.collect)
    _worker_state = _WorkerState(order.run)


T = TypeVar("T")
Submit = Callable[[WorkOrder], "Future[str]"]
"""Function that sends an order to a worker, which returns the result's name."""

ErrorConverter = Callable[[BaseException], BaseException]


class OrderingExecutor(Executor):
    """An executor whose workers share a storage with this process, and nothing else."""

    def __init__(self, submit: Submit, convert_error: ErrorConverter, parcels: Parcels, run: FleetRun) -> None:
        """Keep the inputs. `convert_error` converts errors of the fleet to errors of this project. `parcels` belong to `run`."""
        self._submit = submit
        self._convert_error = convert_error
        self._parcels = parcels
        self._run = run
        self._names: IdentityMap[object, str] = IdentityMap()

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Order `fn(*args)`.

        The function and all arguments but the last are stored once, however often they are passed.
        """
        assert not kwargs
        *shared, own = (fn, *args)
        names = tuple(map(self._named, shared))
        order = WorkOrder(self._run, fingerprint(), gc.get_threshold(), names, self._parcels.pack(own))
        return _Ordered(self._submit(order), self._convert_error, self._parcels)

    def _named(self, value: object) -> str:
        name = self._names.get(value)
        if name is None:
            name = self._names[value] = self._parcels.put(value)
        return name


class _Ordered(Future[Any]):
    """A pending result. The first reader fetches it, not the notifying thread."""

    def __init__(self, name: Future[str], convert_error: ErrorConverter, parcels: Parcels) -> None:
        super().__init__()
        self._name = name
        self._convert_error = convert_error
        self._parcels = parcels
        self._fetched: list[Any] = []
        name.add_done_callback(self._complete)

    def _complete(self, name: Future[str]) -> None:
        if name.cancelled():
            if super().cancel():
                self.set_running_or_notify_cancel()
        elif (error := name.exception()) is not None:
            self.set_exception(self._convert_error(error))
        else:
            self.set_result(name.result())

    def cancel(self) -> bool:
        """Cancel the order if no worker has started it."""
        return self._name.cancel()

    def result(self, timeout: float | None = None) -> Any:
        """Return the result itself, fetched at the first call."""
        if not self._fetched:
            try:
                self._fetched.append(self._parcels.get(super().result(timeout)))
            except CancelledError as error:
                raise ReplayError("the scheduler was lost, or forgot what it was to do: run again") from error
        return self._fetched[0]

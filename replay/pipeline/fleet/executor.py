"""Ordering side: calls become orders for another executor's workers. Results are fetched on demand."""

from __future__ import annotations

import gc
from collections.abc import Callable
from concurrent.futures import CancelledError, Executor, Future
from typing import Any, TypeVar

from replay.errors import ReplayError
from replay.identity import IdentityMap
from replay.pipeline.fleet.parcels import FleetRun, Parcels
from replay.pipeline.fleet.worker import WorkOrder, fingerprint

T = TypeVar("T")
Submit = Callable[[WorkOrder], "Future[str]"]
"""Function that sends an order to a worker, which returns the result's name."""

Told = Callable[[BaseException], BaseException]


class OrderingExecutor(Executor):
    """An executor whose workers share a storage with this process, and nothing else."""

    def __init__(self, submit: Submit, tell: Told, parcels: Parcels, run: FleetRun) -> None:
        """`tell` says errors of the fleet itself as those of this project; `parcels` are those of `run`."""
        self._submit = submit
        self._tell = tell
        self._parcels = parcels
        self._run = run
        self._names: IdentityMap[object, str] = IdentityMap()

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Order `fn(*args)`; the function and all arguments but the last are put once, however often they are given."""
        assert not kwargs
        *shared, own = (fn, *args)
        names = tuple(map(self._named, shared))
        order = WorkOrder(self._run, fingerprint(), gc.get_threshold(), names, self._parcels.pack(own))
        return _Ordered(self._submit(order), self._tell, self._parcels)

    def _named(self, value: object) -> str:
        name = self._names.get(value)
        if name is None:
            name = self._names[value] = self._parcels.put(value)
        return name


class _Ordered(Future[Any]):
    """A pending result. The first reader fetches it, not the notifying thread."""

    def __init__(self, name: Future[str], tell: Told, parcels: Parcels) -> None:
        super().__init__()
        self._name = name
        self._tell = tell
        self._parcels = parcels
        self._fetched: list[Any] = []
        name.add_done_callback(self._arrive)

    def _arrive(self, name: Future[str]) -> None:
        if name.cancelled():
            if super().cancel():
                self.set_running_or_notify_cancel()
        elif (error := name.exception()) is not None:
            self.set_exception(self._tell(error))
        else:
            self.set_result(name.result())

    def cancel(self) -> bool:
        """Cancel it, if no worker has begun."""
        return self._name.cancel()

    def result(self, timeout: float | None = None) -> Any:
        """The result itself."""
        if not self._fetched:
            try:
                self._fetched.append(self._parcels.get(super().result(timeout)))
            except CancelledError as error:
                raise ReplayError("the scheduler was lost, or forgot what it was to do: run again") from error
        return self._fetched[0]

"""A fleet of Dask workers: those of a named scheduler, or of one that is started here and stopped after use."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import ExitStack, contextmanager, suppress
from threading import Thread
from typing import cast

from replay.audit.store import Store
from replay.distribution import install_command
from replay.errors import ReplayError
from replay.pipeline.fleet.order import (
    OrderingExecutor,
    WorkOrder,
    execute_order,
    fingerprint,
    remove_worker_files,
    require_same,
)
from replay.pipeline.fleet.parcels import FleetRun, Parcels, new_run
from replay.storage.location import opened
from replay.storage.scratch import scratch

try:
    from dask import config
    from distributed import Client, KilledWorker, LocalCluster, Security
    from distributed.core import connect
except ImportError as error:  # pragma: no cover - where the extra is not installed
    raise ReplayError(f"Dask is an extra: {install_command('dask')}", path="--engine") from error

ANSWER_SECONDS = 10
"""Seconds to wait for a scheduler's answer."""
LEAVE_SECONDS = 5
"""Seconds that workers get to clean up after a run."""


class DaskFleet:
    """The workers of one scheduler. See `Fleet`."""

    def __init__(self, client: Client, stack: ExitStack) -> None:
        """Keep the client, which is connected to the scheduler. `stack` closes after the last order."""
        self.client = client
        self._stack = stack

    def executor(self, store: Store) -> Executor:
        """See `Fleet.executor`."""
        run = new_run(store.storage.location)
        storage, own = opened(run.location, self._stack), self._stack.enter_context(scratch()).resolve()
        parcels = Parcels(storage, run, own, store.segments)
        self._stack.callback(parcels.remove)
        self._stack.callback(self._leave, run)
        lent = self.client.get_executor(pure=False)

        def submit(order: WorkOrder) -> Future[str]:
            return cast("Future[str]", lent.submit(execute_order, order, key=f"replay-{order.result}"))

        return OrderingExecutor(submit, _as_own_error, parcels, run)

    def _leave(self, run: FleetRun) -> None:
        """Let idle workers drop a run. One that does not answer in time drops it at its next run."""

        def ask() -> None:
            with suppress(Exception):
                self.client.run(remove_worker_files, run, on_error="ignore")

        asking = Thread(target=ask, daemon=True)
        asking.start()
        asking.join(LEAVE_SECONDS)


def _as_own_error(error: BaseException) -> BaseException:
    """Return this project's error for a task's end."""
    if isinstance(error, KilledWorker):
        return BrokenExecutor()
    if isinstance(error, ImportError):
        return ReplayError(f"a worker cannot run this replay ({error}): use one image for all", path="--scheduler")
    return error


@contextmanager
def dask_fleet(scheduler: str, workers: int) -> Iterator[DaskFleet]:
    """Yield the fleet of a scheduler's address; without one, `workers` processes of this machine (0: one per core).

    Raise ReplayError if the scheduler does not answer or has another version.
    """
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # errors reach the waiting process anyway
    with ExitStack() as stack:
        client = stack.enter_context(_connected(scheduler) if scheduler else _started(workers))
        yield DaskFleet(client, stack)


@contextmanager
def _connected(scheduler: str) -> Iterator[Client]:
    try:
        asyncio.run(_answers(scheduler))
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ReplayError(f"no Dask scheduler answers: {reason}", path=scheduler) from error
    with Client(scheduler, set_as_default=False, timeout=ANSWER_SECONDS) as client:
        try:
            client.run_on_scheduler(require_same, fingerprint(), f"scheduler {scheduler}")
        except ReplayError:
            raise
        except Exception as error:
            reason = f"cannot run this replay ({type(error).__name__}): use one image for the scheduler and its workers"
            raise ReplayError(reason, path=scheduler) from error
        yield client


async def _answers(scheduler: str) -> None:
    """Raise a client's error without its own log lines."""
    comm = await connect(scheduler, timeout=ANSWER_SECONDS, **Security().get_connection_args("client"))
    await comm.close()


@contextmanager
def _started(workers: int) -> Iterator[Client]:
    """Yield local processes that only talk to each other, without dashboards."""
    with (
        config.set({"distributed.scheduler.http.routes": [], "distributed.worker.http.routes": []}),
        LocalCluster(
            n_workers=workers or os.cpu_count() or 1,
            threads_per_worker=1,
            dashboard_address=None,
            scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},  # it listens in any case, so give it a free port
            security=True,
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client

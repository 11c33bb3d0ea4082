"""Work on the parts of a store, in the processes of an executor: the seam at which a run can be spread further."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from functools import cache
from multiprocessing import util
from multiprocessing.connection import wait
from multiprocessing.context import BaseContext
from typing import Any, Protocol, TypeVar

from replay.audit.directory.scratch import scratch
from replay.audit.part import StorePart
from replay.errors import ReplayError

Progress = Callable[[str, int, int], None]
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
_LONGEST_TEMPORARY = 73
"""A fork server listens on a socket in a scratch directory, and the path of a socket has 107 bytes at most."""
_HAS_FORKSERVER = (
    "forkserver" in multiprocessing.get_all_start_methods()
    and len(os.fsencode(tempfile.gettempdir())) <= _LONGEST_TEMPORARY
)


class PartJob(Protocol[R_co]):
    """Work that can be done part by part, in any process."""

    def run(self, part: StorePart) -> R_co:
        """The result for one part."""
        ...


class Workers(Protocol):
    """Where work is done: `workers` processes, 0 for one for each core, unless there is an executor."""

    @property
    def workers(self) -> int:
        """How many processes."""

    @property
    def executor(self) -> Executor | None:
        """Somebody else's processes."""


_job_of_worker: PartJob[Any] | None = None


def _adopt(job: PartJob[Any], collect: tuple[int, int, int]) -> None:
    """Give a worker process its job once, instead of with every part; garbage is collected as where the job comes from."""
    global _job_of_worker  # noqa: PLW0603 - a worker has one job for its whole life
    _job_of_worker = job
    gc.set_threshold(*collect)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End a worker whose parent was killed: nobody would ever send it anything, nor end it."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _run_part(part: StorePart) -> Any:
    if _job_of_worker is None:
        raise ReplayError("a worker was started without its job")
    return _job_of_worker.run(part)


def replay_parts(job: PartJob[R], parts: Sequence[StorePart], options: Workers, progress: Progress) -> list[R]:
    """All parts, in their order, by the executor of the options, by processes of our own, or right here."""
    workers = min(options.workers or os.cpu_count() or 1, len(parts))
    if options.executor is not None:
        return _collected(options.executor, job, parts, progress)
    if workers <= 1:
        return _run_here(job, parts, progress)
    with ProcessPoolExecutor(workers, _context(), _adopt, (job, gc.get_threshold())) as pool:
        try:
            _use_scratch()
            with _deaf():
                futures = [pool.submit(_run_part, part) for part in parts]
            return _collect(futures, progress)
        except BaseException as error:
            for worker in multiprocessing.active_children():
                worker.terminate()  # parts that have begun take seconds, and nobody waits for their results any more
            # INVARIANT: no future is cancelled. The pool gives each an error when its workers are gone, and trips over others.
            if isinstance(error, BrokenPipeError | EOFError):
                raise BrokenExecutor from error  # a worker that was killed before it had its job
            raise


def _run_here(job: PartJob[R], parts: Sequence[StorePart], progress: Progress) -> list[R]:
    results = []
    for number, part in enumerate(parts):
        progress("Replaying", number, len(parts))
        results.append(job.run(part))
    return results


def prepare_workers(options: Workers) -> None:
    """Let a process without threads import what workers need while this one reads the log; workers are forked from it.

    This process itself must not be forked: DuckDB and Polars have threads, and a fork would copy their locks.
    """
    if options.executor is None and (options.workers or os.cpu_count() or 1) > 1 and _HAS_FORKSERVER:
        from multiprocessing import forkserver  # noqa: PLC0415 - not there on every system

        forkserver.set_forkserver_preload(["replay.pipeline.replay.job"])
        _use_scratch()
        with _deaf():
            forkserver.ensure_running()


@cache
def _use_scratch() -> None:
    """Let multiprocessing keep its files in a directory that the next run sweeps, should this process be killed."""
    config: dict[str, object] = multiprocessing.current_process()._config  # type: ignore[attr-defined]  # noqa: SLF001 - nothing else chooses the place
    if config.get("tempdir") is None:
        stack = ExitStack()
        config["tempdir"] = str(stack.enter_context(scratch()))
        util.Finalize(None, stack.close, exitpriority=-100)


def _context() -> BaseContext:
    return multiprocessing.get_context("forkserver" if _HAS_FORKSERVER else "spawn")


@contextmanager
def _deaf() -> Iterator[None]:
    """Let processes that begin meanwhile, and their children, not hear Ctrl-C: it comes to all, and this one ends them.

    So that it knows them all, it is itself interrupted only afterwards.
    """
    if not hasattr(signal, "pthread_sigmask") or threading.current_thread() is not threading.main_thread():
        yield
        return
    from multiprocessing import resource_tracker  # noqa: PLC0415 - not there on every system

    resource_tracker.ensure_running()  # it lets interrupts through when it begins
    heard: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, _frame: heard.append(number))
    mask = signal.pthread_sigmask(
        signal.SIG_BLOCK, {signal.SIGINT}
    )  # processes inherit it; other threads hear all the same
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, handler)
        if heard:
            signal.raise_signal(signal.SIGINT)


def _collected(executor: Executor, job: PartJob[R], parts: Sequence[StorePart], progress: Progress) -> list[R]:
    """The results of somebody else's processes; the first failure cancels what has not begun."""
    futures = [executor.submit(job.run, part) for part in parts]
    try:
        return _collect(futures, progress)
    except BaseException:
        for future in futures:
            future.cancel()
        raise


def _collect(futures: list[Future[R]], progress: Progress) -> list[R]:
    """Results in the order of the parts."""
    for number, future in enumerate(as_completed(futures), 1):
        future.result()
        progress("Replaying", number, len(futures))
    return [future.result() for future in futures]

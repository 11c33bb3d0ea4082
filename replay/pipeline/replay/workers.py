"""Work on the parts of a store, in the processes of an executor: the seam at which a run can be spread further."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import signal
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ProcessPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import ExitStack, contextmanager
from functools import cache, cached_property, partial
from multiprocessing import util
from multiprocessing.connection import wait
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, Self, TypeVar

from replay.errors import ReplayError
from replay.storage.scratch import scratch

if TYPE_CHECKING:
    # Workers are started before what reads the log is imported.
    from replay.audit.ingest import Progress
    from replay.audit.part import StorePart
    from replay.audit.store import Store

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
J = TypeVar("J")
J_contra = TypeVar("J_contra", contravariant=True)
P = TypeVar("P")
P_contra = TypeVar("P_contra", contravariant=True)
_POLL_SECONDS = 0.2
_ENDINGS = (signal.SIGINT, signal.SIGTERM, *((signal.SIGHUP,) if hasattr(signal, "SIGHUP") else ()))
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


class Fleet(Protocol):
    """Processes of other machines."""

    def executor(self, store: Store) -> Executor:
        """What does `task.run(job, part)` for parts of a store; all arguments but the last come again and again."""
        ...


class Workers(Protocol):
    """Where work is done: `workers` processes, 0 for one for each core, unless there is a fleet."""

    @property
    def workers(self) -> int:
        """How many processes."""

    @property
    def fleet(self) -> Fleet | None:
        """Somebody else's processes."""


class PartTask(Protocol[J_contra, P_contra, R_co]):
    """One of several things to do with parts, or with what is to be done of each, for whoever has the job that they share."""

    def run(self, job: J_contra, part: P_contra) -> R_co:
        """The result for one part."""
        ...


_job_of_worker: Any = None
_task_of_worker: tuple[Path, PartTask[Any, Any, Any]] | None = None


def _adopt(job: Any, collect: tuple[int, int, int]) -> None:
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


def _run_part(task: Path, part: object) -> Any:
    if _job_of_worker is None:
        raise ReplayError("a worker was started without its job")
    return _task(task).run(_job_of_worker, part)


def _task(path: Path) -> PartTask[Any, Any, Any]:
    """What a worker does with one part after the other."""
    global _task_of_worker  # noqa: PLW0603 - as above
    if _task_of_worker is None or _task_of_worker[0] != path:
        _task_of_worker = None  # each may be as large as the log: the last one goes before the next comes
        # Our own parent wrote it, in a directory that only this user may read.
        with path.open("rb") as file:
            _task_of_worker = path, pickle.load(file)  # noqa: S301
    return _task_of_worker[1]


def _rest() -> None:
    """What the first process does while others work, if it has nothing to do."""


class Crew(Generic[J]):
    """The processes of a run, which are given its job once and then do one thing after another; none where it is not worth it."""

    def __init__(self, store: Store, job: Callable[[], J], options: Workers) -> None:
        """`job` makes the job when it is first needed; use `with`."""
        self._store = store
        self._make = job
        self._options = options
        self._pool: ProcessPoolExecutor | None = None
        self._stack = ExitStack()

    @cached_property
    def job(self) -> J:
        """The job."""
        return self._make()

    @cached_property
    def _executor(self) -> Executor | None:
        fleet = self._options.fleet
        return fleet.executor(self._store) if fleet is not None else None

    def __enter__(self) -> Self:
        """The crew itself."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Let the processes end."""
        self._stack.close()

    def run(
        self, task: PartTask[J, P, R], parts: Sequence[P], progress: Progress, meanwhile: Callable[[], object] = _rest
    ) -> list[R]:
        """All parts, in their order, by a fleet, by processes of our own, or right here, as what is one part always is.

        `meanwhile` is called here once others have begun, and not at all where there are none.
        """
        return list(self.results(task, parts, progress, meanwhile))

    def results(
        self, task: PartTask[J, P, R], parts: Sequence[P], progress: Progress, meanwhile: Callable[[], object] = _rest
    ) -> Generator[R, None, None]:
        """As `run`, one after the other: a result is held no longer than until it is taken. Whoever stops early closes it."""
        job, executor = self.job, self._executor
        if executor is not None and len(parts) > 1:
            run = task.run  # one value, which the executor knows again
            yield from _collected(lambda part: executor.submit(run, job, part), parts, progress, meanwhile)
            return
        workers = min(self._options.workers or os.cpu_count() or 1, len(parts))
        if self._pool is None and workers <= 1:
            yield from _run_here(partial(task.run, job), parts, progress)
            return
        if self._pool is None:
            pool = ProcessPoolExecutor(workers, _context(), _adopt, (job, gc.get_threshold()))
            self._pool = self._stack.enter_context(pool)
        with scratch() as directory:
            # In a file, since a task may grow with the log, and so do the parts: sent with each of them, it would be the most of a run.
            path = directory / "task"
            with path.open("wb") as file:
                pickle.dump(task, file, pickle.HIGHEST_PROTOCOL)
            pool = self._pool
            yield from self._run_there(lambda part: pool.submit(_run_part, path, part), parts, progress, meanwhile)

    @staticmethod
    def _run_there(
        submit: Callable[[object], Future[Any]],
        parts: Sequence[object],
        progress: Progress,
        meanwhile: Callable[[], object],
    ) -> Iterator[Any]:
        try:
            _use_scratch()
            with _deaf():
                futures = deque(map(submit, parts))
            meanwhile()
            yield from _in_order(futures, progress)
        except BaseException as error:
            for worker in multiprocessing.active_children():
                worker.terminate()  # parts that have begun take seconds, and nobody waits for their results any more
            # INVARIANT: no future is cancelled. The pool gives each an error when its workers are gone, and trips over others.
            if isinstance(error, BrokenPipeError | EOFError):
                raise BrokenExecutor from error  # a worker that was killed before it had its job
            raise


class Whole(NamedTuple):
    """All that a job has to do: the only task of most."""

    def run(self, job: PartJob[R], part: StorePart) -> R:
        """The result for one part."""
        return job.run(part)


def replay_parts(job: PartJob[R], store: Store, options: Workers, progress: Progress) -> list[R]:
    """What is done once, for all parts of a store in their order."""
    with Crew(store, lambda: job, options) as crew:
        return crew.run(Whole(), [store.part(number) for number in range(store.parts)], progress)


def _run_here(run: Callable[[P], R], parts: Sequence[P], progress: Progress) -> Iterator[R]:
    for number, part in enumerate(parts):
        progress("Replaying", number, len(parts))
        yield run(part)


def prepare_workers(options: Workers) -> None:
    """Let a process without threads import what workers need while this one reads the log; workers are forked from it.

    This process itself must not be forked: DuckDB and Polars have threads, and a fork would copy their locks.
    """
    if options.fleet is None and (options.workers or os.cpu_count() or 1) > 1 and _HAS_FORKSERVER:
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

    So that it knows them all, and each has got all that it is given, it is itself interrupted or terminated only afterwards.
    """
    if not hasattr(signal, "pthread_sigmask") or threading.current_thread() is not threading.main_thread():
        yield
        return
    from multiprocessing import resource_tracker  # noqa: PLC0415 - not there on every system

    resource_tracker.ensure_running()  # it lets interrupts through when it begins
    heard: list[int] = []
    handlers = {each: signal.signal(each, lambda number, _frame: heard.append(number)) for each in _ENDINGS}
    mask = signal.pthread_sigmask(
        signal.SIG_BLOCK, {signal.SIGINT}
    )  # processes inherit it; other threads hear all the same
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number in dict.fromkeys(heard):
            signal.raise_signal(number)


def _collected(
    submit: Callable[[P], Future[R]], parts: Sequence[P], progress: Progress, meanwhile: Callable[[], object]
) -> Iterator[R]:
    """The results of somebody else's processes; the first failure cancels what has not begun."""
    progress("Replaying", 0, len(parts))  # it may take a while until anybody begins
    futures = deque(submit(part) for part in parts)
    try:
        meanwhile()
        yield from _in_order(futures, progress)
    except BaseException:
        for future in futures:
            future.cancel()
        raise


def _in_order(futures: deque[Future[R]], progress: Progress) -> Iterator[R]:
    """Results in the order of the parts, as soon as those before them are there; they are taken out of `futures`."""
    total = len(futures)
    for number, future in enumerate(completed(futures), 1):
        future.result()
        progress("Replaying", number, total)
        while futures and futures[0].done():
            yield futures.popleft().result()


def completed(futures: Iterable[Future[R]]) -> Iterator[Future[R]]:
    """Futures as they end; whoever waits hears an interrupt now and then, whichever thread the system tells it."""
    waiting = set(futures)
    while waiting:
        finished, waiting = wait_for(waiting, timeout=_POLL_SECONDS, return_when=FIRST_COMPLETED)
        yield from finished

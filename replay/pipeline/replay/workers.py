"""Work on the parts of a store in the processes of an executor. A fleet can spread a run over more machines here."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ProcessPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import ExitStack, contextmanager
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, Self, TypeVar

from replay.on_demand import before_engines
from replay.pipeline.processes import (
    begin,
    can_fork,
    forked,
    independent_context,
    preload,
    shielded_from_signals,
    use_scratch,
)
from replay.storage.scratch import scratch

if TYPE_CHECKING:
    # Workers are started before the reader of the log is imported.
    from replay.audit.ingest import Progress
    from replay.audit.part import StorePart
    from replay.audit.store import Store

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
J = TypeVar("J")
J_contra = TypeVar("J_contra", contravariant=True)
P = TypeVar("P")
P_contra = TypeVar("P_contra", contravariant=True)
S = TypeVar("S", bound="Divisible")
_POLL_SECONDS = 0.2
_PARTS_FOR_EACH = 4
"""Number of parts for each process down to which small ones are joined."""
MOST_FORKED = 4
"""Number of workers that are forked before the number of parts is known."""


class PartJob(Protocol[R_co]):
    """Work that can be done part by part, in any process."""

    def run(self, part: StorePart) -> R_co:
        """Return the result for one part."""
        ...


class Fleet(Protocol):
    """Processes of other machines."""

    def executor(self, store: Store) -> Executor:
        """Return an executor for `task.run(job, part)`. All arguments but the last repeat."""
        ...


class Workers(Protocol):
    """Place of work: `workers` processes, 0 for one per core, unless there is a fleet."""

    @property
    def workers(self) -> int:
        """Return the number of processes."""

    @property
    def fleet(self) -> Fleet | None:
        """Return the processes of other machines, if any."""


class Divisible(Protocol):
    """Work that can be divided into equal shares."""

    def shares(self, total: int, /) -> Sequence[Self]:
        """Return equal shares that together are the whole."""
        ...


class PartTask(Protocol[J_contra, P_contra, R_co]):
    """One of several tasks on parts, for the holder of a shared job."""

    def run(self, job: J_contra, part: P_contra) -> R_co:
        """Return the result for one part."""
        ...


class _Order(NamedTuple):
    """Work for a worker: files with the job and the task, each read once for all parts.

    Both may grow with the log, and so does the number of parts. Sending them with each part would dominate a run.
    """

    job: Path
    task: Path

    def run(self, part: object) -> Any:
        """Return the result for one part, in a worker."""
        task: PartTask[Any, Any, Any] = _content("task", self.task)
        return task.run(_content("job", self.job), part)


_contents: dict[str, tuple[Path, Any]] = {}
"""Last values that this worker read, by kind."""


def _content(kind: str, path: Path) -> Any:
    """Return a file's value. It replaces the last value of its kind."""
    if kind not in _contents or _contents[kind][0] != path:
        _contents.pop(kind, None)
        # The parent process wrote it, into a directory that only this user may read.
        with path.open("rb") as file:
            _contents[kind] = path, pickle.load(file)  # noqa: S301
    return _contents[kind][1]


def _written(value: object, path: Path) -> Path:
    with path.open("wb") as file:
        pickle.dump(value, file, pickle.HIGHEST_PROTOCOL)
    return path


def _begin_worker(collect: tuple[int, int, int]) -> None:
    """Begin as a worker, with the garbage collection thresholds of the parent."""
    begin()
    gc.set_threshold(*collect)


class _Reserve:
    """Workers that are forked when they are needed, or before this process uses an engine."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.pool: ProcessPoolExecutor | None = None

    def fork(self) -> None:
        """Fork the workers, unless they are there."""
        if self.pool is None:
            # No collection looks at what exists now, here or in a worker, which would have to copy all of it.
            gc.freeze()
            self.pool = ProcessPoolExecutor(self.size, forked(), _begin_worker, (gc.get_threshold(),))
            with shielded_from_signals(endings=True):  # interrupts are delivered afterwards
                self.pool.submit(os.getpid)  # the first task starts all workers


_reserve: list[_Reserve] = []
"""At most one reserve."""


@contextmanager
def forked_workers(options: Workers) -> Iterator[None]:
    """Fork the workers of a run as late as possible, so they share what this process has imported, loaded and compiled.

    If they cannot be forked, or may be many, they begin later, one per part at most.
    """
    if not are_forked(options):
        yield
        return
    reserve = _Reserve(_size(options))
    _reserve.append(reserve)
    try:
        with before_engines(reserve.fork):
            yield
    finally:
        _reserve.clear()
        if reserve.pool is not None:
            reserve.pool.shutdown()
            gc.unfreeze()  # DuckDB lists what no collection finds at the end of the process as leaks


def prepare_workers(options: Workers) -> None:
    """Import what workers need to replay a log. They are forked from this process, or from another one without threads.

    That one imports while this one reads the log.
    """
    if are_forked(options):
        for package in ("duckdb", "polars"):
            import_module(package)
    elif options.fleet is None and _size(options) > 1 and not _reserve:
        preload("replay.pipeline.replay.job")


def _size(options: Workers) -> int:
    return options.workers or os.cpu_count() or 1


def are_forked(options: Workers) -> bool:
    """Return whether the workers can be forked, and are so few that forking costs less than it saves."""
    return options.fleet is None and 1 < _size(options) <= MOST_FORKED and can_fork()


def _rest() -> None:
    """Do nothing while the workers run."""


class WorkerPool(Generic[J]):
    """The processes of a run, which get its job once and then do task after task. Small runs have none."""

    def __init__(self, store: Store, job: Callable[[], J], options: Workers) -> None:
        """Prepare a pool. `job` makes the job when it is first needed. Use the pool in `with`."""
        self._store = store
        self._make = job
        self._options = options
        self._pool: ProcessPoolExecutor | None = None
        self._stack = ExitStack()

    @cached_property
    def job(self) -> J:
        """Return the job."""
        return self._make()

    @cached_property
    def _executor(self) -> Executor | None:
        fleet = self._options.fleet
        return fleet.executor(self._store) if fleet is not None else None

    def __enter__(self) -> Self:
        """Return the pool itself."""
        return self

    def __exit__(self, *_error: object) -> None:
        """End the processes."""
        _contents.clear()
        self._stack.close()

    def run(
        self, task: PartTask[J, P, R], parts: Sequence[P], progress: Progress, meanwhile: Callable[[], object] = _rest
    ) -> list[R]:
        """Return the results of all parts in order, from a fleet, local processes, or this process for one part.

        `meanwhile` is called here once the others have begun, and never without others.
        """
        return list(self.results(task, parts, progress, meanwhile))

    def results(
        self, task: PartTask[J, P, R], parts: Sequence[P], progress: Progress, meanwhile: Callable[[], object] = _rest
    ) -> Generator[R, None, None]:
        """Yield results as `run`, one at a time, without keeping them. Close the generator to stop early."""
        job, executor = self.job, self._executor
        if executor is not None and len(parts) > 1:
            run = task.run  # one object, which the executor recognizes
            yield from _collected(lambda part: executor.submit(run, job, part), parts, progress, meanwhile)
            return
        workers = min(_size(self._options), len(parts))
        if workers <= 1:
            yield from _run_here(partial(task.run, job), parts, progress)
            return
        if self._pool is None:
            _contents["job"] = self._job_path, job  # workers that are forked now need not read it
            self._pool = self._stack.enter_context(_pool(workers))
        pool = self._pool
        with scratch() as directory:
            order = _Order(self._job_path, _written(task, directory / "task"))
            yield from self._run_there(lambda part: pool.submit(order.run, part), parts, progress, meanwhile)

    def parts(self) -> list[StorePart]:
        """Return the parts of the store: for a fleet, which knows them by their numbers, and for processes of this machine.

        These get small neighbours as one. A few for each process keep all of them busy to the end.
        """
        store = self._store
        if self._options.fleet is not None:
            return [store.part(number) for number in range(store.parts)]
        return store.joined_parts(_PARTS_FOR_EACH * _size(self._options))

    def shared(self, parts: Sequence[S]) -> list[S]:
        """Return parts that keep all local processes busy to the end.

        If the last parts are fewer than the processes, they are divided into a share for each process. After other
        parts, which are not equally large, there are two for each.
        """
        workers = _size(self._options)
        rest = len(parts) % workers
        shares = 2 * workers if len(parts) > rest else workers
        total = shares // rest if rest else 1
        if self._options.fleet is not None or len(parts) == 1 or total == 1:
            return list(parts)
        return [*parts[:-rest], *(share for part in parts[-rest:] for share in part.shares(total))]

    @cached_property
    def _job_path(self) -> Path:
        """Return the file with the job, which exists as long as the pool is open."""
        return _written(self.job, self._stack.enter_context(scratch()) / "job")

    @staticmethod
    def _run_there(
        submit: Callable[[object], Future[Any]],
        parts: Sequence[object],
        progress: Progress,
        meanwhile: Callable[[], object],
    ) -> Iterator[Any]:
        try:
            use_scratch()
            with shielded_from_signals():
                futures = deque(map(submit, parts))
            meanwhile()
            yield from _in_order(futures, progress)
        except BaseException as error:
            for worker in multiprocessing.active_children():
                worker.terminate()  # running parts take seconds, and their results are no longer needed
            # INVARIANT: no future is cancelled. The pool sets an error on each when its workers end, and fails on a
            # cancelled one.
            if isinstance(error, BrokenPipeError | EOFError):
                raise BrokenExecutor from error  # a worker was killed before it got its job
            raise


class RunPart(NamedTuple):
    """The only task of most jobs: run it on a part."""

    def run(self, job: PartJob[R], part: StorePart) -> R:
        """Return the result for one part."""
        return job.run(part)


def replay_parts(job: PartJob[R], store: Store, options: Workers, progress: Progress) -> list[R]:
    """Run a job once on all parts of a store, in order."""
    with WorkerPool(store, lambda: job, options) as worker_pool:
        return worker_pool.run(RunPart(), [store.part(number) for number in range(store.parts)], progress)


def _run_here(run: Callable[[P], R], parts: Sequence[P], progress: Progress) -> Iterator[R]:
    for number, part in enumerate(parts):
        progress("Replaying", number, len(parts))
        yield run(part)


def _pool(workers: int) -> ProcessPoolExecutor:
    """Return idle processes: forked ones if they suffice and are free."""
    if _reserve and _reserve[0].size >= workers:
        reserve = _reserve.pop()
        reserve.fork()
        assert reserve.pool is not None
        return reserve.pool
    return ProcessPoolExecutor(workers, independent_context(), _begin_worker, (gc.get_threshold(),))


def _collected(
    submit: Callable[[P], Future[R]], parts: Sequence[P], progress: Progress, meanwhile: Callable[[], object]
) -> Iterator[R]:
    """Yield the results of a fleet. The first failure cancels orders that have not begun."""
    progress("Replaying", 0, len(parts))  # the first worker may take a while to begin
    futures = deque(submit(part) for part in parts)
    try:
        meanwhile()
        yield from _in_order(futures, progress)
    except BaseException:
        for future in futures:
            future.cancel()
        raise


def _in_order(futures: deque[Future[R]], progress: Progress) -> Iterator[R]:
    """Yield the results in the order of the parts, and remove them from `futures`.

    A result comes as soon as all parts before it are done.
    """
    total = len(futures)
    for number, future in enumerate(completed(futures), 1):
        future.result()
        progress("Replaying", number, total)
        while futures and futures[0].done():
            yield futures.popleft().result()


def completed(futures: Iterable[Future[R]]) -> Iterator[Future[R]]:
    """Yield futures as they complete. The wait wakes regularly, so that interrupts are noticed."""
    waiting = set(futures)
    while waiting:
        finished, waiting = wait_for(waiting, timeout=_POLL_SECONDS, return_when=FIRST_COMPLETED)
        yield from finished

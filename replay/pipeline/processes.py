"""Processes of a command: how they begin and end, and where they report their progress.

This module imports nothing that reads logs or decides, because processes start before that.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from multiprocessing import util
from multiprocessing.connection import wait
from multiprocessing.context import BaseContext
from pathlib import Path

from replay.storage.scratch import scratch

VARIABLE = "REPLAY_PROGRESS_FILE"
_SECONDS = 0.5
"""Least seconds between two writes of the file."""


def progress_to(path: Path) -> Callable[[str, int, int], None]:
    """Return a function that reports progress. An unwritable file is ignored."""
    last = [0.0]

    def report(what: str, count: int, total: int) -> None:
        now = time.monotonic()
        if now - last[0] >= _SECONDS:
            last[0] = now
            with suppress(OSError):
                path.write_text(json.dumps([what, count, total]), encoding="utf-8")

    return report


def read_progress(path: Path) -> tuple[str, int, int]:
    """Return activity, amount done and total, empty if nothing is known yet."""
    try:
        what, done, total = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return "", 0, 0
    return str(what), int(done), int(total)


_ENDINGS = (signal.SIGINT, signal.SIGTERM, *((signal.SIGHUP,) if hasattr(signal, "SIGHUP") else ()))
_LONGEST_TEMPORARY = 73
"""Longest path of a temporary directory.

A fork server's socket is below it, and the path of a socket has at most 107 bytes.
"""
_HAS_FORKSERVER = (
    "forkserver" in multiprocessing.get_all_start_methods()
    and len(os.fsencode(tempfile.gettempdir())) <= _LONGEST_TEMPORARY
)
_TASKS = Path("/proc/self/task")
_MAY_FORK: ContextVar[bool] = ContextVar("_MAY_FORK", default=False)


@contextmanager
def forking() -> Iterator[None]:
    """Allow forks of this process, from the start of a command until it first uses an engine.

    Forks need a process with one thread, which a notebook does not have. macOS can fork, but its libraries do not
    support it.
    """
    token = _MAY_FORK.set(sys.platform == "linux" and _TASKS.is_dir() and len(list(_TASKS.iterdir())) == 1)
    try:
        yield
    finally:
        _MAY_FORK.reset(token)


def can_fork() -> bool:
    """Return whether `forked` may be used here."""
    return _MAY_FORK.get()


def forked() -> BaseContext:
    """Return a context for forked processes, with all imports of this one.

    INVARIANT: the process `can_fork` and has not used DuckDB or Polars, because a fork would copy their locks.
    Importing them is fine.
    """
    return multiprocessing.get_context("fork")


def independent_context() -> BaseContext:
    """Return a context for processes that may start any time.

    Import the modules that they need, or get them from a fork server.
    """
    return multiprocessing.get_context("forkserver" if _HAS_FORKSERVER else "spawn")


def preload(module: str) -> None:
    """Import a module in a process without threads meanwhile; processes of `apart` are forked from it."""
    if _HAS_FORKSERVER:
        from multiprocessing import forkserver  # noqa: PLC0415 - not there on every system

        forkserver.set_forkserver_preload([module])
        use_scratch()
        with shielded_from_signals():
            forkserver.ensure_running()


def begin() -> None:
    """Prepare each process: end on request, and with the parent."""
    for ending in _ENDINGS:
        if signal.getsignal(ending) is not signal.SIG_IGN:
            signal.signal(ending, signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, set(_ENDINGS) - {signal.SIGINT})
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End a process whose parent was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


@cache
def use_scratch() -> None:
    """Keep multiprocessing's files in a directory that the next run removes if this process is killed."""
    config: dict[str, object] = multiprocessing.current_process()._config  # type: ignore[attr-defined]  # noqa: SLF001 - nothing else chooses the place
    if config.get("tempdir") is None:
        stack = ExitStack()
        config["tempdir"] = str(stack.enter_context(scratch()))
        util.Finalize(None, stack.close, exitpriority=-100)


@contextmanager
def shielded_from_signals(*, endings: bool = False) -> Iterator[None]:
    """Shield new processes and their children from Ctrl-C, because this process ends them.

    This process is interrupted only afterwards, when it knows them all. With `endings` they ignore other signals too
    until they `begin`. Before that they have this process's handlers.
    """
    if not hasattr(signal, "pthread_sigmask") or threading.current_thread() is not threading.main_thread():
        yield
        return
    from multiprocessing import resource_tracker  # noqa: PLC0415 - not there on every system

    resource_tracker.ensure_running()  # it unblocks signals when it starts
    heard: list[int] = []
    heeded = [
        each for each in _ENDINGS if signal.getsignal(each) is not signal.SIG_IGN
    ]  # an ignored signal stays ignored, as under `nohup`
    handlers = {each: signal.signal(each, lambda number, _frame: heard.append(number)) for each in heeded}
    blocked = set(_ENDINGS) if endings else {signal.SIGINT}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, blocked)  # child processes inherit the mask, other threads do not
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number in dict.fromkeys(heard):
            signal.raise_signal(number)

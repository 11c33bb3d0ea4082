"""The entry point: `replay`, and `python -m replay`."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
from contextlib import suppress

RARELY = (500_000, 20, 1000)
"""How many new objects call for a garbage collection: there are no large cycles, and looking for them took 5 % of a run."""
_INTERRUPTED = 130

# Polars reads parts, and each process reads its own: with a thread for each core in each process they wait for each other. It looks
# when it is imported.
os.environ.setdefault("POLARS_MAX_THREADS", "1")


def _end(_number: int, _frame: object) -> None:
    """End the process at once. A traceback from half an import helps no one."""
    os.write(2, b"replay: interrupted; nothing was written\n")
    os._exit(_INTERRUPTED)


def _leave(codes: list[int]) -> None:
    """End the process with the exit code of a finished command, after all other exit handlers.

    Otherwise Python frees every object of the run first, which takes up to a fifth of a second.
    """
    for code in codes:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):  # what it means that nobody reads was decided by the command
                stream.flush()
        os._exit(code)


def main() -> None:
    """Run the command line. The import takes a moment, and Ctrl-C ends it here."""
    heard = signal.signal(signal.SIGINT, _end)
    gc.set_threshold(*RARELY)
    codes: list[int] = []
    atexit.register(_leave, codes)  # what is registered first is called last
    from replay.cli.app import main as run  # noqa: PLC0415

    signal.signal(signal.SIGINT, heard)
    try:
        run()
    except SystemExit as ended:
        codes.append(ended.code if isinstance(ended.code, int) else int(ended.code is not None))
        raise


if __name__ == "__main__":
    main()

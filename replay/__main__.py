"""The entry point: `replay`, and `python -m replay`."""

from __future__ import annotations

import os
import signal

_INTERRUPTED = 130


def _end(_number: int, _frame: object) -> None:
    """End at once: nothing has begun, and a traceback of half an import tells nobody anything."""
    os.write(2, b"replay: interrupted; nothing was written\n")
    os._exit(_INTERRUPTED)


def main() -> None:
    """Run the command line; importing it takes a moment, in which Ctrl-C is answered here."""
    heard = signal.signal(signal.SIGINT, _end)
    from replay.cli.app import main as run  # noqa: PLC0415

    signal.signal(signal.SIGINT, heard)
    run()


if __name__ == "__main__":
    main()

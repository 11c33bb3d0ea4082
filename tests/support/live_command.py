"""`replay ingest --follow` or `--listen` in a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Self

PATIENCE_SECONDS = 120.0
_LISTENING = "listening at "


class LiveCommand:
    """The command; `told` are the lines it has written to stderr so far."""

    def __init__(self, arguments: Sequence[object], program: Sequence[str] = ("-m", "replay", "ingest")) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *program, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.told: list[str] = []
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.told.append(line.rstrip("\n"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.kill()
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.process.stdout.close()
        self._reader.join(PATIENCE_SECONDS)
        self.process.stderr.close()

    def wait_for(self, beginning: str, times: int = 1) -> str:
        """The last of so many lines that begin so, as soon as it is told."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            is_ended = self.process.poll() is not None
            found = [line for line in self.told if line.startswith(beginning)]
            if len(found) >= times:
                return found[times - 1]
            if is_ended:
                self._reader.join(PATIENCE_SECONDS)
                if not [line for line in self.told if line.startswith(beginning)]:
                    break
            time.sleep(0.02)
        raise AssertionError(f"`{beginning}` was not told, but {self.told}")

    def url(self) -> str:
        """Where it listens."""
        return self.wait_for(_LISTENING).removeprefix(_LISTENING)

    def kill(self) -> None:
        """End it as a loss of power would."""
        self.process.kill()
        self.process.wait(PATIENCE_SECONDS)

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """End it as an operator does; the exit code, and what it printed."""
        self.process.send_signal(number)
        self.process.wait(PATIENCE_SECONDS)
        assert self.process.stdout is not None
        out = self.process.stdout.read()
        self._reader.join(PATIENCE_SECONDS)
        return self.process.returncode, out


def audit_ids(store: Path) -> list[str]:
    """The auditID of each request of a store."""
    from replay.audit.store import Store  # noqa: PLC0415 - whoever starts commands may have no need of it

    with Store.open(store) as opened:
        return [str(row[0]) for row in opened.sql("select audit_id from request").iter_rows()]

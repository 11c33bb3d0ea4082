"""Run a command and watch all its processes: wall time, CPU and resident memory, of Linux `/proc`.

    python tests/bench/watch.py COMMAND...

Workers are no children of the process that asks for them, so `wait` tells nothing of them; they share its session.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

_TICK = os.sysconf("SC_CLK_TCK")
_INTERVAL = 0.1
_SESSION, _USER, _SYSTEM = 3, 11, 12
"""Fields of `/proc/PID/stat` after the name of the command."""


class Measured(NamedTuple):
    """Seconds, and MiB: of the largest process at its peak, and of all processes together at theirs."""

    wall: float
    cpu: float
    largest: float
    together: float
    code: int
    output: str


def watched(command: list[str]) -> Measured:
    """Run a command to its end; `output` is what it wrote to standard output."""
    start = time.perf_counter()
    cpu: dict[int, float] = {}
    peaks: dict[int, float] = {}
    together = 0.0
    with (
        tempfile.TemporaryFile("w+") as file,  # nobody reads a pipe meanwhile, and it holds 64 KiB
        subprocess.Popen(command, stdout=file, text=True, start_new_session=True) as process,
    ):
        while process.poll() is None:
            now = 0.0
            for pid in session(process.pid):
                if found := _status(pid):
                    cpu[pid], resident, peaks[pid] = found
                    now += resident
            together = max(together, now)
            time.sleep(_INTERVAL)
        wall = time.perf_counter() - start
        file.seek(0)
        output = file.read()
    return Measured(wall, sum(cpu.values()), max(peaks.values(), default=0), together, process.returncode, output)


def session(leader: int) -> list[int]:
    """The processes of a session."""
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [pid for pid in pids if _stat(pid)[_SESSION : _SESSION + 1] == [str(leader)]]


def _stat(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return []


def _status(pid: int) -> tuple[float, float, float] | None:
    """CPU seconds, resident MiB and the peak of it; None for a process that is gone."""
    stat = _stat(pid)
    try:
        text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return None
    memory = {line.partition(":")[0]: int(line.split()[1]) / 1024 for line in text.splitlines() if line[:2] == "Vm"}
    if not stat or "VmRSS" not in memory:
        return None
    return (int(stat[_USER]) + int(stat[_SYSTEM])) / _TICK, memory["VmRSS"], memory["VmHWM"]


def main() -> None:
    """The command line."""
    found = watched(sys.argv[1:])
    sys.stdout.write(found.output)
    sys.stdout.write(
        f"exit {found.code}, {found.wall:.1f} s, {found.cpu:.1f} s of CPU, "
        f"largest process {found.largest:.0f} MiB, together {found.together:.0f} MiB\n"
    )


if __name__ == "__main__":
    main()

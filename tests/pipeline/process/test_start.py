"""Whether a process may fork others."""

from __future__ import annotations

import subprocess
import sys

import pytest

ASK = "from replay.pipeline.processes import can_fork, forking\nwith forking(): print(can_fork())\nprint(can_fork())"


@pytest.mark.skipif(sys.platform != "linux", reason="libraries of other systems do not bear a fork")
@pytest.mark.parametrize(
    ("before", "can"),
    [
        ("", True),
        ("import replay.cli.run", True),
        (
            "import threading\nended = threading.Event()\nthreading.Thread(target=ended.wait, daemon=True).start()",
            False,
        ),
        ("import polars\npolars.DataFrame({'a': [1]}).lazy().collect()", False),
        ("import duckdb\nconnection = duckdb.connect()", False),
    ],
    ids=["nothing done", "a command about to begin", "a thread of Python", "Polars was asked", "DuckDB was asked"],
)
def test_only_a_process_of_one_thread_forks(before: str, can: bool) -> None:
    told = subprocess.run([sys.executable, "-c", f"{before}\n{ASK}"], capture_output=True, text=True, check=True)
    assert told.stdout == f"{can}\nFalse\n"

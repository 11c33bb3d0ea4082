"""What is said where there is no fleet: one line."""

from __future__ import annotations

import socket
import subprocess
import sys
from concurrent.futures import BrokenExecutor
from pathlib import Path

import pytest
from distributed import KilledWorker

from replay.errors import ReplayError
from replay.pipeline.fleet import dask
from replay.pipeline.fleet.dask import dask_fleet


def nobody() -> str:
    """An address at which nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{free.getsockname()[1]}"


@pytest.mark.parametrize(
    ("address", "told"),
    [
        (
            "",
            r"^tcp://127\.0\.0\.1:\d+: no Dask scheduler answers: Timed out trying to connect to tcp:\S+ after \S+ s$",
        ),
        ("scheduler", r"^scheduler: no Dask scheduler answers: missing port number in address 'scheduler'$"),
        ("http://scheduler", r"^http://scheduler: no Dask scheduler answers: unknown address scheme 'http' .*$"),
        ("tls://127.0.0.1:8786", r"^tls://127.0.0.1:8786: no Dask scheduler answers: TLS expects .*$"),
    ],
    ids=["nobody there", "no port", "another scheme", "no certificate"],
)
def test_no_scheduler(address: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask, "ANSWER_SECONDS", 0.2)
    with pytest.raises(ReplayError, match=told), dask_fleet(address or nobody(), 0):
        pytest.fail("somebody answered")


def test_without_the_extra(tmp_path: Path) -> None:
    script = "import sys; sys.modules['distributed'] = None; from replay.cli.app import main; main()"
    words = ["ingest", "log.jsonl", "--store", "store", "--engine", "dask"]
    done = subprocess.run(
        [sys.executable, "-c", script, *words], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    told = "replay: --engine: Dask is an extra: pip install 'kube-replay[dask]'\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", told)


@pytest.mark.parametrize(
    ("error", "kind", "told"),
    [
        (KilledWorker("replay-0", "tcp://a:1", 3), BrokenExecutor, ""),
        (ModuleNotFoundError("No module named 'replay'"), ReplayError, "a worker cannot run this replay"),
        (ReplayError("damaged", path="store.json"), ReplayError, "damaged"),
    ],
    ids=["lost again and again", "no replay there", "an error of its own"],
)
def test_what_became_of_a_task(error: Exception, kind: type[Exception], told: str) -> None:
    found = dask._as_own_error(error)
    assert isinstance(found, kind)
    assert told in repr(found)

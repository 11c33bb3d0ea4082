"""`replay ingest --follow` and `--listen`: options that do not go together."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from replay.cli.app import app
from replay.errors import ReplayError

UNUSABLE = {
    "two logs": (["log", "--listen", "127.0.0.1:0"], "--listen stands for the log: leave out LOG, --from and --follow"),
    "no log": ([], "no log: give log files, or --listen"),
    "standard input": (["-", "--follow"], "standard input is not followed: name files, directories or patterns"),
    "certificates of nobody": (["log", "--tls-cert-file", "a"], "certificates are for --listen"),
    "no age": (["log", "--follow", "--flush-age", "soon"], "no length of time `soon`: write 30s, 5m, 1h"),
    "an age that no clock has": (
        ["log", "--follow", "--flush-age", "9999999999999w"],
        "no length of time `9999999999999w`: write 30s, 5m, 1h",
    ),
    "an engine of many": (
        ["log", "--follow", "--engine", "dask"],
        "--engine: a live log is read by one process: leave it out",
    ),
    "no size": (["log", "--follow", "--flush-size", "big"], "no size `big`: write 500MB, 50GB, 2TB"),
    "nothing to keep": (
        ["log", "--follow", "--keep", "long"],
        "no time `long`: write 7d, 12h, 30m, or a time such as 2026-11-21T03:00:00Z",
    ),
    "forgotten by the way": (
        ["log", "--keep", "7d"],
        "--keep and --keep-size go with --follow and --listen: `replay store prune` forgets at once",
    ),
    "a bucket": (
        ["--listen", "127.0.0.1:0", "--store", "s3://bucket/store"],
        "what is received is kept on a disk first: listen with a store in a directory",
    ),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_unusable(name: str, tmp_path: Path) -> None:
    arguments, told = UNUSABLE[name]
    store = [] if "--store" in arguments else ["--store", str(tmp_path / "store")]
    result = CliRunner().invoke(app, ["ingest", *arguments, *store])
    assert isinstance(result.exception, ReplayError)
    assert (str(result.exception), result.exception.exit_code) == (told, 2)

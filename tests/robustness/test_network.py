"""No command opens a network connection unasked: each runs where the kernel refuses every internet socket."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import orjson
import pytest
from typer.main import get_command

from replay.cli.app import app
from tests.robustness import no_network

ROOT = Path(__file__).parents[2]
SAMPLE = Path("sample")
"""The beginning of the sample, in the directory in which commands run."""
REFUSED = [sys.executable, str(Path(no_network.__file__))]
LOG, CURRENT, CANDIDATE = str(SAMPLE), str(SAMPLE / "current"), str(SAMPLE / "candidate")
SNAPSHOT = str(SAMPLE / "cluster.jsonl.zst")
AUDIT_ID = "7a520508-edb6-4697-9ba9-e316ef3e533a"

COMMANDS: list[tuple[str, list[str]]] = [
    ("run", ["run", LOG, "--report", "report", "--outcomes", "outcomes.jsonl", "--rejects", "rejects"]),
    ("run with a store", ["run", LOG, "--store", "store"]),
    ("run with recorded answers", ["run", LOG, "--webhook", "before.recorder.example.com=recorded"]),
    ("init", ["init", str(SAMPLE), "--print"]),
    ("accept", ["accept", LOG, "--reason", "meant", "--print"]),
    ("manual", ["manual", "manual"]),
    ("verify", ["verify", LOG, "--second-opinion"]),
    ("report", ["report", LOG, "--out", "weekly"]),
    ("promote", ["promote", "team-label", LOG]),
    ("lookup", ["lookup", LOG, "--action", "warn"]),
    ("explain", ["explain", AUDIT_ID, LOG]),
    ("timeline", ["timeline", "Deployment", "team-a/app-128", LOG]),
    ("mutations", ["mutations", LOG]),
    ("coverage", ["coverage", LOG]),
    ("sql", ["sql", "decisions_by_policy", LOG]),
    ("sql of a web page", ["sql", "select * from 'https://example.com/a.parquet'", LOG, "--no-redact"]),
    ("ingest", ["ingest", str(SAMPLE / "audit.jsonl"), "--store", "store"]),
    ("store info", ["store", "info", "store"]),
    ("store prune", ["store", "prune", "store", "--keep", "30d"]),
    ("check", ["check", CANDIDATE]),
    ("diff", ["diff", CURRENT, CANDIDATE]),
    ("diff with proofs", ["diff", str(SAMPLE / "current" / "vap"), str(SAMPLE / "current" / "vap"), "--prove"]),
    ("trust", ["trust", "."]),
    ("scan", ["scan", SNAPSHOT, "--candidate", CANDIDATE]),
    ("convert", ["convert", CANDIDATE, "--out", "static"]),
    ("export", ["export", AUDIT_ID, LOG]),
    ("test", ["test", "tested.yaml"]),
    ("cel", ["cel", "url('https://example.com').getHost()"]),
    ("can-i", ["can-i", "get", "pods", "--as", "bob", "--namespace", "a", "--cluster", SNAPSHOT]),
    ("snapshot", ["snapshot", "--candidate", CANDIDATE, "--out", "cluster.jsonl"]),
    ("plugin", ["plugin", "AlwaysPullImages", "--config", "plugin.yaml", "--cases", "cases.jsonl"]),
]


TESTED = f"""\
apiVersion: replay/v1
kind: Cases
policies: [{CANDIDATE}]
cases:
  - {{name: any, object: {{apiVersion: v1, kind: ConfigMap, metadata: {{name: a}}}}, expect: {{verdict: admitted}}}}
"""


@pytest.fixture(scope="module")
def directory(short_sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where commands write, with a sample and with a `kubectl` that answers without a cluster."""
    made = tmp_path_factory.mktemp("network")
    (made / SAMPLE).symlink_to(short_sample)
    kubectl = made / "kubectl"
    kubectl.write_text('#!/bin/sh\necho \'{"kind":"List","apiVersion":"v1","items":[]}\'\n')
    kubectl.chmod(0o755)
    (made / "plugin.yaml").write_text("{}\n")
    (made / "tested.yaml").write_text(TESTED)
    (made / "cases.jsonl").write_bytes(orjson.dumps({"id": "1", "request": {}}))
    return made


def run(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join((str(directory), os.environ["PATH"]))
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "XDG_STATE_HOME": str(directory)}
    return subprocess.run(
        [*REFUSED, *arguments], cwd=directory, env=environment, capture_output=True, text=True, check=False
    )


pytestmark = pytest.mark.slow
needs_filter = pytest.mark.skipif(not no_network.SUPPORTED, reason="the filter is written for Linux")


@needs_filter
@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("import socket; socket.socket(socket.AF_UNIX)", 0),
        ("import socket; socket.socket()", -no_network.KILLED),
        ("import socket; socket.socket(socket.AF_INET6)", -no_network.KILLED),
        ("import socket; socket.getaddrinfo('example.com', 443)", -no_network.KILLED),
        ("import duckdb; duckdb.sql('''from read_csv('http://127.0.0.1:9/a.csv')''')", -no_network.KILLED),
    ],
    ids=["of the machine", "IPv4", "IPv6", "names", "native code"],
)
def test_the_kernel_ends_whoever_asks_for_an_internet_socket(program: str, code: int, tmp_path: Path) -> None:
    assert run(tmp_path, sys.executable, "-c", program).returncode == code


@needs_filter
@pytest.mark.parametrize("arguments", [row[1] for row in COMMANDS], ids=[row[0] for row in COMMANDS])
def test_no_command_asks_for_one(arguments: list[str], directory: Path) -> None:
    done = run(directory, sys.executable, "-m", "replay", *arguments)
    assert done.returncode in (0, 1, 2), done.stderr
    assert "Traceback" not in done.stderr


@needs_filter
def test_a_webhook_that_is_named_is_asked(directory: Path) -> None:
    named = ["run", LOG, "--webhook", "before.recorder.example.com=https://127.0.0.1:9/", "--workers", "1"]
    assert run(directory, sys.executable, "-m", "replay", *named).returncode == -no_network.KILLED


LISTENING = [
    ["ingest", "--listen", "127.0.0.1:0", "--store", "listened"],
    ["serve", "--store", "listened", "--trial", f"next={CANDIDATE}", "--address", "127.0.0.1:0"],
]


@needs_filter
@pytest.mark.parametrize("named", LISTENING, ids=lambda named: named[0])
def test_a_listener_listens_where_it_is_told(named: list[str], directory: Path) -> None:
    assert run(directory, sys.executable, "-m", "replay", *named).returncode == -no_network.KILLED


def test_every_command_is_run() -> None:
    known = get_command(app).commands  # type: ignore[attr-defined]
    names = {
        f"{name} {sub}" if sub else name for name, each in known.items() for sub in getattr(each, "commands", [""])
    }
    run_here = {" ".join(row[1][: 2 if row[1][0] == "store" else 1]) for row in COMMANDS}
    assert run_here | {"serve"} == names  # which only listens

"""Readers that go away, full disks, closed streams and Ctrl-C: a line at most, and an exit code."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.support.short_sample import write_first_lines

ROOT = Path(__file__).parents[2]
SAMPLE = str(ROOT / "sample_audit" / "shop")
COMMAND = [sys.executable, "-m", "replay"]
FULL = "replay: input or output: No space left on device\n"
NO_FULL = not Path("/dev/full").is_char_device()

COMMANDS = [
    ("Rich", ["cel", "1 + 1"]),
    ("text", ["sql", "--list"]),
    ("Parquet", ["sql", "select * from request", SAMPLE, "--format", "parquet"]),
    ("help", ["run", "--help"]),
]


@pytest.mark.parametrize("arguments", [row[1] for row in COMMANDS], ids=[row[0] for row in COMMANDS])
def test_a_reader_that_goes_away_is_no_error(arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([*COMMAND, *arguments], stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(NO_FULL, reason="there is no /dev/full")
@pytest.mark.parametrize("arguments", [row[1] for row in COMMANDS], ids=[row[0] for row in COMMANDS])
def test_a_full_disk_is_told(arguments: list[str]) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run([*COMMAND, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, FULL)


@pytest.mark.parametrize(("closed", "arguments", "code"), [(">&-", "cel 1", 0), ("2>&-", "run nofile", 2)])
def test_closed_streams(closed: str, arguments: str, code: int) -> None:
    command = f"{sys.executable} -m replay {arguments} {closed}"
    done = subprocess.run(command, shell=True, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (code, b"", b"")


def test_closed_input_is_an_empty_log() -> None:
    command = f"{sys.executable} -m replay run - --candidate {SAMPLE}/candidate <&-"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (
        2,
        "",
        "replay: <stdin>: no audit event: the log is empty or cut off\n",
    )


@pytest.mark.slow
def test_output_that_takes_ascii_alone(short_sample: Path) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = subprocess.run(
        [*COMMAND, "run", short_sample, "--workers", "1"], capture_output=True, check=False, env=environment
    )
    assert (done.returncode, done.stderr) == (1, b"")
    assert rb"current \u2192 candidate" in done.stdout


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="names are bytes there")
@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "LOG", "--current", "SET", "--candidate", "SET", "--report", "OUT"],
        ["report", "LOG", "--current", "SET", "--out", "OUT"],
        ["verify", "LOG", "--current", "SET", "--json"],
        ["check", "SET"],
        ["sql", "select * from file", "LOG"],
    ],
    ids=lambda row: row[0],
)
def test_names_that_are_no_utf8(arguments: list[str], tmp_path: Path) -> None:
    names = {name: os.fsdecode(bytes(tmp_path / name) + b"\xff") for name in ("LOG", "SET", "OUT")}
    write_first_lines(Path(names["LOG"]), 100)
    Path(names["SET"]).symlink_to(f"{SAMPLE}/current")
    command = [*COMMAND, *(names.get(each, each) for each in arguments)]
    done = subprocess.run(command, capture_output=True, check=False)
    assert (done.returncode in (0, 1), done.stderr) == (True, b"")


def test_a_store_has_a_name_of_text(tmp_path: Path) -> None:
    store = os.fsdecode(bytes(tmp_path) + b"/\xff")
    done = subprocess.run([*COMMAND, "ingest", SAMPLE, "--store", store], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.endswith(": the path of a store is UTF-8: name another directory\n")


def test_ctrl_c_while_the_command_is_imported(tmp_path: Path) -> None:
    """From the moment on at which the entry point runs; before that it is Python that begins."""
    waiting = "import os, signal, sys; os.kill(os.getpid(), signal.SIGINT)"
    (tmp_path / "typer.py").write_text(waiting, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(tmp_path), str(ROOT)))}
    done = subprocess.run([*COMMAND, "cel", "1"], capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "replay: interrupted; nothing was written\n")


@pytest.mark.parametrize("then", ["", "; import time; time.sleep(0.1)", "; raise ImportError('as if cut off')"])
@pytest.mark.parametrize("seconds", [0.001, 0.02, 0.5])  # at 0, handlers nest without end on a busy machine
def test_ctrl_c_waits_for_an_import(seconds: float, then: str, tmp_path: Path) -> None:
    """A native module that is cut off in its import aborts the process, as `duckdb` did.

    What waits comes at any moment: in the module's import, after it, or while the end is told.
    """
    imported = (
        "import os, pathlib, signal, replay.cli.app as app; "
        f"app._IMPORT_SECONDS = {seconds}; "
        "os.kill(os.getpid(), signal.SIGINT); pathlib.Path(__file__ + '.whole').touch()" + then
    )
    (tmp_path / "duckdb.py").write_text(imported, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(tmp_path), str(ROOT)))}
    arguments = ["ingest", SAMPLE, "--store", str(tmp_path / "store")]
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (
        130,
        "",
        "replay: interrupted; only complete files were written\n",
    )
    assert (tmp_path / "duckdb.py.whole").exists()


@pytest.mark.parametrize("moment", ["tempfile.mkdtemp", "shutil.rmtree"])
def test_ctrl_c_leaves_no_directory(moment: str, tmp_path: Path) -> None:
    """It comes when a directory for one run is made or about to be removed."""
    module, _, name = moment.partition(".")
    interrupted = f"""
import os, signal, {module}
from replay.__main__ import main
action = {moment}
def interrupted(*arguments, **options):
    first = action(*arguments, **options) if "{name}" == "mkdtemp" else None
    os.kill(os.getpid(), signal.SIGINT)
    return first or action(*arguments, **options)
{moment} = interrupted
main()
"""
    store = tmp_path / "store"
    done = subprocess.run(
        [sys.executable, "-c", interrupted, "ingest", SAMPLE, "--store", store],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert (done.returncode, done.stderr) == (130, "replay: interrupted; only complete files were written\n")
    assert [path for path in tmp_path.iterdir() if path != store] == []


def test_outcomes_go_into_a_pipe_and_leave_it_there(short_sample: Path, tmp_path: Path) -> None:
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    lines: list[str] = []

    def read() -> None:
        with pipe.open(encoding="utf-8") as file:
            lines.extend(file)

    reader = threading.Thread(target=read)
    reader.start()
    arguments = ["run", str(short_sample), "--workers", "1", "--outcomes", str(link)]
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, check=False)
    reader.join()
    assert done.returncode == 1
    assert len(lines) > 500
    assert (link.is_symlink(), stat.S_ISFIFO(pipe.stat().st_mode)) == (True, True)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found in /proc")
@pytest.mark.parametrize(
    ("arguments", "processes"), [(["run", "--workers", "2"], 3), (["ingest"], 1)], ids=["run", "ingest"]
)
def test_ctrl_c(arguments: list[str], processes: int, tmp_path: Path) -> None:
    """It comes to every process of the terminal: also to the one that workers are forked from, which still imports."""
    with subprocess.Popen(
        [*COMMAND, *arguments, SAMPLE, "--store", str(tmp_path / "store")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as process:
        while process.poll() is None and (len(_session(process.pid)) < processes or not _listens(process.pid)):
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (
        130,
        "",
        "replay: interrupted; only complete files were written\n",
    )
    assert [path for path in tmp_path.iterdir() if path.name != "store"] == []
    deadline = time.monotonic() + 10
    while _session(process.pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _listens(pid: int) -> bool:
    """Whether a process has got so far as to handle interrupts itself."""
    return "duckdb" in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8")


def _session(leader: int) -> list[int]:
    """The processes of a session that have not ended."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            except OSError:
                continue
            if fields[3] == str(leader) and fields[0] != "Z":
                found.append(int(entry.name))
    return found


@pytest.mark.parametrize(
    ("end", "told"),
    [
        ("sys.exit(3)", (3, "whole waited ", "")),
        ("sys.exit()", (0, "whole waited ", "")),
        ("sys.exit('no')", (1, "whole waited ", "no\n")),
        ("pass", (0, "whole waited ", "")),
    ],
)
def test_what_waits_for_the_exit_runs_before_it(end: str, told: tuple[int, str, str]) -> None:
    """The process ends without freeing its objects: nothing that was to be done then, or to be written, may be lost."""
    command = f"""
import atexit, sys, threading, time
import replay.cli.app
def run():
    atexit.register(print, "waited", end=" ")
    threading.Thread(target=lambda: (time.sleep(0.1), print("whole", end=" "))).start()
    {end}
replay.cli.app.main = run
from replay.__main__ import main
main()
"""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == told

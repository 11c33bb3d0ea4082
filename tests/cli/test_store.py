"""`replay ingest` and `replay store`: what is printed, what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from replay.cli.app import app as replay
from replay.cli.store import INGEST_EPILOG, ingest, store
from replay.errors import ReplayError

app = typer.Typer()
app.command("ingest", epilog=INGEST_EPILOG)(ingest)
app.add_typer(store, name="store")


def event(day: int) -> str:
    value = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": f"id-{day}",
        "stage": "ResponseComplete",
        "verb": "create",
        "requestURI": "/",
        "user": {"username": "alice"},
        "objectRef": {"resource": "pods", "namespace": "n", "name": f"p{day}", "apiVersion": "v1"},
        "responseStatus": {"code": 201},
        "requestReceivedTimestamp": f"2026-01-{day:02}T00:00:00.000000Z",
        "stageTimestamp": f"2026-01-{day:02}T00:00:00.500000Z",
    }
    return json.dumps(value) + "\n"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Logs of the days 1, 8 and 20, each ingested by itself into a store beside them; one line of the last is no event."""
    path = tmp_path_factory.mktemp("days")
    for day, more in {1: "", 8: "", 20: "nonsense\n"}.items():
        (path / f"day-{day}").write_text(event(day) + more)
        assert run("ingest", path / f"day-{day}", "--store", path / "store").exit_code == 0
    return path


@pytest.fixture
def directory(days: Path, tmp_path: Path) -> Path:
    """The store of the three days, to be changed."""
    return Path(shutil.copytree(days / "store", tmp_path / "store"))


def test_an_ingest_tells_what_was_read(directory: Path, days: Path, tmp_path: Path) -> None:
    (tmp_path / "new").write_text(event(21) + "{\n")
    rejects = tmp_path / "rejects.tsv"
    result = run("ingest", tmp_path / "new", days / "day-1", "--store", directory, "--rejects", rejects, "--json")
    assert json.loads(result.stdout) == {
        "store": {"directory": str(directory), "requests": 4},
        "files": 1,
        "knownFiles": 1,
        "bytes": (tmp_path / "new").stat().st_size,
        "lines": 2,
        "events": 1,
        "requests": 1,
        "superseded": 0,
        "rejects": {"malformed": 1},
    }
    assert rejects.read_text() == f"{days}/day-20:2\tmalformed\t\tnonsense\n{tmp_path}/new:2\tmalformed\t\t{{\n"
    text = run("ingest", tmp_path / "new", "--store", directory).stdout
    assert "Nothing new; 1 file was known. The store holds 4 requests." in text


def test_info_tells_what_is_there(directory: Path) -> None:
    value = json.loads(run("store", "info", directory, "--json").stdout)
    assert [(each["requests"], each["last"]) for each in value["ingests"]] == [
        (1, "2026-01-01T00:00:00.500000Z"),
        (1, "2026-01-08T00:00:00.500000Z"),
        (1, "2026-01-20T00:00:00.500000Z"),
    ]
    assert (value["requests"], value["first"], value["rejects"]) == (3, "2026-01-01T00:00:00.000000Z", {"malformed": 1})
    text = run("store", "info", directory).stdout
    assert "3 requests of 3 ingests." in text
    assert "the line is not one JSON object" in text


PRUNED = [
    ("all are newer", ["--before", "2025-01-01"], 0, 3),
    ("a time without a zone is UTC", ["--before", "2026-01-08T00:00:00.5"], 1, 2),
    ("a time with a zone", ["--before", "2026-01-08T02:00:01+02:00"], 2, 1),
    ("days before the last request", ["--keep", "13d"], 1, 2),
    ("weeks", ["--keep", "1w"], 2, 1),
    ("everything", ["--before", "2030-01-01"], 3, 0),
]


@pytest.mark.parametrize(("options", "removed", "kept"), [row[1:] for row in PRUNED], ids=[row[0] for row in PRUNED])
def test_prune_forgets_whole_ingests(directory: Path, options: list[str], removed: int, kept: int) -> None:
    result = run("store", "prune", directory, *options, "--json")
    assert json.loads(result.stdout) == {"removed": removed, "kept": kept, "requests": kept}
    assert json.loads(run("store", "info", directory, "--json").stdout)["requests"] == kept


def test_prune_says_what_is_left(directory: Path) -> None:
    result = run("store", "prune", directory, "--keep", "1d")
    assert result.stdout == "2 ingests forgotten, 1 ingest with 1 request left\n"


REFUSED = [
    ("neither", [], "what to forget is not clear: give --before, --keep or --keep-size"),
    ("both", ["--before", "2026-01-01", "--keep", "1d"], "what to forget is not clear: give either --before or --keep"),
    ("no time", ["--before", "yesterday"], "no time `yesterday`"),
]


@pytest.mark.parametrize(("options", "message"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_prune_refuses_what_is_not_clear(directory: Path, options: list[str], message: str) -> None:
    result = run("store", "prune", directory, *options)
    assert isinstance(result.exception, ReplayError)
    assert message in str(result.exception)


@pytest.mark.parametrize("command", [["info"], ["prune", "--keep", "1d"]], ids=["info", "prune"])
def test_a_question_makes_no_store(tmp_path: Path, command: list[str]) -> None:
    result = run("store", command[0], tmp_path / "none", *command[1:])
    assert "there is no store: `replay ingest LOG --store DIR` makes one" in str(result.exception)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("command", [["ingest"], ["store", "info"], ["store", "prune"]], ids=" ".join)
def test_help_has_an_example(command: list[str]) -> None:
    assert "Example: replay " in run(*command, "--help").stdout


@pytest.mark.parametrize("command", ["run", "coverage", "verify", "mutations", "lookup"])
def test_a_store_alone_is_asked(command: str, directory: Path, tmp_path: Path) -> None:
    sets = tmp_path / "empty"
    sets.mkdir()
    options = ["--candidate", str(sets)] if command in ("run", "coverage") else []
    options += ["--current", str(sets)] if command in ("verify", "mutations") else []
    result = CliRunner().invoke(replay, [command, "--store", str(directory), *options])
    assert (result.exit_code, result.exception) == (0, None)
    assert "store" in result.stdout

"""`replay.toml`, the environment and the command line: who wins, what is refused; `replay init`."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner, Result

from replay.cli.app import app
from replay.cli.command import Command
from replay.cli.project import default_map, find_project_file, project_values, read_project_file
from replay.cli.project_file import project_text
from replay.errors import ReplayError
from replay.pipeline.project.around import ProjectFindings, search_directory

SAMPLE = Path(__file__).parents[3] / "sample_audit" / "shop"


def defaults(directory: Path, text: str, name: str = "replay.toml") -> dict[str, Any]:
    (directory / name).write_text(text)
    return default_map(project_values(read_project_file(directory / name), get_command(app)))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_shared_keys_reach_every_command_that_has_them(here: Path) -> None:
    text = (
        'logs = "audit"\nstore = "s"\ncurrent = "now"\ncandidate = "next"\nowner-label = "owner"\n[run]\nworkers = 2\n'
    )
    found = defaults(here, text)
    assert found["run"] == {
        "logs": ["audit"],
        "store": "s",
        "current": "now",
        "candidate": "next",
        **({"owner_label": "owner"} if "owner_label" in found["run"] else {}),
        "workers": "2",
    }
    assert found["report"]["owner_label"] == "owner"
    assert found["diff"] == {"current": "now", "candidate": "next"}
    assert found["store"]["info"] == {"store_directory": "s"}
    assert "manual" not in found
    assert "cel" not in found


def test_trials_are_a_table(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "next").mkdir()
    (here / "deep").mkdir()
    text = 'store = "s"\n[trials]\nnext = "next"\nstrict = "none"\n[serve]\nevery = "5m"\n'
    assert defaults(here, text)["serve"] == {"store": "s", "trial": ["next=next", "strict=none"], "every": "5m"}
    assert "trial" not in defaults(here, text)["run"]
    monkeypatch.chdir(here / "deep")
    assert defaults(here, text)["serve"]["trial"][0] == "next=../next"
    with pytest.raises(ReplayError, match=r"replay.toml:2: `next` is to be the path of a candidate"):
        defaults(here, "[trials]\nnext = 1\n")
    with pytest.raises(ReplayError, match=r"replay.toml:1: `trials` is a table"):
        defaults(here, 'trials = "next"\n')


def test_paths_are_meant_from_the_file(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "deep").mkdir()
    (here / "sars.jsonl").touch()
    text = (
        'logs = ["audit/*.zst", "-", "/var/log"]\ncluster = "c.jsonl"\nwebhook = ["a.b=sars.jsonl", "a.c=https://d/"]'
    )
    (here / "replay.toml").write_text(text)
    monkeypatch.chdir(here / "deep")
    file = find_project_file(Path.cwd())
    assert file == here / "replay.toml"
    found = default_map(project_values(read_project_file(file), get_command(app)))["run"]
    assert found["logs"] == ["../audit/*.zst", "-", "../../../../../var/log"] or found["logs"][2].endswith("/var/log")
    assert (found["cluster"], found["webhook"]) == ("../c.jsonl", ["a.b=../sars.jsonl", "a.c=https://d/"])


REFUSED = [
    ("no TOML", "replay.toml", "a = 1\nlogs = [1 2]\n", "replay.toml:2:11: is no TOML: Unclosed array"),
    ("an unknown key", "replay.toml", "# a\nlog = 1\n", "replay.toml:2: unknown key `log`; did you mean `logs`?"),
    ("a key of a command", "replay.toml", "fail-onn = 1\n", "replay.toml:1: unknown key `fail-onn`; known are logs, "),
    (
        "an unknown option",
        "replay.toml",
        "[report]\nsinc = '7d'\n",
        "replay.toml:2: unknown key `sinc`; did you mean `since`?",
    ),
    (
        "an unknown command",
        "replay.toml",
        "[ran]\nsince = '7d'\n",
        "replay.toml:1: unknown key `ran`; did you mean `run`?",
    ),
    (
        "no table",
        "replay.toml",
        "run = true\n",
        "replay.toml:1: `run` is a command: its options stand in a table `[run]`",
    ),
    ("a list for one", "replay.toml", 'current = ["a"]\n', "replay.toml:1: `current` is to be one value, not a list"),
    ("no flag", "replay.toml", "[run]\n\njson = 1\n", "replay.toml:3: `json` is to be true or false"),
    ("a flag", "replay.toml", "logs = true\n", "replay.toml:1: `logs` is to be a text or a number"),
    ("no number", "replay.toml", "workers = 'a'\n", "replay.toml:1: `workers`: "),
    ("no choice", "replay.toml", "[sql]\nformat = 'xml'\n", "replay.toml:2: `format`: "),
    (
        "in a pyproject",
        "pyproject.toml",
        "[a]\nlog = 1\n[tool.replay]\nlog = 1\n",
        "pyproject.toml:4: unknown key `log`; ",
    ),
    (
        "a form of later",
        "replay.toml",
        "\nversion = 2\n",
        "replay.toml:2: `version` is 2, and this replay reads 1: upgrade kube-replay",
    ),
    ("no table in a pyproject", "pyproject.toml", "[tool]\nreplay = 1\n", "pyproject.toml: `replay` is to be a table"),
]


@pytest.mark.parametrize(("name", "text", "message"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_what_is_refused(name: str, text: str, message: str, here: Path) -> None:
    with pytest.raises(ReplayError) as error:
        defaults(here, text, name)
    assert str(error.value).replace(f"{here}/", "").startswith(message)
    assert "\n" not in str(error.value)


def test_the_nearest_file_counts_and_none_above_a_repository(here: Path) -> None:
    below = here / "a" / "b"
    below.mkdir(parents=True)
    (here / "replay.toml").touch()
    assert find_project_file(below) == here / "replay.toml"
    (here / "a" / "pyproject.toml").write_text("[project]\n")
    assert find_project_file(below) == here / "replay.toml"
    (here / "a" / "pyproject.toml").write_text("[tool.replay]\n")
    assert find_project_file(below) == here / "a" / "pyproject.toml"
    (below / ".git").mkdir()
    assert find_project_file(below) is None


# What a command is told, as it would be by its file, the environment and the command line.
WINS = [
    ("the file", "", {}, {"logs": ["log"], "store": "st", "current": "cu", "candidate": "ca"}),
    ("the environment", "", {"REPLAY_CURRENT": "e"}, {"logs": ["log"], "store": "st", "current": "e", "candidate": "ca"}),
    ("the command line", "--current c", {"REPLAY_CURRENT": "e"}, {"logs": ["log"], "store": "st", "current": "c", "candidate": "ca"}),
    ("another log, and no store", "other", {}, {"logs": ["other"], "store": None, "current": "cu", "candidate": "ca"}),
    ("another store, and no log", "--store s", {}, {"logs": None, "store": "s", "current": "cu", "candidate": "ca"}),
    ("a log of the environment", "", {"REPLAY_LOGS": "a b"}, {"logs": ["a", "b"], "store": None, "current": "cu", "candidate": "ca"}),
    ("a command's own variable", "", {"REPLAY_LISTEN_ADD": "p"}, {"logs": ["log"], "store": "st", "current": "cu", "candidate": None}),
    ("a policy on top", "--add p", {}, {"logs": ["log"], "store": "st", "current": "cu", "candidate": None}),
    ("a scenario", str(SAMPLE), {}, {"logs": [str(SAMPLE)], "store": None, "current": None, "candidate": None}),
]  # fmt: skip


@pytest.mark.parametrize(("line", "environment", "told"), [row[1:] for row in WINS], ids=[row[0] for row in WINS])
def test_who_wins(line: str, environment: dict[str, str], told: dict[str, Any]) -> None:
    from replay.cli.options import AddedPolicies, CandidateSet, CurrentSet, Logs, Store  # noqa: PLC0415 - read by Typer at run time

    heard: dict[str, Any] = {}

    def listen(
        logs: Logs = None,
        store: Store = None,
        current: CurrentSet = None,
        candidate: CandidateSet = None,
        add: AddedPolicies = None,
    ) -> None:
        heard.update(logs=logs, store=store, current=current, candidate=candidate)
        assert add is None or candidate is None

    listen.__annotations__ = {
        "logs": Logs,
        "store": Store,
        "current": CurrentSet,
        "candidate": CandidateSet,
        "add": AddedPolicies,
    }
    own = typer.Typer()
    own.command("listen", cls=Command)(listen)
    own.command("other")(lambda: None)

    @own.callback()
    def root(context: typer.Context) -> None:
        context.default_map = {"listen": {"logs": ["log"], "store": "st", "current": "cu", "candidate": "ca"}}

    root.__annotations__ = {"context": typer.Context, "return": None}
    result = CliRunner().invoke(own, ["listen", *line.split()], env=environment)
    assert result.exception is None, result.output
    assert {key: value if value is None or key == "logs" else str(value) for key, value in heard.items()} == told


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


@pytest.mark.slow
def test_init_then_run_without_an_argument(here: Path, short_sample: Path) -> None:
    for name in ("current", "candidate"):
        shutil.copytree(SAMPLE / name, here / "manifests" / name)
    (here / "audit").mkdir()
    (log,) = short_sample.glob("audit.*")
    shutil.copy(log, here / "audit")
    shutil.copy(SAMPLE / "cluster.jsonl.zst", here)
    made = run("init")
    assert made.exit_code == 0, made.output
    found = read_project_file(here / "replay.toml").values
    assert found == {
        "logs": [f"audit/{log.name}"],
        "store": "audit.store",
        "cluster": "cluster.jsonl.zst",
        "owner-label": "team",
        "current": "manifests/current",
        "candidate": "manifests/candidate",
        "accepted": "accepted.yaml",
    }
    first = run("run", "--json")
    assert first.exit_code == 1, first.output
    assert (here / "audit.store" / "store.json").exists()
    assert run("run", "--json").output == first.output
    again = run("init")
    assert str(again.exception) == "replay.toml: is already there; --force replaces it"
    assert run("init", "--print").output.startswith("# Defaults of `replay`")


def test_what_is_there_twice_is_not_guessed(here: Path) -> None:
    for name in ("a", "b", "c"):
        (here / name / "vap").mkdir(parents=True)
        (here / f"audit-{name}.log").touch()
    (here / ".hidden" / "current" / "vap").mkdir(parents=True)
    (here / "cluster.json").write_text("{")
    assert search_directory(Path()) == ProjectFindings(logs=(Path(),), cluster=Path("cluster.json"))


def test_the_file_of_an_empty_directory_is_a_form_to_be_filled_in(here: Path) -> None:
    text = project_text(search_directory(Path()))
    assert [line for line in text.splitlines() if line and line[0] != "#"] == [
        "version = 1",
        'store = "audit.store"                   # keeps logs and results; made by the first run',
        'accepted = "accepted.yaml"              # intended denials: replay accept',
    ]
    assert all(f"\n# {key} = " in text for key in ("logs", "current", "candidate", "cluster", "owner-label"))
    assert defaults(here, text)["ingest"] == {"store": "audit.store"}
    commented = "".join(f"{line.removeprefix('# ')}\n" for line in text.splitlines() if " = " in line[:20])
    assert set(read_project_file(_written(here, commented)).values) >= {"logs", "current", "candidate", "owner-label"}


def _written(directory: Path, text: str) -> Path:
    (directory / "replay.toml").write_text(text)
    return directory / "replay.toml"


def test_flags_are_shown_as_flags() -> None:
    shown = CliRunner().invoke(app, ["run", "--help"], env={"COLUMNS": "200"}).output
    assert "<bool>" not in shown
    assert re.search(r"--json +Print JSON", shown)

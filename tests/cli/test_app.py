"""The command line as a whole: help, the README, errors in one line, exit codes."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from replay.cli.app import app, main

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
# The page on benchmarks shows a script with options of its own, the one on contributing those of other tools.
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "docs").rglob("*.md"))
    if path.name != "benchmarks.md"
}
DOCUMENTATION = "\n".join((README, *PAGES.values()))
SAMPLE = ROOT / "sample_audit" / "shop"
COMMANDS = {
    (f"{name} {sub}" if sub else name): deep
    for name, command in get_command(app).commands.items()  # type: ignore[attr-defined]
    for sub, deep in (getattr(command, "commands", None) or {"": command}).items()
}


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_help_with_an_example_and_stands_in_the_readme(name: str) -> None:
    result = CliRunner().invoke(app, [*name.split(), "--help"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    assert re.search(r"Examples?: +replay ", result.output)
    assert f"replay {name}" in DOCUMENTATION
    assert f"replay {name.split(maxsplit=1)[0]}" in README


@pytest.mark.parametrize("columns", [60, 80])
@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_cuts_no_word_where_the_terminal_is_narrow(
    name: str, columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    with pytest.raises(SystemExit, match=r"^0$"):
        app([*name.split(), "--help"])  # the runner of Typer's tests has a terminal of 80 columns
    shown = capsys.readouterr().out
    assert "Usage: " in shown
    assert "\u2026" not in shown
    assert [line for line in shown.splitlines() if len(line) > columns and "|" not in line] == []


SERVERS = {
    "--enable-admission-plugins",
    "--disable-admission-plugins",
    "--admission-control",
    "--admission-control-config-file",
    "--authentication-config",
    "--authorization-config",
    "--authorization-policy-file",
    "--authorization-webhook-",
    "--authorization-webhook-config-file",
    "--feature-gates",
    "--oidc-",
}
"""Flags of the kube-apiserver that a set may hold."""


def test_every_documented_command_and_option_exists() -> None:
    first_words = {name.split()[0] for name in COMMANDS}
    documented = set(re.findall(r"`(?:\.venv/bin/)?replay ([a-z][a-z-]*)", DOCUMENTATION))
    assert documented <= first_words
    options = {option for command in COMMANDS.values() for param in command.params for option in param.opts}
    options |= {option for command in COMMANDS.values() for param in command.params for option in param.secondary_opts}
    options |= {option for param in get_command(app).params for option in param.opts}
    own = re.sub(
        r"`(?:aws|dask|gcloud|kubectl|logcli|oc) [^`]*`|(?:^(?:aws|az|gcloud|helm|kubectl|oc)|\b(?:gh|duckdb|python -m tests\S*)) [^\n]*",
        "",
        DOCUMENTATION,
        flags=re.MULTILINE,
    )
    assert (
        set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", own))
        - {"--no-deps", "--help", "--dist", "--install-completion"}
        - SERVERS
        <= options
    )


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", *sorted(PAGES)])
def test_links_lead_somewhere(page: str) -> None:
    path = ROOT / page
    links = re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", path.read_text(encoding="utf-8"))
    assert [link for link in links if not (path.parent / link).exists()] == []


def test_the_version_is_that_of_the_package() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.output) == (0, f"replay {version('kube-replay')}\n")


ERRORS = [
    ("no such log", ["run", "nofile.jsonl", "--candidate", str(SAMPLE / "candidate")], "nofile.jsonl: no such file"),
    ("no candidate", ["run", str(ROOT / "pyproject.toml")], "pyproject.toml: no candidate set"),
    ("a directory of scenarios", ["run", str(SAMPLE.parent)], f"give one scenario of this directory: {SAMPLE.parent}/"),
    ("neither a log nor a candidate", ["run", "nofile.jsonl"], "nofile.jsonl: no such file"),
    ("nothing said", ["run"], "no candidate set"),
    ("no such set", ["run", str(SAMPLE), "--candidate", "/nowhere"], "/nowhere: no such file or directory"),
    ("no audit log", ["run", str(ROOT / "pyproject.toml"), "--candidate", str(SAMPLE / "candidate")], "no audit event"),
    (
        "no baseline to export with",
        [
            "export",
            "id",
            str(SAMPLE / "audit.jsonl.zst"),
            "--candidate",
            str(SAMPLE / "candidate"),
            "--side",
            "current",
        ],
        "no baseline: give it with --current, or let the candidate decide with --side candidate",
    ),
    ("no such version", ["run", str(SAMPLE), "--kubernetes-version", "1.99"], "unknown Kubernetes version `1.99`"),
    ("no snapshot", ["run", str(SAMPLE), "--cluster", str(ROOT / "pyproject.toml")], "pyproject.toml:1: "),
]


@pytest.mark.parametrize(("arguments", "message"), [row[1:] for row in ERRORS], ids=[row[0] for row in ERRORS])
def test_bad_input_is_one_line_and_exit_code_2(
    arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Signals and the mask of new files are those of the tests: `test_streams.py` has them in processes of their own.
    monkeypatch.setattr("replay.cli.app.signal.signal", lambda *_: None)
    monkeypatch.setattr("replay.cli.app.os.umask", lambda _: None)
    monkeypatch.setattr("sys.argv", ["replay", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (2, "")
    assert message in err
    assert err.startswith("replay: ")
    assert err.count("\n") == 1


def test_run_exits_with_1_where_something_is_new_and_writes_what_it_is_told_to(
    short_sample: Path, tmp_path: Path
) -> None:
    outcomes, report = tmp_path / "outcomes.jsonl", tmp_path / "report"
    arguments = ["run", str(short_sample), "--outcomes", str(outcomes), "--report", str(report), "--workers", "1"]
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "80"})
    assert result.exit_code == 1
    assert "would be denied directly" in result.output
    assert max(map(len, result.output.splitlines())) <= 80
    assert outcomes.read_bytes().count(b"\n") > 500
    assert {path.name for path in report.iterdir()} == {"findings.csv", "report.html", "report.md"}


COSTLY = ("pydantic", "rich", "polars", "pyarrow", "duckdb", "matplotlib")
"""Packages whose import takes as long as a small command."""
IMPORTS = (
    "import sys\nfrom replay.cli.app import main\ntry:\n    main()\nfinally:\n"
    f"    sys.stderr.write(repr([each for each in {COSTLY} if each in sys.modules]))"
)
"""A program that runs the command line, and tells on stderr which of them it has imported."""


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["run", "--help"], ["cel", "1"], ["check", str(SAMPLE / "candidate")]],
    ids=["help", "help of a command", "cel", "check"],
)
def test_what_asks_no_log_imports_nothing_costly(arguments: list[str]) -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTS, *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "[]")


def test_a_run_takes_its_options_without_pydantic(tmp_path: Path) -> None:
    command = [sys.executable, "-c", IMPORTS, "run"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "'pydantic'" not in done.stderr

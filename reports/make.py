"""Make the example reports from the sample log: `python reports/make.py [DIRECTORY]`, this directory without one.

`README.md` lists the commands; a test runs this and compares byte for byte.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from typer.testing import CliRunner

from replay.cli.app import app

HERE = Path(__file__).parent
SAMPLE = "sample_audit/shop"
DENIED = "b83fa941-b733-4616-8284-2d9f87f11fa5"
WIDTH = "120"


class Example(NamedTuple):
    """A command, where its output goes (nowhere if empty), and which of the files that it writes are kept."""

    arguments: tuple[str, ...]
    output: str
    directory: str = ""
    kept: tuple[str, ...] = ()


EXAMPLES = (
    Example(
        ("run", SAMPLE, "--workers", "1", "--report"),
        "run/terminal.txt",
        "run",
        ("report.html", "report.md", "findings.csv"),
    ),
    Example(("run", SAMPLE, "--workers", "1", "--json"), "run/summary.json"),
    Example(
        ("report", SAMPLE, "--since", "95s", "--workers", "1", "--out"),
        "weekly/terminal.txt",
        "weekly",
        ("report.html", "report.md", "report.json"),
    ),
    Example(("report", SAMPLE, "--since", "95s", "--workers", "1", "--brief"), "weekly/brief.md"),
    Example(("coverage", SAMPLE), "coverage.txt"),
    Example(("verify", SAMPLE), "verify.txt"),
    Example(("lookup", SAMPLE, "--static", "--action", "deny"), "lookup.txt"),
    Example(("explain", DENIED, SAMPLE), "explain.txt"),
    Example(("timeline", "Deployment", "team-a/app-871", SAMPLE), "timeline.txt"),
    Example(("mutations", SAMPLE), "mutations.txt"),
    Example(("diff", f"{SAMPLE}/current", f"{SAMPLE}/candidate"), "diff.txt"),
)


def make(target: Path) -> None:
    """Write all examples below a directory; the working directory is the project's."""
    runner = CliRunner(env={"COLUMNS": WIDTH, "NO_COLOR": "1", "TERM": "dumb"})
    with TemporaryDirectory() as spare:
        for example in EXAMPLES:
            made = Path(spare) / example.directory
            arguments = [*example.arguments, *([str(made)] if example.directory else [])]
            result = runner.invoke(app, arguments)
            if result.exit_code > 1 or (result.exception and not isinstance(result.exception, SystemExit)):
                raise SystemExit(f"replay {' '.join(arguments)}: {result.output}{result.exception}")
            write(target / example.output, result.stdout)
            for name in example.kept:
                write(target / example.directory / name, (made / name).read_text(encoding="utf-8"))


def write(path: Path, text: str) -> None:
    """Write a file, with the directories above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    os.chdir(HERE.parent)
    make(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else HERE)

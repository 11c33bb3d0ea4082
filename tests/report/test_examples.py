"""What examples and pages of the documentation quote is what the commands print."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
REPORTS = ROOT / "reports"
BY_HAND = {"README.md", "make.py", "run.png"}
_QUOTED = re.compile(
    r"^```sh\nreplay (?P<command>[^\n]+)\n```\n\n```text\n(?P<answer>.+?)\n```$", re.MULTILINE | re.DOTALL
)
ROWS = [
    pytest.param(match["command"], match["answer"], id=f"{page.stem}: {match['command']}")
    for page in sorted((ROOT / "docs" / "jobs").glob("*.md"))
    for match in _QUOTED.finditer(page.read_text("utf-8"))
]


@pytest.mark.slow
def test_the_examples_are_what_the_commands_print(tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(REPORTS / "make.py"), str(tmp_path)], check=True, timeout=600)
    made = {str(path.relative_to(tmp_path)): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    kept = {str(path.relative_to(REPORTS)): path.read_bytes() for path in REPORTS.rglob("*") if path.is_file()}
    assert sorted(made) == sorted(set(kept) - BY_HAND)
    assert [name for name, content in made.items() if content != kept[name]] == []


def test_pages_quote_answers() -> None:
    assert len(ROWS) >= 3


@pytest.mark.slow
@pytest.mark.parametrize(("command", "answer"), ROWS)
def test_the_command_prints_what_its_page_quotes(command: str, answer: str, tmp_path: Path) -> None:
    (tmp_path / "sample_audit").symlink_to(ROOT / "sample_audit")  # a command may write beside it
    done = subprocess.run(
        [sys.executable, "-m", "replay", *shlex.split(command)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert " ".join(answer.split()) in " ".join(done.stdout.split()), done.stderr

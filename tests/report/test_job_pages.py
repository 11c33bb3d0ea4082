"""The answers that pages of `docs/jobs` quote: each command that a `text` block follows prints this block."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_QUOTED = re.compile(
    r"^```sh\nreplay (?P<command>[^\n]+)\n```\n\n```text\n(?P<answer>.+?)\n```$", re.MULTILINE | re.DOTALL
)
ROWS = [
    pytest.param(match["command"], match["answer"], id=f"{page.stem}: {match['command']}")
    for page in sorted((ROOT / "docs" / "jobs").glob("*.md"))
    for match in _QUOTED.finditer(page.read_text("utf-8"))
]


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

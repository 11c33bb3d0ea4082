from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

REPORTS = Path(__file__).parents[2] / "reports"
BY_HAND = {"README.md", "make.py", "run.png"}


@pytest.mark.slow
def test_the_examples_are_what_the_commands_print(tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(REPORTS / "make.py"), str(tmp_path)], check=True, timeout=600)
    made = {str(path.relative_to(tmp_path)): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    kept = {str(path.relative_to(REPORTS)): path.read_bytes() for path in REPORTS.rglob("*") if path.is_file()}
    assert sorted(made) == sorted(set(kept) - BY_HAND)
    assert [name for name, content in made.items() if content != kept[name]] == []

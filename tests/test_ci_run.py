"""What decides about a change skips no test for a missing tool."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parent / "conftest.py"
TEST = """
import pytest
{import_}
@pytest.mark.skipif({is_missing}, reason="{reason}")
def test_it(): pass
"""
ROWS = [
    ("a person without a tool", "false", True, "groff is not installed", 0, "1 skipped"),
    ("CI without a tool", "true", True, "groff is not installed", 1, "1 error"),
    ("CI with all tools", "true", False, "groff is not installed", 0, "1 passed"),
    ("CI without the corpora", "true", True, "the recording is not beside the checkout", 0, "1 skipped"),
    ("CI without a module", "true", False, "import", 1, "1 error"),
]


@pytest.mark.parametrize(
    ("variable", "is_missing", "reason", "code", "summary"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_a_missing_tool(variable: str, is_missing: bool, reason: str, code: int, summary: str, tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST.read_text("utf-8"))
    import_ = "pytest.importorskip('no_such_module')" if reason == "import" else ""
    (tmp_path / "test_it.py").write_text(TEST.format(import_=import_, is_missing=is_missing, reason=reason))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(tmp_path)]
    environment = {**os.environ, "CI": variable, "PYTHONPATH": str(Path(__file__).parent.parent)}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=60
    )
    assert (min(done.returncode, 1), summary in done.stdout) == (code, True), done.stdout

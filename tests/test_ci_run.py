"""What decides about a change skips no test for a missing tool."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parent / "conftest.py"
FIRST_LINES = {
    "tool": "@pytest.mark.skipif(True, reason='groff is not installed')",
    "tools": "@pytest.mark.skipif(False, reason='groff is not installed')",
    "corpora": "@pytest.mark.skipif(True, reason='the recording is not beside the checkout')",
    "module": "pytest.importorskip('no_such_module')",
}
"""What each of four tests begins with: two lack something that an installation would bring."""


@pytest.mark.parametrize(("variable", "missing"), [("false", "SKIPPED"), ("true", "ERROR")], ids=["a person", "CI"])
def test_a_missing_tool(variable: str, missing: str, tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST.read_text("utf-8"))
    for name, line in FIRST_LINES.items():
        (tmp_path / f"test_{name}.py").write_text(f"import pytest\n{line}\ndef test_it(): pass\n")
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "--continue-on-collection-errors", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "-p", "no:xdist", str(tmp_path)],
        env={**os.environ, "CI": variable, "PYTHONPATH": str(Path(__file__).parent.parent)},
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        timeout=60,
    )
    found = {name: end for end, name in re.findall(r"^([A-Z]+) .*?test_(\w+)\.py", done.stdout, re.MULTILINE)}
    assert found == {"tool": missing, "tools": "PASSED", "corpora": "SKIPPED", "module": missing}, done.stdout
    assert done.returncode == (missing == "ERROR")

"""What shells complete."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from replay.cli.app import app

SAMPLE = Path(__file__).parents[3] / "sample_audit" / "shop"
AUDIT_ID = "4643ba19-8f5c-4d9d-921a-eb6cb22bdb75"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("project")
    store = str(place / "audit.store")
    assert CliRunner().invoke(app, ["ingest", str(SAMPLE / "audit.jsonl.zst"), "--store", store]).exit_code == 0
    (place / "replay.toml").write_text('store = "audit.store"\n')
    return place


ROWS = [
    ("a namespace", "run --namespace prod-p", ["prod-pay"]),
    ("a policy", "lookup --policy cand-fin", ["cand-finalizer-guard.static.k8s.io"]),
    ("an audit ID that begins as a number", "explain 4643", [AUDIT_ID]),
    ("an audit ID of an option", "lookup --audit-id 4643ba19", [AUDIT_ID]),
    ("a store of the command line", "run --store nowhere --namespace prod-p", []),
    ("nothing of the kind", "run --namespace zzz", []),
    ("a command", "trus", ["trust"]),
]


@pytest.mark.parametrize(("line", "expected"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_values_of_the_store(line: str, expected: list[str], project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    words = f"replay {line}"
    environment = {"_REPLAY_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    result = CliRunner().invoke(app, env=environment, prog_name="replay")
    assert result.output.split() == expected


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_takes_its_script(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    environment = {**os.environ, "_REPLAY_COMPLETE": f"source_{shell}"}
    command = Path(sys.executable).with_name("replay")
    shown = subprocess.run([command], capture_output=True, text=True, check=True, env=environment)
    script = tmp_path / "script"
    script.write_text(shown.stdout)
    checked = subprocess.run([shell, "-n", str(script)], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")
    assert "complete" in shown.stdout

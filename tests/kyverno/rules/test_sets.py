"""The real engine's answers over the recorded requests of a set; slow ones run one set of each kind."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

_SHARED = Path(__file__).parents[4] / "shared"


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.skipif(not _SHARED.joinpath("engines").is_dir(), reason="shared/engines is not there")
@pytest.mark.parametrize(
    "name",
    [
        *("cpol-deny-operators", "cpol-mutate-chain", "cpol-overrides", "cpol-jmespath"),
        *("vpol-error", "vpol-exception", "vpol-resource-lib", "vpol-variables", "mpol-error", "mpol-two-mutations"),
    ],
)
def test_set(name: str, tmp_path: Path) -> None:
    replay = Path(sys.executable).with_name("replay")
    scorer = _SHARED / "tools" / "score_engine.py"
    command = [sys.executable, str(scorer), str(_SHARED / "engines"), "kyverno", str(replay), str(tmp_path)]
    result = subprocess.run([*command, "--set", name], capture_output=True, text=True, check=False)
    assert "wrong 0, undetermined 0" in result.stdout, json.dumps(result.stdout)

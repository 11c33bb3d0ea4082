from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner

from replay.cli.app import app
from replay.errors import ReplayError

SAMPLE = str(Path(__file__).parents[2] / "sample_audit" / "shop")


@pytest.mark.slow
def test_json_goes_to_stdout_and_the_files_to_the_directory(tmp_path: Path) -> None:
    out = tmp_path / "weekly"
    result = CliRunner().invoke(
        app, ["report", SAMPLE, "--since", "60s", "--to", "20s", "--out", str(out), "--json", "--workers", "1"]
    )
    assert result.exit_code == 0
    assert orjson.loads(result.stdout)["kind"] == "replay weekly report"
    assert (out / "report.json").read_text(encoding="utf-8") == result.stdout
    names = sorted(path.name for path in out.iterdir())
    assert names == ["report-20261121T030554Z.json", "report.html", "report.json", "report.md"]


def test_the_period_is_told_in_the_zone_asked_for() -> None:
    log = str(Path(SAMPLE) / "audit.jsonl.zst")
    result = CliRunner().invoke(app, ["report", log, "--brief", "--tz", "Asia/Kolkata", "--workers", "1"])
    assert result.exit_code == 0
    assert "2026-11-21 08:32:56 IST" in result.stdout
    assert "last, IST" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tz", "Mars/Olympus"], "no time zone `Mars/Olympus`"),
    ],
)
def test_options_that_contradict_or_mean_nothing_are_refused(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(app, ["report", SAMPLE, *arguments])
    assert isinstance(result.exception, ReplayError)
    assert str(result.exception).startswith(message)

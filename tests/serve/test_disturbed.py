"""The service while it is disturbed: nothing acknowledged is lost, and results are those of `replay run`.

`python -m tests.bench.serve` is the long form, with the recording `bench`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.bench import serve
from tests.bench.serve import Played, batches, play
from tests.support.short_sample import SAMPLE, write_first_lines

pytestmark = pytest.mark.slow
EVENTS = 1200
SECONDS = 8.0
ROWS: dict[str, dict[str, Any]] = {
    "killed": {"kills": 4},
    "a full disk": {"has_full_disk": True},
    "a clock that goes back an hour": {"has_clock_back": True},
}
NIGHTLY = ["a clock that goes back an hour"]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.nightly) if name in NIGHTLY else name for name in ROWS]
)
def test_nothing_is_lost(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "a full disk" and os.geteuid() != 0:
        pytest.skip("only root mounts file systems")
    write_first_lines(tmp_path / "audit.jsonl", EVENTS)
    monkeypatch.setattr(serve, "DISK", 24 << 20)
    monkeypatch.setattr(serve, "FULL_SECONDS", 4.0)
    monkeypatch.setattr(serve, "BATCH", 40)
    sent = batches(tmp_path / "audit.jsonl", EVENTS)
    found = play(Played(sent, SAMPLE, speed=sent[-1].at / SECONDS, **ROWS[name]))
    assert (found.events, found.missing, found.differs, found.failed, found.code) == (EVENTS, set(), [], set(), 0)
    if name == "a full disk":
        assert 503 in found.refused

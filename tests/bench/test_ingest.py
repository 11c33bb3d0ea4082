"""The measurements read what the ingest reads."""

from __future__ import annotations

from pathlib import Path

from tests.bench.ingest import bare_read, ingest
from tests.support.short_sample import write_first_lines

LINES = 50


def test_both_read_every_line(tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    write_first_lines(log, LINES)
    found = ingest([str(log)])
    assert (bare_read([str(log)])["rows"], found["rows"]) == (LINES, LINES)

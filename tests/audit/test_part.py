"""The engine that reads parts."""

from __future__ import annotations

from pathlib import Path

from replay.audit.part import connect


def test_the_engine_draws_nothing_and_loads_nothing(tmp_path: Path) -> None:
    """Standard output belongs to the report, also where a query takes long."""
    names = ("enable_progress_bar", "autoinstall_known_extensions", "autoload_known_extensions")
    with connect(str(tmp_path), threads=1) as connection:
        found = [connection.sql(f"select current_setting('{name}')").fetchone() for name in names]
    assert found == [(False,)] * len(names)

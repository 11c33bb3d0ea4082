"""The public conformance suite: some tests of every section here, all of it where the shared corpora are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cel import conformance


def failures(directory: Path) -> list[str]:
    """What fails and is not known to be answered otherwise by the server."""
    return [f"{each.file} {each.name}: {each.reason}" for each in conformance.run(directory) if each.reason]


def test_every_section() -> None:
    assert failures(Path(__file__).parent / "data" / "spec") == []


@pytest.mark.shared
def test_whole_suite() -> None:
    if not conformance.SPEC.is_dir():
        pytest.skip("the shared corpora are not here")
    assert failures(conformance.SPEC) == []


def test_table_counts_every_test_once() -> None:
    outcomes = conformance.run(Path(__file__).parent / "data" / "spec")
    total = next(line for line in conformance.table(outcomes).splitlines() if "**total**" in line)
    tests, passed, failed, left_out = (int(cell) for cell in total.strip("| ").split("|")[1:])
    assert tests == len(outcomes) == passed + failed + left_out

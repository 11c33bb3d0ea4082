"""Options of the whole suite."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.short_sample import make_scenario

SHORT_LINES = 1000


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite the files of tests/golden instead of comparing"
    )
    parser.addoption("--fuzz-seconds", type=float, default=60, help="how long changed inputs are tried")
    parser.addoption(
        "--fuzz-seed", type=int, default=0, help="the first input that is tried: the same seed, the same input"
    )


@pytest.fixture(scope="session")
def short_sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scenario of a fifth of the sample, which a command replays in a fifth of the time."""
    return make_scenario(tmp_path_factory.mktemp("short") / "sample", SHORT_LINES)

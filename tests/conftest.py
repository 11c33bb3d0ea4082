"""Options of the whole suite."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite the files of tests/golden instead of comparing"
    )
    parser.addoption("--fuzz-seconds", type=float, default=60, help="how long changed inputs are tried")
    parser.addoption(
        "--fuzz-seed", type=int, default=0, help="the first input that is tried: the same seed, the same input"
    )

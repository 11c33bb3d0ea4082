"""Options of the whole suite."""

from __future__ import annotations

import gc
import os
import re
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings

from replay.__main__ import RARELY
from tests.support.short_sample import make_scenario

SHORT_LINES = 1000
MEMORY = "/dev/shm"
MEMORY_BYTES = 4 << 30

# What decides about a change tries the same examples each time; new ones are tried wherever else the suite runs.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")


MISSING = re.compile(r"not installed|could not import")
"""Reasons to skip a test that an installation would take away, which whoever decides about a change has to make."""


def _failed_where_a_tool_is_missing(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Fail what is skipped for want of a tool under `CI=true`; a person sees it skipped with its reason."""
    reason = report.longrepr[2] if report.outcome == "skipped" and isinstance(report.longrepr, tuple) else ""
    if os.environ.get("CI") == "true" and MISSING.search(reason):
        report.outcome = "failed"
        report.longrepr = f"{reason}: under CI=true no test is skipped for a missing tool"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _failed_where_a_tool_is_missing(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _failed_where_a_tool_is_missing(report)
    return report


def pytest_configure() -> None:
    """Let byte code be kept: the suite starts the command hundreds of times, and compiling takes each a second."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    _keep_temporary_files_in_memory()


def _keep_temporary_files_in_memory() -> None:
    """Make temporary files where no disk is waited for: the suite writes out and removes about 100,000 of them."""
    if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK):
        found = os.statvfs(MEMORY)
        if found.f_bavail * found.f_frsize >= MEMORY_BYTES and not found.f_flag & os.ST_NOEXEC:
            os.environ["TMPDIR"] = MEMORY
            tempfile.tempdir = None


def pytest_collection_finish() -> None:
    """Collect garbage as rarely as the command does, and never look through thousands of tests, which stay to the end."""
    gc.set_threshold(*RARELY)
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Let all be freed at the end, as modules in C want it."""
    gc.unfreeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite the files of tests/golden instead of comparing"
    )
    parser.addoption("--fuzz-seconds", type=float, default=10, help="how long changed inputs are tried")
    parser.addoption(
        "--fuzz-seed", type=int, default=0, help="the first input that is tried: the same seed, the same input"
    )


@pytest.fixture(scope="session")
def common(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that all processes of this run of the tests have in common."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base


@pytest.fixture(scope="session")
def short_sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scenario of a fifth of the sample, which a command replays in a fifth of the time."""
    return make_scenario(tmp_path_factory.mktemp("short") / "sample", SHORT_LINES)

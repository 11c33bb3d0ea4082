"""The whole command over inputs changed at random, for as long as there is time: `--fuzz-seconds 3600` for an hour."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from random import Random

import pytest

from tests.robustness.trial import Base, Tried, base_of, try_cluster, try_events, try_manifests

SAMPLE = Path(__file__).parents[2] / "sample_audit" / "shop"
Trial = Callable[[Base, Random, Path, Tried], None]
TRIALS: tuple[Trial, ...] = (try_events, try_cluster, try_manifests)


def seeds(options: pytest.Config) -> Iterator[int]:
    """As many as there is time for, at least one for each kind of trial."""
    first, seconds = options.getoption("--fuzz-seed"), options.getoption("--fuzz-seconds")
    end = time.monotonic() + seconds
    for seed in count(first):
        if time.monotonic() > end and seed - first >= len(TRIALS):
            return
        yield seed


@pytest.mark.slow
@pytest.mark.property
def test_no_input_ends_in_a_traceback_or_changes_what_is_decided_about_others(
    pytestconfig: pytest.Config, tmp_path: Path
) -> None:
    base, tried = base_of(tmp_path, SAMPLE), Tried()
    assert len(base.outcomes) > 400
    work = tmp_path / "work"
    work.mkdir()
    for seed in seeds(pytestconfig):
        try:
            TRIALS[seed % len(TRIALS)](base, Random(seed), work, tried)
        except AssertionError as error:
            raise AssertionError(f"--fuzz-seed {seed}: {error}") from error
        assert not tried.differences, f"--fuzz-seed {seed}: {tried.differences[0]}"
    sys.stderr.write(f"\n{tried.told}\n")
    assert tried.compared > tried.gaps

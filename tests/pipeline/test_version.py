from __future__ import annotations

from pathlib import Path

import pytest

from replay.cellib.version import NEWEST, KubernetesVersion
from replay.errors import ReplayError
from replay.pipeline.kcp.layout import SHARD_VERSION
from replay.pipeline.version import version_of

SAMPLES = Path(__file__).parents[2] / "sample_audit"
KCP = SAMPLES / "kcp" / "current"
CASES = {
    "nothing is said": (None, (), NEWEST),
    "a set of a cluster": (None, (SAMPLES / "shop" / "current", None), NEWEST),
    "a set by workspace": (None, (None, KCP), SHARD_VERSION),
    "a set by workspace, and a version": ("1.35", (KCP,), KubernetesVersion(1, 35)),
}


@pytest.mark.parametrize("name", CASES)
def test_version(name: str) -> None:
    text, paths, expected = CASES[name]
    assert version_of(text, paths) == expected


def test_a_version_that_there_is_not() -> None:
    with pytest.raises(ReplayError, match=r"1\.30 to 1\.37"):
        version_of("1.12")

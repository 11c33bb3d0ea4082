from __future__ import annotations

import pytest

from replay.cellib.version import NEWEST, KubernetesVersion
from replay.errors import ReplayError


@pytest.mark.parametrize(
    ("text", "minor"), [("1.30", 30), ("v1.33", 33), ("1.37.1", 37), ("v1.35.0-rc.1", 35), ("1.31+", 31)]
)
def test_parse(text: str, minor: int) -> None:
    assert KubernetesVersion.parse(text) == KubernetesVersion(1, minor)


@pytest.mark.parametrize("text", ["", "1", "1.29", "1.38", "2.30", "1.x", "1.30x", "1.99999999999"])
def test_unknown(text: str) -> None:
    with pytest.raises(ReplayError, match=r"known are 1\.30 to 1\.37"):
        KubernetesVersion.parse(text)


def test_previous_and_text() -> None:
    assert (str(NEWEST), str(NEWEST.previous)) == ("1.37", "1.36")

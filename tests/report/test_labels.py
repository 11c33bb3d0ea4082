from __future__ import annotations

import pytest

from replay.report.render.charts import LONGEST, short_labels

PREFIX = "company-platform-security-baseline-require"


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        pytest.param([], [], id="none"),
        pytest.param(["team-label.static.k8s.io", "admin"], ["team-label", "admin"], id="short"),
        pytest.param(
            [f"{PREFIX}-memory-on-workloads.static.k8s.io", f"{PREFIX}-probe-on-workloads.static.k8s.io", "others"],
            ["…memory…", "…probe…", "others"],
            id="what long ones share",
        ),
        pytest.param(
            [f"{PREFIX}-cpu-limits", f"{PREFIX}-cpu-limits-of-init"],
            ["…limits", "…limits-of-init"],
            id="one is the beginning of another",
        ),
        pytest.param(["a" * 20 + "b" * 20], ["a" * 15 + "…" + "b" * 14], id="one alone"),
    ],
)
def test_labels_stay_apart(names: list[str], expected: list[str]) -> None:
    assert short_labels(names) == expected
    assert all(len(label) <= LONGEST for label in short_labels(names))

"""Who owns what, and in which order a difference spreads."""

from __future__ import annotations

import pytest

from replay.pipeline.replay.ownership import DEEPEST, Ownership

CHAIN = [("set", "u-set", "u-deployment"), ("pod", "u-pod", "u-set"), ("other", "u-other", "u-set")]


def test_what_owners_own() -> None:
    found = Ownership.of([*CHAIN, ("pod", "u-pod", "u-second")])
    assert found.owned_by(["u-set", "u-nobody"]) == {"pod", "other"}
    assert found.owners["pod"] == {"u-pod": ("u-set", "u-second")}


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (CHAIN, {"set": 1, "pod": 2, "other": 2}),
        ([("a", "u-a", "u-b"), ("b", "u-b", "u-a")], {"a": DEEPEST, "b": DEEPEST}),
        ([(f"{n}", f"u-{n}", f"u-{n + 1}") for n in range(9)], {"0": DEEPEST, "8": 1, "7": 2}),
        ([("pod", "u-old", "u-x"), ("pod", "u-new", "u-set"), CHAIN[0]], {"pod": 2}),
        ([], {}),
    ],
)
def test_depths(rows: list[tuple[str, str, str]], expected: dict[str, int]) -> None:
    depths = Ownership.of(rows).depths
    assert {key: depths[key] for key in expected} == expected

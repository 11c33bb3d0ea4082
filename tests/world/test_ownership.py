"""Who owns what, and in which order a difference spreads."""

from __future__ import annotations

import polars as pl
import pytest

from replay.world.ownership import DEEPEST, Ownership

Rows = list[tuple[str, str, str]]
CHAIN = [("set", "u-set", "u-deployment"), ("pod", "u-pod", "u-set"), ("other", "u-other", "u-set")]


def _ownership(rows: Rows) -> Ownership:
    return Ownership.from_rows(pl.DataFrame(rows, dict.fromkeys(("key", "uid", "owner"), pl.String), orient="row"))


def test_what_owners_own() -> None:
    found = _ownership([*CHAIN, ("pod", "u-pod", "u-second"), ("refused", "", "u-set")])
    assert found.owned_by(["u-set", "u-nobody"]) == {"pod", "other", "refused"}
    assert dict(found.by_group({"pod": 7, "set": 3, "refused": 3, "unowned": 1})) == {
        7: {"u-pod": ("u-set", "u-second")},
        3: {"u-set": ("u-deployment",)},
    }
    assert found.owner_uids == {"u-deployment", "u-set", "u-second"}
    assert found.deepest == 2
    assert found.deeper(["pod", "set", "unowned"], 1) == {"pod"}


def test_nobody_owns_anything() -> None:
    found = _ownership([])
    assert (found.deepest, found.owner_uids, found.owned_by(["u"]), found.deeper(["k"], 0)) == (
        0,
        frozenset(),
        set(),
        set(),
    )
    assert list(found.by_group({"k": 1})) == []


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
def test_depths(rows: Rows, expected: dict[str, int]) -> None:
    depths = dict(_ownership(rows).depths.iter_rows())
    assert {key: depths[key] for key in expected} == expected

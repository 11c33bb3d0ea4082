"""Which policies take each other's place."""

from __future__ import annotations

import pytest

from replay.compare.policy_pairs import PolicyPair, pairs_by_name

ROWS = [
    (
        "rules of one policy together",
        ["ClusterPolicy/a/x", "ClusterPolicy/a/y"],
        ["ValidatingPolicy/a"],
        [],
        [(("ClusterPolicy/a/x", "ClusterPolicy/a/y"), ("ValidatingPolicy/a",))],
    ),
    ("a native policy", ["ClusterPolicy/a/x"], ["a.static.k8s.io"], [], [(("ClusterPolicy/a/x",), ("a.static.k8s.io",))]),
    ("of a namespace", ["Policy/n/a/x"], ["NamespacedValidatingPolicy/n/a"], [], [(("Policy/n/a/x",), ("NamespacedValidatingPolicy/n/a",))]),
    ("no counterpart", ["ClusterPolicy/a/x"], ["ValidatingPolicy/b"], [], [(("ClusterPolicy/a/x",), ()), ((), ("ValidatingPolicy/b",))]),
    (
        "what is written comes first",
        ["ClusterPolicy/a/x", "ClusterPolicy/a/y"],
        ["ValidatingPolicy/a", "ValidatingPolicy/b"],
        [PolicyPair(("ClusterPolicy/a/x",), ("ValidatingPolicy/b",))],
        [(("ClusterPolicy/a/x",), ("ValidatingPolicy/b",)), (("ClusterPolicy/a/y",), ("ValidatingPolicy/a",))],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "written", "expected"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_pairs(
    old: list[str], new: list[str], written: list[PolicyPair], expected: list[tuple[tuple[str, ...], tuple[str, ...]]]
) -> None:
    assert [(each.old, each.new) for each in pairs_by_name(old, new, written)] == expected

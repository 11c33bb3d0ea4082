"""Which policies take each other's place."""

from __future__ import annotations

import pytest

from replay.compare.policy_pairs import PolicyPair, paired

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
        "policies named after a rule",
        ["ClusterPolicy/a/x", "ClusterPolicy/a-x/y", "ClusterPolicy/c/z"],
        ["ValidatingPolicy/a-x-y", "ValidatingPolicy/a-x-y-controllers", "ValidatingPolicy/a-x-cronjob", "ValidatingPolicy/cz"],
        [],
        [
            (("ClusterPolicy/a/x",), ("ValidatingPolicy/a-x-cronjob",)),
            (("ClusterPolicy/a-x/y",), ("ValidatingPolicy/a-x-y", "ValidatingPolicy/a-x-y-controllers")),
            (("ClusterPolicy/c/z",), ()),
            ((), ("ValidatingPolicy/cz",)),
        ],
    ),
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
    assert [(each.old, each.new) for each in paired(old, new, written)] == expected


_PODS, _SERVICES = frozenset({"/pods"}), frozenset({"/services"})


def test_policies_that_alone_match_the_same() -> None:
    matched = {"ClusterPolicy/a/x": _PODS, "ClusterPolicy/b/y": _SERVICES, "ClusterPolicy/c/z": _SERVICES}
    matched |= {"ValidatingPolicy/p": _PODS, "ValidatingPolicy/q": _SERVICES}
    old, new = ([name for name in matched if name.startswith(kind)] for kind in ("Cluster", "Validating"))
    assert paired(old, new, matched=matched) == (
        PolicyPair(("ClusterPolicy/a/x",), ("ValidatingPolicy/p",), "the resources that they match"),
        PolicyPair(("ClusterPolicy/b/y",), ()),
        PolicyPair(("ClusterPolicy/c/z",), ()),
        PolicyPair((), ("ValidatingPolicy/q",)),
    )

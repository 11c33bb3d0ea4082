"""What `replay check --migrate` says of policies that it writes to a file."""

from __future__ import annotations

from pathlib import Path

from replay.manifests.engine_object import Migrated
from replay.report.diff_report import migration_summary

_OUT = Path("cel.yaml")
_WRITTEN = Migrated("ClusterPolicy/a", "written", ({}, {}, {}))


def _left(number: int, reason: str) -> Migrated:
    return Migrated("ClusterPolicy/b", f"rule-{number}", reason=reason)


def test_all_rules_are_written() -> None:
    assert list(migration_summary([_WRITTEN], _OUT)) == ["cel.yaml: 3 policies of CEL for 1 of 1 rule"]


def test_the_most_frequent_reason_comes_first() -> None:
    rules = [_WRITTEN, _left(0, "it mutates"), _left(1, "it has a context"), _left(2, "it has a context\x1b[31m")]
    rules.append(_left(3, "it has a context"))
    assert list(migration_summary(rules, _OUT)) == [
        "cel.yaml: 3 policies of CEL for 1 of 5 rules",
        "4 rules not written, because:",
        "    2  it has a context: ClusterPolicy/b, rule rule-1",
        "    1  it mutates: ClusterPolicy/b, rule rule-0",
        "    1  it has a context\\u{1b}[31m: ClusterPolicy/b, rule rule-2",
    ]


def test_it_fits_on_one_screen() -> None:
    lines = list(migration_summary([_left(number, f"reason {number}") for number in range(40)], _OUT))
    assert len(lines) == 15
    assert lines[-1] == "   28  have 28 other reasons: see the comments in cel.yaml"

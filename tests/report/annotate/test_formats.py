"""Annotations in the formats of code hosts and CI servers: what is told, and that it is well-formed whatever a log holds."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from replay.report.annotate import ANNOTATED, Annotation, Annotations, FindingLevel, FindingRule
from tests.support.interchange import gitlab_issues, junit_cases, sarif_results

ODD = 'a "b" <c> & %0A,:\n\u202e\x00\udc80'
DENIED = Annotation("newly-denied", FindingLevel.ERROR, "3 requests", "p.static.k8s.io", "next/vap/p q.yaml", 4, 2)
MUTATED = replace(DENIED, rule="newly-mutated", level=FindingLevel.WARNING, message="1 request", column=0)
NO_WORKSPACE = Annotation("undecided", FindingLevel.NOTE, ODD, ODD)
ALL = Annotations(
    "replay run",
    (DENIED, MUTATED, NO_WORKSPACE),
    {"newly-denied": FindingRule("newly-denied", "Denied", "Ask them.")},
    (("next/vap/q.yaml", "q"),),
)


def test_github() -> None:
    first, second, third = ANNOTATED["github"](ALL).splitlines()
    assert first == (
        "::error file=next/vap/p q.yaml,line=4,col=2,title=replay run%3A newly-denied::p.static.k8s.io: 3 requests"
    )
    assert second.startswith("::warning file=next/vap/p q.yaml,line=4,title=replay run%3A newly-mutated::")
    assert third.startswith('::notice title=replay run%3A undecided::a "b" <c> & %250A,:%0A')


def test_sarif() -> None:
    denied, mutated, outside_kcp = sarif_results(ANNOTATED["sarif"](ALL))
    assert (denied.rule_id, denied.level, denied.message.text) == (
        "newly-denied",
        "error",
        "p.static.k8s.io: 3 requests",
    )
    place = denied.locations[0].physical_location
    assert place is not None
    assert place.region is not None
    assert (place.artifact_location.uri, place.region.start_line, place.region.start_column) == (
        "next/vap/p%20q.yaml",
        4,
        2,
    )
    assert mutated.level == "warning"
    assert (outside_kcp.level, outside_kcp.locations[0].physical_location) == ("note", None)


def test_gitlab() -> None:
    found = gitlab_issues(ANNOTATED["gitlab"](replace(ALL, findings=(replace(DENIED, path="p.yaml"), NO_WORKSPACE))))
    assert [(each.severity, each.location.path, each.location.lines.begin) for each in found] == [
        ("major", "p.yaml", 4),
        ("info", "cluster", 1),
    ]


def test_junit() -> None:
    cases = junit_cases(ANNOTATED["junit"](ALL))
    told = {case.attrib["name"]: [child.tag for child in case] for case in cases}
    odd = next(name for name in told if name.startswith("a"))
    assert told == {odd: ["system-out"], "p.static.k8s.io": ["failure", "system-out"], "q": []}


@pytest.mark.parametrize("name", ANNOTATED)
def test_nothing_is_found(name: str) -> None:
    text = ANNOTATED[name](Annotations("replay run", ()))
    {"sarif": sarif_results, "gitlab": gitlab_issues, "junit": junit_cases}.get(name, str)(text)


SAME = [
    ("other numbers", replace(DENIED, message="4 requests"), True),
    ("another line", replace(DENIED, line=9, column=1), True),
    ("the whole path", replace(DENIED, path=str(Path.cwd() / "next/vap/p q.yaml")), True),
    ("another policy", replace(DENIED, subject="other"), False),
    ("another rule", replace(DENIED, rule="lockout"), False),
    ("another file", replace(DENIED, path="p.yaml"), False),
    ("another detail", replace(DENIED, detail="spec.validations[1]"), False),
]


@pytest.mark.parametrize(("other", "is_same"), [row[1:] for row in SAME], ids=[row[0] for row in SAME])
def test_fingerprints_stay_the_same(other: Annotation, is_same: bool) -> None:
    assert (other.fingerprint == DENIED.fingerprint) is is_same


def test_a_file_elsewhere_keeps_its_whole_path(tmp_path: Path) -> None:
    assert replace(DENIED, path=str(tmp_path / "a b.yaml")).uri == (tmp_path / "a b.yaml").as_uri()

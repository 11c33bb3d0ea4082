from __future__ import annotations

import pytest

from replay.kube.selector import Requirement, SelectorError, exact_match, parse_field_selector, parse_label_selector


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", (), id="nothing"),
        pytest.param("a=b", (Requirement("a", "=", ("b",)),), id="equal"),
        pytest.param("a==b", (Requirement("a", "=", ("b",)),), id="doubly equal"),
        pytest.param("b!=c,a=b", (Requirement("a", "=", ("b",)), Requirement("b", "!=", ("c",))), id="sorted as texts"),
        pytest.param("a=x\\,y\\=z\\\\", (Requirement("a", "=", ("x,y=z\\",)),), id="escapes"),
        pytest.param("a=,", (Requirement("a", "=", ("",)),), id="an empty value"),
        pytest.param("=", (), id="neither field nor value"),
        pytest.param(",,", (), id="empty terms"),
    ],
)
def test_a_field_selector(text: str, expected: tuple[Requirement, ...]) -> None:
    assert parse_field_selector(text) == expected


@pytest.mark.parametrize("text", ["a", "a=b=c", "a=\\x", "a=b\\", "spec.nodeName"])
def test_no_field_selector(text: str) -> None:
    with pytest.raises(SelectorError):
        parse_field_selector(text)


def test_the_value_that_a_field_must_have() -> None:
    requirements = parse_field_selector("metadata.name!=a,metadata.name=b,x=y")
    assert exact_match(requirements, "metadata.name") == "b"
    assert exact_match(requirements, "z") is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", (), id="nothing"),
        pytest.param("b,!a", (Requirement("a", "!"), Requirement("b", "exists")), id="existence, sorted by key"),
        pytest.param("x in (c,a,b)", (Requirement("x", "in", ("a", "b", "c")),), id="values are sorted"),
        pytest.param("x notin ()", (Requirement("x", "notin", ("",)),), id="an empty set"),
        pytest.param("x in (,a)", (Requirement("x", "in", ("", "a")),), id="an empty value before a comma"),
        pytest.param("x in (a,)", (Requirement("x", "in", ("", "a")),), id="an empty value behind a comma"),
        pytest.param("in in (in)", (Requirement("in", "in", ("in",)),), id="a keyword as key and value"),
        pytest.param("a=,b", (Requirement("a", "=", ("",)), Requirement("b", "exists")), id="an empty exact value"),
        pytest.param("a > 1, b<2", (Requirement("a", ">", ("1",)), Requirement("b", "<", ("2",))), id="comparisons"),
        pytest.param("a.b/c==d", (Requirement("a.b/c", "==", ("d",)),), id="a prefix"),
        pytest.param("x in (a,a)", (Requirement("x", "in", ("a",)),), id="each value once"),
    ],
)
def test_a_label_selector(text: str, expected: tuple[Requirement, ...]) -> None:
    assert parse_label_selector(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        ",",
        "a,",
        "a in",
        "a in (",
        "a in (b",
        "a in (b c)",
        "!a=b",
        "!",
        "a b",
        "a=(",
        "a>x",
        "-a",
        "a=-",
        "()",
        "a/b/c",
    ],
)
def test_no_label_selector(text: str) -> None:
    with pytest.raises(SelectorError):
        parse_label_selector(text)


LABELS = {"app": "web", "size": "5"}
MATCHES: list[tuple[str, bool]] = [
    ("app=web", True),
    ("app==api", False),
    ("app!=api", True),
    ("tier!=api", True),
    ("app in (web, api)", True),
    ("tier in (web)", False),
    ("app notin (web)", False),
    ("tier notin (web)", True),
    ("app", True),
    ("tier", False),
    ("!tier", True),
    ("!app", False),
    ("size>4", True),
    ("size>5", False),
    ("size<6", True),
    ("tier>1", False),
    ("app<6", False),
    ("app=web,size<5", False),
]


@pytest.mark.parametrize(("text", "expected"), MATCHES, ids=[row[0] for row in MATCHES])
def test_labels_that_a_selector_matches(text: str, expected: bool) -> None:
    assert all(each.matches(LABELS) for each in parse_label_selector(text)) is expected

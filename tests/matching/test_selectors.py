"""Label selectors against what `metav1.LabelSelectorAsSelector` of apimachinery 0.37.1 answers."""

from __future__ import annotations

import pytest

from replay.kube.admissionregistration import LabelSelector, LabelSelectorRequirement
from replay.kube.attributes import Missing
from replay.matching.selectors import MatchSelectorError, selector_from_label_selector

LABELS: tuple[dict[str, str], ...] = ({}, {"a": "b"}, {"a": ""})

NAME = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


@pytest.mark.parametrize(
    ("operator", "values", "matches"),
    [
        ("In", ("b",), (False, True, False)),
        ("In", ("b", ""), (False, True, True)),
        ("NotIn", ("b",), (True, False, True)),
        ("NotIn", ("b", ""), (True, False, False)),
        ("Exists", (), (False, True, True)),
        ("DoesNotExist", (), (True, False, False)),
    ],
)
def test_operators(operator: str, values: tuple[str, ...], matches: tuple[bool, ...]) -> None:
    selector = selector_from_label_selector(
        LabelSelector(match_expressions=(LabelSelectorRequirement("a", operator, values),))
    )
    assert tuple(selector.matches(labels) for labels in LABELS) == matches


def test_all_requirements_must_hold() -> None:
    selector = selector_from_label_selector(
        LabelSelector({"a": "b"}, (LabelSelectorRequirement("c", "DoesNotExist"),)),
    )
    assert [selector.matches(labels) for labels in ({"a": "b"}, {"a": "b", "c": ""}, {})] == [True, False, False]


UNKNOWN = Missing("namespaceObject.metadata.labels.c", "it was changing")


@pytest.mark.parametrize(
    ("match_labels", "expected"),
    [({"a": "b"}, True), ({"a": "x", "c": "d"}, False), ({"c": "d"}, UNKNOWN), ({"a": "b", "c": "d"}, UNKNOWN)],
    ids=["another label", "another label says no", "the label itself", "both"],
)
def test_a_label_that_is_not_known_matters_where_it_is_asked_for(
    match_labels: dict[str, str], expected: bool | Missing
) -> None:
    assert selector_from_label_selector(LabelSelector(match_labels)).matches({"a": "b", "c": UNKNOWN}) is expected


def test_an_empty_selector_matches_everything() -> None:
    selector = selector_from_label_selector(LabelSelector())
    assert selector.is_empty
    assert selector.matches({})


@pytest.mark.parametrize(
    ("key", "operator", "values", "text"),
    [
        ("a", "In", (), "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"),
        ("a", "Gt", ("1",), '"Gt" is not a valid label selector operator'),
        (
            "a",
            "Exists",
            ("b", "c"),
            'values: Invalid value: ["b","c"]: values set must be empty for exists and does not exist',
        ),
        ("", "Exists", (), f'key: Invalid value: "": name part must be non-empty; name part {NAME}'),
        ("/a", "Exists", (), 'key: Invalid value: "/a": prefix part must be non-empty'),
        (
            "a/b/c",
            "Exists",
            (),
            (
                f"key: Invalid value: \"a/b/c\": a valid label key {NAME} with an optional DNS subdomain prefix and '/' "
                "(e.g. 'example.com/MyName')"
            ),
        ),
        (
            "A/b",
            "Exists",
            (),
            (
                'key: Invalid value: "A/b": prefix part a lowercase RFC 1123 subdomain must consist of lower case '
                "alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. "
                "'example.com', regex used for validation is "
                "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            ),
        ),
        (
            f"{'A' * 254}/b",
            "Exists",
            (),
            (
                f'key: Invalid value: "{"A" * 254}/b": prefix part must be no more than 253 bytes; prefix part a lowercase '
                "RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end "
                "with an alphanumeric character (e.g. 'example.com', regex used for validation is "
                "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            ),
        ),
        ("x" * 64, "Exists", (), f'key: Invalid value: "{"x" * 64}": name part must be no more than 63 bytes'),
        (
            "a",
            "In",
            ("b b", "é"),
            f'[values[0][a]: Invalid value: "b b": {VALUE}, values[1][a]: Invalid value: "é": {VALUE}]',
        ),
        (
            "a b",
            "In",
            ("c d",),
            f'[key: Invalid value: "a b": name part {NAME}, values[0][a b]: Invalid value: "c d": {VALUE}]',
        ),
    ],
)
def test_errors(key: str, operator: str, values: tuple[str, ...], text: str) -> None:
    label_selector = LabelSelector(match_expressions=(LabelSelectorRequirement(key, operator, values),))
    with pytest.raises(MatchSelectorError) as caught:
        selector_from_label_selector(label_selector)
    assert str(caught.value) == text

"""Partly known objects: what does not read a missing part is decided, and rightly so whatever that part is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.admission.inputs import Inputs
from replay.admission.validating.outcome import Action, PolicyDecision
from replay.admission.validating.validator import Validator
from replay.cel.value.values import TypedMap
from replay.cellib.version import NEWEST
from replay.kube.admissionregistration import ValidatingAdmissionPolicy, Validation, Variable
from replay.kube.attributes import Missing, PartialObject

MISSING = Missing("object.x", "not in the log")

VARIABLES = (
    Variable("spec", "object.kind == 'Pod' ? object.spec : object.spec.template.spec"),
    Variable("all", "variables.spec.containers + (has(variables.spec.init) ? variables.spec.init : [])"),
    Variable("bad", "variables.all.filter(c, c.image.startsWith('bad'))"),
)
EXPRESSIONS = (
    "object.kind == 'Pod'",
    "has(object.spec.volumes)",
    "!has(object.spec.volumes) || object.spec.volumes.all(v, v.name != 'x')",
    "object.spec.containers.all(c, c.image != 'bad')",
    "object.spec.containers.exists(c, has(c.mounts))",
    "object.spec.containers[0].image == 'good'",
    "object.spec.containers.size() == 2",
    "variables.bad.size() == 0",
    "variables.bad.map(c, c.name).join(',') != 'a'",
    "variables.all.all(c, c.image.matches('^good'))",
    "variables.all.size() < 3",
    "object.labels.all(k, k != 'b')",
    "object.labels.all(k, v, v != 'two')",
    "'b' in object.labels",
    "object.labels == {'a': 'one'}",
    "object.labels['a'] == 'one'",
    "object.?labels['b'].orValue('none') == 'two'",
    "object.spec.containers.map(c, c.image) == ['good', 'bad']",
    "object.spec.containers.exists_one(c, c.image == 'bad')",
    "size(object.labels) == 2",
    "[object.spec.containers[1]].all(c, c.image == 'bad')",
    "dyn(object).kind == 'Pod'",
)
VALIDATORS = {
    expression: Validator(
        ValidatingAdmissionPolicy("p", static=True, variables=VARIABLES, validations=(Validation(expression, "no"),)),
        NEWEST,
    )
    for expression in EXPRESSIONS
}
WHOLE: dict[str, Any] = {
    "kind": "Pod",
    "labels": {"a": "one", "b": "two"},
    "spec": {
        "containers": [{"name": "a", "image": "good", "mounts": [1]}, {"name": "b", "image": "bad"}],
        "init": [{"name": "i", "image": "good"}],
        "volumes": [{"name": "x"}],
    },
}
PLACES = (
    ("kind",),
    ("labels",),
    ("labels", "a"),
    ("labels", "b"),
    ("labels", "c"),
    ("spec", "volumes"),
    ("spec", "init"),
    ("spec", "init", 0, "image"),
    ("spec", "containers", 0, "mounts"),
    ("spec", "containers", 1, "mounts"),
    ("spec", "containers", 0, "image"),
    ("spec", "containers", 1, "name"),
)
ABSENT = object()
VALUES: tuple[Any, ...] = (
    ABSENT,
    None,
    "good",
    "bad",
    "one",
    "two",
    1,
    [],
    [{"name": "x", "image": "bad"}],
    {},
    {"b": "two"},
    {"a": "one"},
)


def replaced(value: Any, place: tuple[str | int, ...], part: Any) -> Any:
    """A copy with another part at a place, or without it; left as it is where the place is not there."""
    head, *rest = place
    if not isinstance(value, (dict, list)) or (isinstance(value, list) and not isinstance(head, int)):
        return value
    if isinstance(value, list):
        return [replaced(item, tuple(rest), part) if index == head else item for index, item in enumerate(value)]
    if rest:
        return {key: replaced(item, tuple(rest), part) if key == head else item for key, item in value.items()}
    kept = {key: item for key, item in value.items() if key != head}
    return kept if part is ABSENT else {**kept, head: part}


def decision(expression: str, obj: Any) -> PolicyDecision | None:
    bindings: dict[str, Any] = {"object": TypedMap(obj), "oldObject": None, "request": {}, "namespaceObject": None}
    result = VALIDATORS[expression].validate(Inputs(bindings, bindings["request"]))
    return result.decisions[0] if result.decisions else None


@pytest.mark.property
@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from(EXPRESSIONS),
    st.lists(st.tuples(st.sampled_from(PLACES), st.sampled_from(VALUES)), min_size=1, max_size=3),
)
def test_a_decision_about_a_part_holds_for_every_whole(
    expression: str, parts: list[tuple[tuple[str | int, ...], Any]]
) -> None:
    partial, whole = WHOLE, WHOLE
    for place, value in sorted(parts, key=lambda part: -len(part[0])):
        partial, whole = replaced(partial, place, MISSING), replaced(whole, place, value)
    decided = decision(expression, PartialObject(partial, (MISSING,)))
    if decided is None or decided.action is not Action.UNKNOWN:
        assert decided == decision(expression, whole)


@pytest.mark.parametrize(
    ("expression", "place", "is_decided"),
    [
        ("variables.bad.size() == 0", ("spec", "volumes"), True),
        ("variables.bad.size() == 0", ("spec", "containers", 0, "mounts"), True),
        ("variables.bad.size() == 0", ("spec", "containers", 0, "image"), False),
        ("variables.bad.size() == 0", ("spec", "init"), False),
        ("has(object.spec.volumes)", ("spec", "volumes"), False),
        ("'b' in object.labels", ("spec", "volumes"), True),
        ("object.labels.all(k, k != 'b')", ("labels", "c"), False),
        ("object.labels['a'] == 'one'", ("labels", "c"), True),
        ("variables.bad.map(c, c.name).join(',') != 'a'", ("spec", "containers", 1, "mounts"), True),
    ],
)
def test_what_is_read(expression: str, place: tuple[str | int, ...], *, is_decided: bool) -> None:
    decided = decision(expression, PartialObject(replaced(WHOLE, place, MISSING), (MISSING,)))
    assert (decided is None or decided.action is not Action.UNKNOWN) is is_decided


def test_only_the_parts_that_are_read_are_named() -> None:
    other = Missing("object.spec.volumes", "nor is this")
    obj = replaced(replaced(WHOLE, ("labels", "a"), MISSING), ("spec", "volumes"), other)
    decided = decision("object.labels['a'] == 'one'", PartialObject(obj, (MISSING, other)))
    assert decided is not None
    assert decided.unknown == (MISSING,)

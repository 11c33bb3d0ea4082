"""Inputs with equal projections give the same result; inputs that differ in what is read have different ones."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replay.admission.alike import LONGEST, ProjectionKey, RequestBindings, UnknownPart, projection
from replay.cel.value.values import TypedMap
from replay.cellib.composition import Evaluation
from replay.cellib.environment import ExpressionKind
from replay.cellib.expression import ExpressionCompiler
from replay.cellib.tagged import tagged
from replay.cellib.version import NEWEST
from replay.kube.attributes import Missing, PartialObject
from replay.pipeline.cel import bindings_of
from tests.support import expression_strategies as strategies
from tests.support.creation import creation_of_pod


def plain(value: Any, **others: Any) -> RequestBindings:
    return RequestBindings(creation_of_pod(value, **{"namespace": "", "namespace_object": None, **others}))


def projected(value: Any, *paths: str) -> ProjectionKey | None:
    project = projection(frozenset(paths))
    return None if project is None else project(plain(value))


def partly(*path: str, reason: str = "not in the log") -> PartialObject:
    """An object of which a part is not known."""
    missing = Missing(f"object.{'.'.join(path)}", reason)
    value: Any = missing
    for name in reversed(path):
        value = {name: value}
    return PartialObject(value, (missing,))


def in_list(index: int) -> PartialObject:
    """An object with two elements, of one of which a part is not known."""
    missing = Missing(f"object.l[{index}].b", "not in the log")
    return PartialObject({"l": [{"b": missing if index == each else 1} for each in range(2)]}, (missing,))


ALIKE: dict[str, tuple[tuple[str, ...], list[Any]]] = {
    "what is not read": (("object.a",), [{"a": 1, "b": 1}, {"b": 2, "a": 1}, {"a": 1}]),
    "whether there is a field": (("object.a?",), [{"a": 1}, {"a": "x"}, {"a": [2]}]),
    "how many elements": (("object.a[]?",), [{"a": [1, 2]}, {"a": ["x", None]}]),
    "which keys": (("object.a[]?",), [{"a": {"k": 1}}, {"a": {"k": 2}}]),
    "a part of each element": (("object.a[].b",), [{"a": [{"b": 1, "c": 1}]}, {"a": [{"b": 1}]}]),
    "a part of each entry": (("object.a[].b",), [{"a": {"k": {"b": 1, "c": 1}}}, {"a": {"k": {"b": 1}}}]),
    "a path and another one that it begins": (
        ("object.a", "object.a.b.c"),
        [{"a": {"b": {"c": 1}}, "d": 1}, {"a": {"b": {"c": 1}}}],
    ),
    "a key that is no identifier": (('object.a["x/y"]?',), [{"a": {"x/y": 1}}, {"a": {"x/y": 2, "z": 3}}]),
}
OTHERS: dict[str, tuple[tuple[str, ...], list[Any]]] = {
    "types that Python holds for equal": (("object.a",), [{"a": 1}, {"a": 1.0}, {"a": True}, {"a": "1"}]),
    "zeros": (
        ("object.a",),
        [{"a": 0}, {"a": 0.0}, {"a": -0.0}, {"a": False}, {"a": None}, {"a": ""}, {"a": []}, {"a": {}}, {}],
    ),
    "absence along the path": (
        ("object.a.b",),
        [{}, {"a": None}, {"a": {}}, {"a": {"b": None}}, None, {"a": []}, {"a": "b"}],
    ),
    "whether a field is null or empty": (("object.a?",), [{"a": None}, {"a": {}}, {"a": ""}, {"a": 1}, {}]),
    "whether there is a field": (("object.a.b?",), [{"a": {"b": 1}}, {"a": {}}, {"a": ["b"]}, {"a": ["c"]}, {}]),
    "how many elements": (
        ("object.a[]?",),
        [{"a": []}, {"a": [1]}, {"a": {}}, {"a": {"1": 1}}, {"a": "1"}, {"a": 1}, {}],
    ),
    "a list, a map and their projections": (
        ("object.a.b", "object.a.c"),
        [{"a": {"b": 1, "c": 2}}, {"a": [1, 2]}, {"a": {"b": [1, 2]}}, {"a": {"b": 2, "c": 1}}],
    ),
    "parts of lists and of maps": (
        ("object.a[].b", "object.a.c"),
        [{"a": [{"b": 1}]}, {"a": {"c": {"b": 1}}}, {"a": {"d": {"b": 1}}}, {"a": [1]}, {"a": [[1]]}, {"a": [{}]}],
    ),
    "long integers": (("object.a",), [{"a": 2**63 - 1}, {"a": float(2**63)}, {"a": 2**53 + 1}, {"a": float(2**53)}]),
    "what is no number": (("object.a",), [{"a": float("nan")}, {"a": None}, {"a": float("inf")}]),
}
NONE: dict[str, tuple[str, Any]] = {
    "authorizer": ("authorizer.requestResource", {"a": 1}),
    "parameters": ("params.a", {"a": 1}),
    "any variable": ("variables[]", {"a": 1}),
    "what is too long": ("object.a", {"a": "x" * LONGEST}),
    "half of a character": ("object.a", {"a": "\ud800"}),
}


@pytest.mark.parametrize("name", ALIKE)
def test_alike(name: str) -> None:
    paths, values = ALIKE[name]
    contents = {projected(value, *paths) for value in values}
    assert len(contents) == 1
    assert None not in contents


@pytest.mark.parametrize("name", OTHERS)
def test_others(name: str) -> None:
    paths, values = OTHERS[name]
    contents = {projected(value, *paths) for value in values}
    assert len(contents) == len(values)
    assert None not in contents


@pytest.mark.parametrize("name", NONE)
def test_no_projection(name: str) -> None:
    path, value = NONE[name]
    assert projected(value, path) is None


def test_what_is_partly_known() -> None:
    missing = Missing("object.a.b", "not in the log")
    value = PartialObject({"a": {"b": missing, "c": 1}, "d": {}}, (missing,))
    paths = ("object.a.c", "object.a?", "object.d.b", "object.a.b", "object.a", "object.a.b?", "object.a[]?", "object")
    known = {"a": {"c": 1}, "d": {}}
    assert [projected(value, path) == projected(known, path) for path in paths] == [True] * 3 + [False] * 5
    parts = [content[1] for path in paths[3:] if isinstance(content := projected(value, path), tuple)]
    assert parts == [(UnknownPart("object", ("a", "b"), missing),)] * 5


UNKNOWN: dict[str, tuple[tuple[str, ...], list[Any]]] = {
    "why it is not known": (
        ("object.a",),
        [Missing("object", "one"), Missing("object", "other"), Missing("object", "one", "a fix")],
    ),
    "why it is not known whether there is a field": (
        ("object.a.b?",),
        [partly("a", "b"), partly("a", "b", reason="other"), {"a": {"b": 1}}],
    ),
    "what is not known": (
        ("object.a.b", "object.a.c"),
        [partly("a", "b"), partly("a", "c"), partly("a"), Missing("object", "not in the log")],
    ),
    "what is written as if it were not known": (
        ("object.a.b",),
        [partly("a", "b"), {"a": {"b": {"path": "object.a.b", "reason": "not in the log", "fix": ""}}}],
    ),
    "where in a list": (("object.l[].b",), [in_list(0), in_list(1)]),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_not_known_is_part_of_it(name: str) -> None:
    paths, values = UNKNOWN[name]
    contents = {projected(value, *paths) for value in values}
    assert len(contents) == len(values)
    assert None not in contents
    assert contents == {projected(copy.deepcopy(value), *paths) for value in values}


def test_bindings() -> None:
    paths = ("object", "oldObject", "namespaceObject", "request.userInfo.username", "request.name")
    contents = [projected({}, path) for path in paths]
    assert contents == [b"\x91\x80", b"\x91\xc0", b"\x91\xc0", b"\x91\x91\x91\xa4jane", b"\x91\x91\xa3web"]


@st.composite
def similar_objects(draw: Any) -> tuple[Any, Any]:
    """An object, and one that differs from it in one part."""
    value = draw(strategies.OBJECTS)
    other = copy.deepcopy(value)
    container, keys = other, list(other)
    while True:
        key = draw(st.sampled_from(keys))
        inner = container[key]
        keys = list(inner) if isinstance(inner, dict) else list(range(len(inner))) if isinstance(inner, list) else []
        if not keys or draw(st.booleans()):
            break
        container = inner
    if draw(st.booleans()):
        del container[key]
    else:
        container[key] = draw(strategies.JSON)
    return value, other


@pytest.mark.property
@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(strategies.expressions(), similar_objects(), st.booleans())
def test_equal_projections_give_the_same_result_at_the_same_cost(
    expression: str, objects: tuple[Any, Any], typed: bool
) -> None:
    compiler = ExpressionCompiler(NEWEST, has_params=False)
    compiled = compiler.compile(ExpressionKind.VARIABLE, expression)

    def outcome(value: Any) -> Any:
        bindings = bindings_of({"vars": {"object": value}})
        if typed:
            bindings["object"] = TypedMap(value)
        evaluated = Evaluation(compiler, bindings, 10**7, exact=True).evaluate(compiled)
        return evaluated.error or tagged(evaluated.value), evaluated.unknown, evaluated.cost

    contents = [projected(value, *compiled.footprint) for value in objects]
    if contents[0] is not None and contents[0] == contents[1]:
        one, other = map(outcome, objects)
        assert one == other

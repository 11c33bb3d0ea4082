"""Expressions of a policy together: result types, variables, budget, unknowns, what each kind sees."""

from __future__ import annotations

from typing import Any

import pytest

from replay.cel.value.values import TypedMap
from replay.cellib.composition import OUT_OF_BUDGET, Evaluated, Evaluation
from replay.cellib.environment import ExpressionKind
from replay.cellib.expression import CompiledExpression, ExpressionCompiler
from replay.cellib.version import NEWEST, KubernetesVersion
from replay.kube.attributes import Missing, PartialObject

BUDGET = 10_000_000
OBJECT = Missing("object", "the log has no body")
SPEC = Missing("object.spec", "the patch cannot be applied")


def compiler_with(variables: dict[str, str] | None = None) -> ExpressionCompiler:
    compiler = ExpressionCompiler(NEWEST, has_params=True)
    for name, expression in (variables or {}).items():
        compiler.declare_variable(name, expression)
    return compiler


def evaluated(
    expression: str,
    bindings: dict[str, Any],
    variables: dict[str, str] | None = None,
    kind: ExpressionKind = ExpressionKind.VARIABLE,
) -> Evaluated:
    compiler = compiler_with(variables)
    return Evaluation(compiler, bindings, BUDGET, exact=True).evaluate(compiler.compile(kind, expression))


RESULT_TYPES = [
    ("validation", ExpressionKind.VALIDATION, "1", "must evaluate to bool but got int"),
    ("dyn is no bool", ExpressionKind.VALIDATION, "object.a", "must evaluate to bool but got dyn"),
    ("message", ExpressionKind.MESSAGE_EXPRESSION, "1", "must evaluate to string but got int"),
    ("annotation", ExpressionKind.AUDIT_ANNOTATION, "1", "must evaluate to one of [string null_type] but got int"),
    ("patch", ExpressionKind.JSON_PATCH, "[1]", "must evaluate to list(JSONPatch) but got list(int)"),
    ("null is an object", ExpressionKind.APPLY_CONFIGURATION, "true ? Object{} : null", None),
    ("any type", ExpressionKind.VARIABLE, "duration('1h')", None),
]


@pytest.mark.parametrize(
    ("kind", "expression", "error"), [row[1:] for row in RESULT_TYPES], ids=[row[0] for row in RESULT_TYPES]
)
def test_result_types(kind: ExpressionKind, expression: str, error: str | None) -> None:
    assert compiler_with().compile(kind, expression).error == error


UNKNOWN = [
    ("the whole object", "object.a == 1", {"object": OBJECT}, (OBJECT,)),
    ("absorbed", "object.a == 1 || true", {"object": OBJECT}, True),
    ("absorbed by what comes first", "true || object.a == 1", {"object": OBJECT}, True),
    ("false is not enough", "object.a == 1 || false", {"object": OBJECT}, (OBJECT,)),
    ("an error gives way", "1 / 0 == 1 || object.a", {"object": OBJECT}, (OBJECT,)),
    ("two", "object.a || oldObject.a", {"object": OBJECT, "oldObject": SPEC}, (OBJECT, SPEC)),
    ("presence", "has(object.a)", {"object": OBJECT}, (OBJECT,)),
    ("in a list", "[object.a].size() == 1", {"object": OBJECT}, (OBJECT,)),
    ("a fold over it", "object.l.all(x, true)", {"object": OBJECT}, (OBJECT,)),
    ("the other part", "object.a == 1", {"object": PartialObject({"a": 1, "spec": SPEC}, (SPEC,))}, True),
    ("the missing part", "object.spec.x == 1", {"object": PartialObject({"a": 1, "spec": SPEC}, (SPEC,))}, (SPEC,)),
    ("the whole of a part", "size(object) == 2", {"object": PartialObject({"a": 1, "spec": SPEC}, (SPEC,))}, (SPEC,)),
    (
        "beside the missing part",
        "object.m.b == 2",
        {"object": PartialObject({"m": {"b": 2, "c": SPEC}}, (SPEC,))},
        True,
    ),
    ("no null", "object == null", {"object": PartialObject({"spec": SPEC}, (SPEC,))}, False),
    ("no null, from the right", "null != object.m", {"object": PartialObject({"m": {"c": SPEC}}, (SPEC,))}, True),
    ("perhaps null", "object.spec == null", {"object": PartialObject({"spec": SPEC}, (SPEC,))}, (SPEC,)),
    ("perhaps equal", "object == {'spec': 1}", {"object": PartialObject({"spec": SPEC}, (SPEC,))}, (SPEC,)),
    ("an element", "object.l[0] == 1", {"object": PartialObject({"l": [1, SPEC]}, (SPEC,))}, True),
    ("the missing element", "object.l[1] == 1", {"object": PartialObject({"l": [1, SPEC]}, (SPEC,))}, (SPEC,)),
    ("optional selection", "object.?spec.?x.orValue(1) == 1", {"object": OBJECT}, (OBJECT,)),
]


@pytest.mark.parametrize(
    ("expression", "bindings", "expected"), [row[1:] for row in UNKNOWN], ids=[row[0] for row in UNKNOWN]
)
def test_unknowns(expression: str, bindings: dict[str, Any], expected: Any) -> None:
    result = evaluated(expression, bindings)
    assert (result.unknown or result.value) == expected
    compiler = compiler_with()
    fast = Evaluation(compiler, bindings, BUDGET).evaluate(compiler.compile(ExpressionKind.VARIABLE, expression))
    assert (fast.unknown, fast.value, fast.error) == (result.unknown, result.value, result.error)


def test_an_unknown_variable_is_unknown_where_it_is_read() -> None:
    assert evaluated("variables.v == 1 && true", {"object": OBJECT}, {"v": "object.a"}).unknown == (OBJECT,)


VARIABLES = [
    ("one after the other", {"a": "1", "b": "variables.a + 1"}, "variables.b", 2, None),
    (
        "an error where it is read",
        {"a": "1 / 0"},
        "variables.a",
        None,
        'composited variable "a" fails to evaluate: division by zero',
    ),
    ("an error that is not read", {"a": "1 / 0"}, "true || variables.a == 1", True, None),
    ("one that reads itself", {"a": "1", "a ": "1"}, "variables.a", 1, None),
]


@pytest.mark.parametrize(
    ("variables", "expression", "value", "error"), [row[1:] for row in VARIABLES], ids=[row[0] for row in VARIABLES]
)
def test_variables(variables: dict[str, str], expression: str, value: Any, error: str | None) -> None:
    result = evaluated(expression, {}, variables)
    assert (result.value, result.error) == (value, error)


def test_a_variable_that_does_not_compile_fails_where_it_is_read() -> None:
    result = evaluated("variables.a", {}, {"a": "nope"})
    assert result.error is not None
    assert result.error.startswith(
        'composited variable "a" fails to compile: compilation failed: ERROR: <input>:1:1: undeclared'
    )


def test_a_variable_is_charged_once() -> None:
    compiler = compiler_with({"v": "[1, 2, 3].map(x, x)"})
    read = compiler.compile(ExpressionKind.VARIABLE, "variables.v")
    evaluation = Evaluation(compiler, {}, BUDGET, exact=True)
    first, second = evaluation.evaluate(read).cost, evaluation.evaluate(read).cost
    assert (first, second) == (42, 2)


def test_the_budget_is_shared_and_ends_the_evaluation() -> None:
    compiler = compiler_with()
    costly = compiler.compile(ExpressionKind.VALIDATION, "[1, 2, 3].all(x, x > 0)")
    evaluation = Evaluation(compiler, {}, 50, exact=True)
    outcomes = [evaluation.evaluate(costly) for _ in range(5)]
    assert [outcome.error for outcome in outcomes[-2:]] == [OUT_OF_BUDGET, OUT_OF_BUDGET]
    assert outcomes[0].value is True
    uncounted = Evaluation(compiler, {}, 50)
    assert [uncounted.evaluate(costly).error for _ in range(5)] == [outcome.error for outcome in outcomes]


def test_what_is_left_of_a_budget_is_exact_in_the_end() -> None:
    compiler = compiler_with()
    check = compiler.compile(ExpressionKind.VALIDATION, "object.l.all(x, x > 0)")
    first = Evaluation(compiler, {"object": {"l": [1, 2, 3]}}, BUDGET)
    assert first.evaluate(check).value is True
    second = Evaluation(compiler, {"object": {"l": [1, 2, 3]}}, first.remaining)
    second.evaluate(check)
    cost = Evaluation(compiler, {"object": {"l": [1, 2, 3]}}, BUDGET, exact=True).evaluate(check).cost
    assert cost is not None
    assert second.exactly_remaining() == BUDGET - 2 * cost


KINDS = [
    ("match conditions have no namespace", ExpressionKind.MATCH_CONDITION, "namespaceObject == null", True, None),
    ("validations have one", ExpressionKind.VALIDATION, "namespaceObject == null", False, None),
    (
        "annotations have no authorizer",
        ExpressionKind.AUDIT_ANNOTATION,
        "string(authorizer.path('/').check('get').allowed())",
        None,
        "no such attribute(s): authorizer",
    ),
]


@pytest.mark.parametrize(
    ("kind", "expression", "value", "error"), [row[1:] for row in KINDS], ids=[row[0] for row in KINDS]
)
def test_what_a_kind_sees(kind: ExpressionKind, expression: str, value: Any, error: str | None) -> None:
    bindings = {"namespaceObject": {"metadata": {"name": "n"}}}
    for exact in (True, False):
        compiler = compiler_with()
        result = Evaluation(compiler, bindings, BUDGET, exact=exact).evaluate(compiler.compile(kind, expression))
        assert (result.value, result.error) == (value, error)


def test_typed_objects_compare_otherwise() -> None:
    assert evaluated("object.m == 1", {"object": {"m": {}}}).value is False
    assert evaluated("object.m == 1", {"object": TypedMap({"m": {}})}).error == "no such overload"


FOOTPRINTS = [
    ("fields", "object.spec.replicas > 1", {"object.spec.replicas"}),
    ("elements", "object.l.all(c, c.image == 'a')", {"object.l[].image"}),
    ("only how many", "object.l.all(c, true)", {"object.l[]?"}),
    ("presence", "has(object.a.b)", {"object.a.b?"}),
    ("a key that is no name", "object.metadata.labels['a/b'] == ''", {'object.metadata.labels["a/b"]'}),
    ("a computed key", "object.m[object.k] == 1", {"object.m[]", "object.k"}),
    ("a branch", "(object.a ? object.b : object.c).d == 1", {"object.a", "object.b.d", "object.c.d"}),
    ("a variable", "variables.v.x == 1", {"object.w.x"}),
    ("a key in a map", "'k' in object.m", {"object.m.k?"}),
    ("a computed key in a map", "object.k in object.m", {"object.m", "object.k"}),
    ("nothing", "1 + 1", set()),
]


@pytest.mark.parametrize(("expression", "paths"), [row[1:] for row in FOOTPRINTS], ids=[row[0] for row in FOOTPRINTS])
def test_footprint(expression: str, paths: set[str]) -> None:
    compiled: CompiledExpression = compiler_with({"v": "object.w"}).compile(ExpressionKind.VARIABLE, expression)
    assert compiled.footprint == paths


def test_an_older_server_refuses_what_it_does_not_know() -> None:
    compiler = ExpressionCompiler(KubernetesVersion.parse("1.30"), has_params=False)
    assert "undeclared reference to 'semver'" in str(compiler.compile(ExpressionKind.VARIABLE, "semver('1.0.0')").error)

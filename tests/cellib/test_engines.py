"""The compiled path against the strict engine: the same answer, or none."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replay.cel.value.values import TypedMap
from replay.cellib.composition import Evaluated, Evaluation
from replay.cellib.environment import ExpressionKind
from replay.cellib.expression import ExpressionCompiler
from replay.cellib.tagged import tagged
from replay.cellib.version import NEWEST
from replay.pipeline.cel import bindings_of
from tests.support import expression_strategies as strategies


def outcome(evaluated: Evaluated) -> Any:
    """What an evaluation came to, comparable."""
    if evaluated.error is not None:
        return evaluated.error
    return json.dumps(tagged(evaluated.value))


def both(expression: str, variables: dict[str, str], given_vars: dict[str, Any], *, typed: bool) -> tuple[Any, Any]:
    """The outcome with compiled code where it answers, and the strict one; None where the expression is refused."""
    compiler = ExpressionCompiler(NEWEST, has_params=False)
    for name, text in variables.items():
        compiler.declare_variable(name, text)
    compiled = compiler.compile(ExpressionKind.VARIABLE, expression)
    if compiled.error:
        return None, None
    bindings = bindings_of({"vars": given_vars})
    if typed:
        bindings["object"] = TypedMap(bindings["object"])
    fast = Evaluation(compiler, bindings, 10**7)
    strict = Evaluation(compiler, bindings, 10**7, exact=True)
    answers = outcome(fast.evaluate(compiled)), outcome(strict.evaluate(compiled))
    # The bound holds, and recounting gives the exact figure.
    assert fast.remaining <= strict.exactly_remaining()
    assert fast.exactly_remaining() == strict.exactly_remaining()
    return answers


@pytest.mark.property
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(strategies.expressions(), strategies.OBJECTS, strategies.OBJECTS, st.booleans())
def test_random_expressions_give_the_same_on_both_engines(
    expression: str, new: dict[str, Any], old: dict[str, Any], typed: bool
) -> None:
    fast, strict = both(expression, {}, {"object": new, "oldObject": old}, typed=typed)
    assert fast == strict


@pytest.mark.property
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(strategies.expressions(depth=3), strategies.expressions(depth=2), strategies.OBJECTS, st.booleans())
def test_variables_give_the_same_on_both_engines(variable: str, other: str, new: dict[str, Any], typed: bool) -> None:
    expression = f"[dyn(variables.v), dyn({other}), dyn(variables.v)]"
    fast, strict = both(expression, {"v": variable}, {"object": new, "oldObject": {}}, typed=typed)
    assert fast == strict


ROWS = [
    ("an error is absorbed by what comes after it", "object.zz == 1 || object.a == 1", {"a": 1}, '{"bool": true}'),
    ("a number is no bool", "object.a == true", {"a": 1}, '{"bool": false}'),
    ("a bool is no number", "object.a == 1", {"a": True}, '{"bool": false}'),
    ("a bool is no element", "object.a in [1, 2]", {"a": True}, '{"bool": false}'),
    ("doubles equal ints", "object.a == 1", {"a": 1.0}, '{"bool": true}'),
    ("a text is not a list", "object.a.all(x, true)", {"a": "abc"}, "got 'types.String', expected iterable type"),
    ("a list has no fields", "has(object.a.b)", {"a": ["b"]}, "unsupported index type 'string' in list"),
    ("a text has no fields", "has(object.a.b)", {"a": "b"}, '{"bool": false}'),
    ("text by index", "object.a[0] == 'b'", {"a": "b"}, "no such key: 0"),
    ("overflow", "object.a + object.a > 0", {"a": 2**62}, "integer overflow"),
    ("nested bools and numbers", "object.a == object.b", {"a": [True], "b": [1]}, '{"bool": false}'),
    ("unequal because of an error", "object.a != 1", {"a": {}}, '{"bool": true}'),
    ("an optional is no value", "dyn(optional.of(1)) == 1", {}, '{"bool": false}'),
    ("keywords as names", "object.a.all(def, def > 0)", {"a": [1]}, '{"bool": true}'),
    ("names of helpers", "object.a.exists(leave, leave == 1)", {"a": [1]}, '{"bool": true}'),
]


@pytest.mark.parametrize(("expression", "value", "expected"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_both_engines(expression: str, value: dict[str, Any], expected: str) -> None:
    assert both(expression, {}, {"object": value}, typed=False) == (expected, expected)


NOISE = st.one_of(st.text(max_size=60), st.text("(){}[].,:?!&|<>='\"\\ \n+-*/%abjectsiz019ru", max_size=60))


@pytest.mark.property
@settings(max_examples=150, deadline=None)
@given(NOISE)
def test_no_text_raises(text: str) -> None:
    compiler = ExpressionCompiler(NEWEST, has_params=True)
    compiled = compiler.compile(ExpressionKind.VARIABLE, text)
    evaluated = Evaluation(compiler, {"object": {}}, 10**6).evaluate(compiled)
    assert bool(compiled.error) == (compiled.program is None)
    assert evaluated.error is not None or compiled.program is not None


SEALED = [
    "object.__class__",
    "object['__class__']",
    "'a'.__class__ == 'b'",
    "[1].map(__builtins__, __builtins__)",
    "[1].exists(evaluate, evaluate == 1)",
    r"""object.a == '\\' + "'''\"" + "__import__('os')" """,
    """object["'] or __import__('os') or x['"] == 1""",
]


@pytest.mark.parametrize("expression", SEALED)
def test_no_expression_reaches_python(expression: str) -> None:
    fast, strict = both(expression, {}, {"object": {"a": 1}}, typed=False)
    assert fast == strict
    assert "<class" not in str(fast)


def test_compiled_code_has_no_builtins_and_reaches_no_attribute() -> None:
    compiler = ExpressionCompiler(NEWEST, has_params=False)
    text = "object.l.all(x, x.a.startsWith('b') && x.?c.orValue('d') in ['d'] && size(x.e) < 5)"
    program = compiler.compile(ExpressionKind.VALIDATION, text).program
    assert program is not None
    code = program.compiled
    assert code is not None
    assert getattr(code.function, "__globals__")["__builtins__"] == {}  # noqa: B009 - the type says only Callable
    assert not re.search(r"[\w\])]\.[A-Za-z_]", code.source)

"""How expressions are drawn with the values of their parts: the lines, whole."""

from __future__ import annotations

from typing import Any

import pytest

from replay.cel.value.values import Value
from replay.cellib.activation import Activation, Views
from replay.cellib.environment import ExpressionKind, admission_env
from replay.cellib.variables import VariableValues
from replay.cellib.version import KubernetesVersion
from replay.kube.attributes import Missing
from replay.report.expression import expression_lines, shown

POD = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {
        "replicas": 12,
        "containers": [{"name": "a"}, {"name": "b", "image": "x:latest"}],
        "numbers": [1, 2, 3, 4, 5, -1],
        "parts": {"x": 1, "y": -1},
    },
}
CASES = [
    (
        "what decides comes first, the rest is not evaluated",
        "object.spec.replicas > 10 || object.spec.replicas < 0",
        "true",
        [
            "object.spec.replicas > 10 → true",
            "  object.spec.replicas → 12",
            "object.spec.replicas < 0 → not evaluated",
        ],
    ),
    (
        "the rounds of a macro",
        "object.spec.containers.all(c, !has(c.image) || !c.image.endsWith('latest'))",
        "false",
        [
            'object.spec.containers → [{"name": "a"}, {"name": "b", "image": "x:latest"}]',
            'c = {"name": "a"}:',
            '  !has(c.image) || !c.image.endsWith("latest") → true',
            "    !has(c.image) → true",
            '    !c.image.endsWith("latest") → not evaluated',
            'c = {"name": "b", "image": "x:latest"}:',
            '  !has(c.image) || !c.image.endsWith("latest") → false',
            "    !has(c.image) → false",
            '    !c.image.endsWith("latest") → false',
            '      c.image → "x:latest"',
        ],
    ),
    (
        "rounds in the middle are left out",
        "object.spec.numbers.all(n, n > 0)",
        "false",
        [
            "object.spec.numbers → [1, 2, 3, 4, 5, -1]",
            "n = 1:",
            "  n > 0 → true",
            "n = 2:",
            "  n > 0 → true",
            "… 3 more rounds",
            "n = -1:",
            "  n > 0 → false",
        ],
    ),
    (
        "two variables",
        "object.spec.parts.exists(k, v, v < 0)",
        "true",
        [
            'object.spec.parts → {"x": 1, "y": -1}',
            'k = "x", v = 1:',
            "  v < 0 → false",
            'k = "y", v = -1:',
            "  v < 0 → true",
        ],
    ),
    (
        "an error stands where it began",
        "object.spec.nothing.at == 1",
        "error: no such key: nothing",
        ["object.spec.nothing.at → error: no such key: nothing"],
    ),
    (
        "optionals and the branch that is taken",
        "object.metadata.?labels['team'].hasValue() ? object.a : object.spec.replicas == 12",
        "true",
        [
            'object.metadata.?labels["team"].hasValue() → false',
            '  object.metadata.?labels["team"] → optional.none()',
            "object.a → not evaluated",
            "object.spec.replicas == 12 → true",
            "  object.spec.replicas → 12",
        ],
    ),
    (
        "what is not known says why",
        "oldObject.spec == 1",
        "unknown: oldObject (nobody recorded it)",
        ["oldObject.spec → unknown: oldObject (nobody recorded it)"],
    ),
]


def untouched(_text: str, value: Value) -> Value:
    return value


def evaluated(expression: str, bindings: dict[str, Any]) -> tuple[Any, Any, Any]:
    env = admission_env(KubernetesVersion.parse("1.37"), ExpressionKind.VALIDATION, has_params=False, variables={})
    program = env.program(env.compile(expression))  # type: ignore[arg-type]
    scope = Activation(bindings).scope(Views.TYPED)
    scope.use_kind(ExpressionKind.VALIDATION)
    result, trace = program.trace(scope.with_variables(VariableValues({}, scope)))
    return program.ast, result, trace


@pytest.mark.parametrize(
    ("expression", "value", "lines"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_drawing(expression: str, value: str, lines: list[str]) -> None:
    bindings = {"object": POD, "oldObject": Missing("oldObject", "nobody recorded it"), "request": {}}
    ast, result, trace = evaluated(expression, bindings)
    assert shown(result.value) == value
    assert expression_lines(ast, trace, untouched) == lines


def test_long_values_are_cut() -> None:
    assert shown("x" * 500) == f'"{"x" * 119}… (502 characters)'


def test_what_is_concealed_is_not_drawn() -> None:
    ast, _, trace = evaluated("object.data.key == 'hunter2'", {"object": {"data": {"key": "hunter3"}}, "request": {}})
    lines = expression_lines(ast, trace, lambda text, value: "(redacted)" if ".data" in text else value)
    assert lines == ['object.data.key → "(redacted)"']

"""What changed from minor to minor in the language and the libraries, a row a rule: the first minor that answers as today."""

from __future__ import annotations

from typing import Any

import pytest

from replay.cel.value.values import TypedMap
from replay.cellib.composition import Evaluation
from replay.cellib.environment import ExpressionKind
from replay.cellib.expression import ExpressionCompiler
from replay.cellib.version import NEWEST_MINOR, OLDEST_MINOR, KubernetesVersion

OBJECT = {"u": "http://a/b", "l": [1, 2], "m": {"a": "x"}, "s": "abc"}
IS_LABEL = (
    "'name part must be no more than 63 bytes' in format.qualifiedName().validate('a'.replace('a', '{}')).value()"
)
LABEL = "a" * 64

RULES: list[tuple[str, str, int, Any]] = [
    ("fields in backticks", "object.m.`a` == 'x'", 37, True),
    ("orValue of no optional", "dyn(1).orValue(2)", 37, "no such overload"),
    ("optionals keep what they hold", "object.?u.optMap(x, url(x)).value().getHost() == 'a'", 37, True),
    ("optionals keep their layers", "optional.of(1).optMap(x, optional.of(x)).value().value()", 37, 1),
    ("duration of an int", "duration(object.l[0])", 37, "no such overload: duration(int)"),
    ("an empty text is found at the end", "'abc'.indexOf('', 9)", 37, 3),
    ("backwards, too", "'abc'.lastIndexOf('', 9)", 37, 3),
    ("ranges have a limit", "lists.range(2000000).size() == 0", 37, "lists.range: size 2000000 exceeds maximum allowed (1000000)"),
    ("ranges are not negative", "lists.range(-1)", 37, "lists.range: size must be non-negative, got -1"),
    ("http hosts have no colon", "isURL('http://a:1:2/')", 36, False),
    ("lengths in bytes", IS_LABEL.format(LABEL), 35, True),
    ("the exponent", "'%e'.format([0.0])", 33, "0.000000\N{MULTIPLICATION SIGN}10⁰⁰"),
    ("surrogates", r"'\ud800'", 33, "invalid unicode code point"),
    ("a second variable over dyn", "object.m.all(k, v, v == 'x')", 33, True),
    ("optional lists", "[1].first().value()", 33, 1),
    ("names of accumulators", "[1].all(__result__, true)", 33, "iteration variable overwrites accumulator variable"),
    ("percent signs", "%s", 33, "extraneous input '%' expecting"),
    ("networks inside networks", "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')", 32, True),
    ("beyond the end nothing is found", "'abc'.indexOf('c', 3)", 32, -1),
    ("messages of the server's types", "kubernetes.UserInfo{username: 'a'}", 32, "unknown type 'kubernetes.UserInfo'"),
    ("an empty expression", "", 32, "<input>:1:0:"),
    ("format strings", "'%d'.format(['a'])", 31, "compilation failed"),
    ("the name of optionals", "type(optional.of(1)) == optional_type", 31, True),
]  # fmt: skip


def outcome(minor: int, expression: str) -> Any:
    """The value, or the text of the error."""
    compiler = ExpressionCompiler(KubernetesVersion(1, minor), has_params=False)
    compiled = compiler.compile(ExpressionKind.VARIABLE, expression)
    if compiled.error:
        return compiled.error
    evaluated = Evaluation(compiler, {"object": OBJECT}, 10**7, exact=True).evaluate(compiled)
    return evaluated.value if evaluated.error is None else evaluated.error


@pytest.mark.parametrize(("expression", "since", "answer"), [row[1:] for row in RULES], ids=[row[0] for row in RULES])
def test_since(expression: str, since: int, answer: Any) -> None:
    minors = range(OLDEST_MINOR, NEWEST_MINOR + 1)
    same = [minor for minor in minors if is_answer(outcome(minor, expression), answer)]
    assert same == list(range(since, NEWEST_MINOR + 1))


def is_answer(found: Any, answer: Any) -> bool:
    return answer in found if isinstance(answer, str) and isinstance(found, str) else bool(found == answer)


COSTS = [
    ("libraries are charged by their arguments", "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'.upperAscii()", {31: 1, 32: 4}),
    ("sets always were", "sets.contains([1, 2, 3], [1, 2])", {30: 7, 31: 7, 32: 7, 37: 7}),
    ("equality of addresses", "ip('::1') == ip('::2')", {31: 4, 32: 3}),
    ("beginnings of texts", "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'.startsWith('a')", {36: 4, 37: 1}),
    ("patterns as a function", "matches('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'aaaaaaaaaaaa')", {36: 1, 37: 12}),
]


@pytest.mark.parametrize(("expression", "costs"), [row[1:] for row in COSTS], ids=[row[0] for row in COSTS])
def test_cost(expression: str, costs: dict[int, int]) -> None:
    found = {}
    for minor in costs:
        compiler = ExpressionCompiler(KubernetesVersion(1, minor), has_params=False)
        compiled = compiler.compile(ExpressionKind.VARIABLE, expression)
        found[minor] = Evaluation(compiler, {}, 10**7, exact=True).evaluate(compiled).cost
    assert found == costs


@pytest.mark.parametrize(("minor", "text"), [(31, "must evaluate to bool"), (32, "must evaluate to bool but got int")])
def test_results_of_another_type(minor: int, text: str) -> None:
    compiler = ExpressionCompiler(KubernetesVersion(1, minor), has_params=False)
    assert compiler.compile(ExpressionKind.VALIDATION, "1").error == text


NEW_EXPRESSIONS = [
    ("ip('1.1.1.1')", [30]),
    ("format.named('uri')", [31]),
    ("semver('1.2.3')", [33]),
    ("[1].includes(1)", [37]),
    ("object.m.`a`", list(range(30, 37))),
]


@pytest.mark.parametrize(("expression", "refused"), NEW_EXPRESSIONS)
def test_new_expressions_have_the_libraries_of_the_minor_before(expression: str, refused: list[int]) -> None:
    """With the code of the minor itself: backticks are accepted by 1.37, for new expressions as well."""
    since = refused[0]
    found = []
    for minor in range(since, NEWEST_MINOR + 1):
        version = KubernetesVersion(1, minor)
        compiler = ExpressionCompiler(version, has_params=False, compatible=version.previous)
        if compiler.compile(ExpressionKind.VARIABLE, expression).error:
            found.append(minor)
    assert found == refused


@pytest.mark.parametrize(
    ("expression", "answers"),
    [
        ("object.metadata.creationTimestamp == null", {33: True, 34: "no such key: creationTimestamp"}),
        ("has(object.spec.template.metadata.creationTimestamp)", {33: True, 34: False}),
        ("1 in object.metadata.labels", {36: False, 37: "unsupported map key type: types.Int"}),
        ("object.metadata.labels[1]", {36: "no such key: 1", 37: "unsupported map key type: types.Int"}),
    ],
)
def test_objects_of_built_in_kinds(expression: str, answers: dict[int, Any]) -> None:
    template = {"metadata": {"labels": {"a": "b"}}}
    deployment = {"metadata": {"name": "d", "labels": {"a": "b"}}, "spec": {"template": template}}
    for minor, answer in answers.items():
        compiler = ExpressionCompiler(KubernetesVersion(1, minor), has_params=False)
        compiled = compiler.compile(ExpressionKind.VARIABLE, expression)
        for exact in (True, False):
            evaluated = Evaluation(compiler, {"object": TypedMap(deployment)}, 10**7, exact=exact).evaluate(compiled)
            assert (evaluated.value if evaluated.error is None else evaluated.error) == answer

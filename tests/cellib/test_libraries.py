"""The libraries against what a real API server answers: value, error text, compile error text, type and cost of each case."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from replay.cel.value.text import type_text
from replay.cel.value.values import TypedMap
from replay.cellib.composition import Evaluation
from replay.cellib.environment import ExpressionKind
from replay.cellib.expression import ExpressionCompiler
from replay.cellib.library.authorizer import authorizer_bindings
from replay.cellib.tagged import tagged
from replay.cellib.version import NEWEST
from replay.kube.attributes import Attributes, Operation, UserInfo
from replay.kube.authorizer import AuthorizationAttributes, AuthorizationDecision
from replay.kube.gvk import GroupVersionKind, GroupVersionResource

DATA = Path(__file__).parent / "data" / "libraries.jsonl"
CORPUS = Path(__file__).parents[2].parent / "shared" / "cel" / "kubernetes" / "cases.jsonl.zst"
AREAS = frozenset(
    [
        "authorizer",
        "cidr",
        "comprehensions2",
        "format",
        "ip",
        "lists",
        "mutation",
        "named-format",
        "optionals",
        "quantity",
        "regex",
        "semver",
        "sets",
        "strings",
        "url",
    ]
)
RESULTS = ("compile_error", "type", "value", "error", "cost")
BUDGET = 10_000_000


class DenyAll:
    def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationDecision:
        del attributes
        return AuthorizationDecision(allowed=False)


def integer(text: str) -> int | float:
    value = int(text)
    return value if -(2**63) <= value < 2**63 else float(text)


def cases(text: str) -> list[Any]:
    return [json.loads(line, parse_int=integer) for line in text.split("\n") if line]


def bindings(case: Any) -> dict[str, Any]:
    given = {"request": {"userInfo": {}}, **case.get("vars", {})}
    forms = case.get("form", {})
    bound = {name: TypedMap(value) if forms.get(name) == "typed" and value else value for name, value in given.items()}
    resource = GroupVersionResource("", "v1", "pods")
    attributes = Attributes(Operation.CREATE, GroupVersionKind("", "v1", "Pod"), resource, "", "", "", UserInfo())
    return {**bound, **authorizer_bindings(DenyAll(), attributes)}


def answer(case: Any) -> dict[str, Any]:
    kind = ExpressionKind(case["kind"])
    compiler = ExpressionCompiler(NEWEST, has_params="params" in case.get("vars", {}))
    for variable in case.get("variables", []):
        compiler.declare_variable(variable["name"], variable["expression"])
    compiled = compiler.compile(kind, case["expr"])
    if compiled.error:
        return {"compile_error": compiled.error}
    assert compiled.output_type is not None
    evaluated = Evaluation(compiler, bindings(case), BUDGET, exact=True).evaluate(compiled)
    result = {"type": type_text(compiled.output_type), "cost": evaluated.cost}
    if evaluated.error is not None:
        return {**result, "error": evaluated.error}
    return {**result, "value": tagged(evaluated.value)}


def normal(value: Any) -> Any:
    """Doubles are compared as numbers."""
    if isinstance(value, dict):
        if set(value) == {"double"}:
            return {"double": repr(float(value["double"]))}
        return {key: normal(item) for key, item in value.items()}
    return [normal(item) for item in value] if isinstance(value, list) else value


def expected(case: Any) -> Any:
    return normal({name: case[name] for name in RESULTS if name in case})


@pytest.mark.parametrize("case", cases(DATA.read_text()), ids=lambda case: case["id"])
def test_case(case: Any) -> None:
    assert normal(answer(case)) == expected(case)


@pytest.mark.shared
@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus is not beside the checkout")
def test_every_library_case_of_the_corpus() -> None:
    with pa.input_stream(str(CORPUS), compression="zstd") as stream:
        every = cases(stream.read().decode())
    chosen = [case for case in every if case["area"] in AREAS and "variants" not in case and "panic" not in case]
    assert [case["id"] for case in chosen if normal(answer(case)) != expected(case)] == []


# `JSONPatchVal.IsSet` of apiserver v0.37: a text is set if it is not empty, a value whatever it is.
SET_FIELDS = [
    ("a value that is zero", "JSONPatch{op: 'add', path: '/a', value: 0}.value", True),
    ("a value that is null", "JSONPatch{op: 'add', path: '/a', value: null}.value", True),
    ("a value that is empty", "JSONPatch{op: 'add', path: '/a', value: ''}.value", True),
    ("no value", "JSONPatch{op: 'remove', path: '/a'}.value", False),
    ("an empty text", "JSONPatch{op: '', path: '/a'}.op", False),
    ("a text", "JSONPatch{op: 'add', path: '/a'}.op", True),
]


@pytest.mark.parametrize(("field", "is_set"), [row[1:] for row in SET_FIELDS], ids=[row[0] for row in SET_FIELDS])
def test_fields_of_a_json_patch(field: str, is_set: bool) -> None:
    compiler = ExpressionCompiler(NEWEST, has_params=False)
    compiled = compiler.compile(ExpressionKind.JSON_PATCH, f"has({field}) ? [JSONPatch{{op: 'set'}}] : []")
    for exact in (False, True):
        evaluated = Evaluation(compiler, {}, BUDGET, exact=exact).evaluate(compiled)
        assert (evaluated.error, len(evaluated.value)) == (None, int(is_set))

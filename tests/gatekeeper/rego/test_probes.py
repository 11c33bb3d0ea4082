"""Rego as OPA answered it: forms of the language, and every builtin."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from replay.gatekeeper.rego.builtins.registry import FUNCTIONS
from replay.gatekeeper.rego.lexer import RegoError
from replay.gatekeeper.rego.parser import parse_module
from replay.gatekeeper.rego.program import Program, SourceModule
from replay.gatekeeper.rego.runtime import ConflictError
from replay.gatekeeper.rego.value import from_json, members_of
from replay.gatekeeper.template import RefusedError, template_of

_DATA = Path(__file__).parent / "data"
_LEAST_DECIDED = 0.98


def _rows(name: str) -> list[Any]:
    return [orjson.loads(line) for line in (_DATA / name).read_bytes().splitlines()]


def _answer(row: Any) -> dict[str, Any]:
    """What we say of a module, in the form of OPA's answers."""
    is_v1 = row.get("v1", False)
    try:
        module = SourceModule(parse_module(row["rego"], is_v1=is_v1), "template", is_v1=is_v1)
        results, context = Program([module], ("template", "violation")).ask(from_json(row.get("input")), {})
    except RegoError as error:
        return {"compile": str(error)}
    except ConflictError as error:
        return {"error": str(error)}
    if context.unknown:
        return {"unknown": context.unknown[0]}
    texts = [FUNCTIONS["sprintf"]("%v", [value]) for value in members_of(results)]
    return {"result": sorted(texts)}


@pytest.mark.parametrize("row", _rows("language.jsonl"), ids=lambda row: row["rego"].partition("\n")[2][:60])
def test_the_language(row: Any) -> None:
    found = _answer(row)
    if "compile" in row["answer"]:
        assert "compile" in found
    else:
        assert found == row["answer"]


_HEAD = 'violation[{"msg": "m"}] { '


def _template(source: Any) -> Any:
    names = {"crd": {"spec": {"names": {"kind": "X"}}}}
    target = {"target": "admission.k8s.gatekeeper.sh", "code": [{"engine": "Rego", "source": source}]}
    api = {"apiVersion": "templates.gatekeeper.sh/v1", "kind": "ConstraintTemplate", "metadata": {"name": "x"}}
    return {**api, "spec": {**names, "targets": [target]}}


@pytest.mark.parametrize("row", _rows("types.jsonl"), ids=lambda row: row["source"]["rego"][17:80])
def test_types_as_gatekeeper_checks_them(row: Any) -> None:
    try:
        refused = template_of(_template(row["source"])).unsupported or None
    except RefusedError as error:
        refused = str(error)
    if row.get("in_other_words"):
        assert refused is not None
    else:
        assert refused == row["refused"]


@pytest.mark.parametrize(
    "body",
    [
        '1 != "a"',
        'not 1 > "a"',
        '{input.k: 1} != {"a": 2}',
        'x := {"a": 1, "b": input.c}; x.b == "c"; x[input.k] == 1',
        'x := input.a; x == 1; not x == "a"',
        'x := {"k", 1}; x["k"]; x[1]',
        'concat(",", [input.c, "x"]) == "c,x"',
        'glob.match("a", null, "a")',
    ],
)
def test_types_that_fit(body: str) -> None:
    rego = f"package template\n{_HEAD}{body} }}"
    assert _answer({"rego": rego, "input": {"a": 1, "c": "c", "k": "a"}}) == {"result": ['{"msg": "m"}']}


@pytest.mark.parametrize(
    ("rego", "error"),
    [
        (_HEAD + "some i }", "2: rego_compile_error: declared var i unused"),
        (_HEAD + "some _; input.a[_] }", "2: rego_compile_error: declared var _ unused"),
        (_HEAD + "\n  input.a\n  some i, j; i = 1 }", "4: rego_compile_error: declared var j unused"),
        (_HEAD + "x := [1 | some i] }", "2: rego_compile_error: declared var i unused"),
        (_HEAD + "some i; x := [1 | some i; input[i]] }", "2: rego_compile_error: declared var i unused"),
        (_HEAD + "some i; x := [i | input[i]]; x[_] }", None),
        ("violation[i] { some i; input.a[i] }", None),
        (
            _HEAD + "f(1) }\nf(x) = y { some y; y = x }\nf(x) { some z; x }",
            "4: rego_compile_error: declared var z unused",
        ),
        (
            _HEAD + "f(1) }\nf([input]) { true }",
            "3: rego_compile_error: args must not shadow input (use a different variable name)",
        ),
        (_HEAD + "true } else = 1 { true }", "2: rego_parse_error: else keyword cannot be used on multi-value rules"),
        (
            _HEAD + 'p.a }\np[x] = 1 { x := "a" } else = 2 { true }',
            "3: rego_parse_error: else keyword cannot be used on rules with variables in head",
        ),
        (_HEAD + '"abc"[0] }', "2: rego_parse_error: illegal ref (head cannot be string)"),
    ],
)
def test_refusals_in_the_words_of_opa(rego: str, error: str | None) -> None:
    want: dict[str, Any] = {"result": []} if error is None else {"compile": f"template:{error}"}
    assert _answer({"rego": "package template\n" + rego, "input": {}}) == want


@pytest.mark.parametrize(
    ("rego", "reason"),
    [
        ('p[q].r = 1 { q := "a" }', "rule heads with a part after a variable"),
        ('p[q][r] = 1 { q := "a"; r := "b" }', "rule heads with a part after a variable"),
        (
            'import future.keywords\np[q] contains "b" if { q := "a" }',
            "rule heads with `contains` after a variable",
        ),
        (
            'import future.keywords\np { every v in [1] { v == 1 }; x := $"{input.a with input as {}}"; x }',
            "`with` in a template string",
        ),
        ('f($"{x}") = 1 { x := "a" }\np { f("a") }', "template strings as arguments of a rule"),
        ('default p["a"] = 1\nq { p.a }', "default rules with a part in brackets"),
        ('p.a = 1\np[x] = 2 { x := "b" }\nq { p[_] = 2 }', "a reference to all of data.template.p"),
        ("p { .5 < 1 }", "a number that starts with its point"),
        ("p { -.5 < 1 }", "a number that starts with its point"),
        ("p { eq(1, 1) }", "the call of eq"),
        ("f(_) = 2\np { f([1], 1) with f as count }", "`with` on something other than input or data.inventory"),
        (f"p {{ x := {'[' * 300}1{']' * 300}; x }}", "nested too deeply"),
    ],
)
def test_forms_that_are_not_supported(rego: str, reason: str) -> None:
    source = {"rego": f'package template\n{rego}\nviolation[{{"msg": "m"}}] {{ true }}'}
    assert reason in template_of(_template(source)).unsupported


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ("{", "}"), ('{"a": ', "}"), ("(", ")"), ("input[", "]")])
@pytest.mark.parametrize(("depth", "reason"), [(55, ""), (65, "nested too deeply"), (300, "nested too deeply")])
def test_nesting_is_limited_on_any_stack(opening: str, closing: str, depth: int, reason: str) -> None:
    rego = f"p {{ x := {opening * depth}1{closing * depth}; x }}"
    source = {"rego": f'package template\n{rego}\nviolation[{{"msg": "m"}}] {{ true }}'}
    limit = sys.getrecursionlimit()
    for frames in (limit, 20_000):
        sys.setrecursionlimit(frames)
        try:
            unsupported = template_of(_template(source)).unsupported
        finally:
            sys.setrecursionlimit(limit)
        assert (reason in unsupported, bool(unsupported)) == (True, bool(reason))


_UNDECLARED = "2: rego_compile_error: var {} is undeclared"


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ('x := $"{input.l[_]}"', _UNDECLARED.format("_")),
        ('x := $"{[_]}"', _UNDECLARED.format("_")),
        ('x := $"{input.l[i]}"', _UNDECLARED.format("i")),
        ('not $"{input.l[_]}" == "b"', _UNDECLARED.format("_")),
        ('x := [$"{input.l[_]}" | true]', _UNDECLARED.format("_")),
        ('every z in input { $"{input.l[_]}" == z }', _UNDECLARED.format("_")),
        ('$"{_}" == "b"', "2: rego_unsafe_var_error: var _ is unsafe"),
        (
            'x := $"{walk(input)}"',
            "2: rego_compile_error: illegal call to relation built-in 'walk' that may cause multiple outputs",
        ),
        ('x := $"{[y | y := input.l[_]]}"; x', None),
        ('$"{input.l[i]}" == "b"; input.n[i]', None),
    ],
)
def test_variables_in_template_strings(body: str, error: str | None) -> None:
    rego = f'package template\nviolation contains "m" if {{ {body} }}'
    want: dict[str, Any] = {"result": ["m"]} if error is None else {"compile": f"template:{error}"}
    assert _answer({"rego": rego, "v1": True, "input": {"l": ["a", "b"], "n": [0, 1]}}) == want


_UNENDED = "expected } to end template string expression"


@pytest.mark.parametrize(
    ("string", "line"),
    [
        ("$`{1 1}\n`", 3),
        ("$`a\n{\n\n1 1}\n`", 6),
        ("$`a\n{ 1 \n}\nb{1 1}`", 6),
        ('$"b{\n\n1 1}"', 5),
    ],
)
def test_the_line_of_an_error_in_a_template_string(string: str, line: int) -> None:
    rego = f"package template\nimport rego.v1\nviolation contains [{string}] if true"
    assert _answer({"rego": rego, "v1": True}) == {"compile": f"template:{line}: rego_parse_error: {_UNENDED}"}


def test_builtins() -> None:
    rows = _rows("builtins.jsonl")
    assert len(rows) >= 500
    found = [_answer(row) for row in rows]
    differing = [
        (row["rego"], row["answer"], answer)
        for row, answer in zip(rows, found, strict=True)
        if answer != row["answer"] and "unknown" not in answer
    ]
    assert differing == []
    assert sum("unknown" not in answer for answer in found) >= _LEAST_DECIDED * len(rows)

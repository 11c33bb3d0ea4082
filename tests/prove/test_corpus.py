"""Every expression of the CEL corpus that the translation covers, held against what the real server answered."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from replay.cellib.environment import ExpressionKind
from replay.cellib.expression import ExpressionCompiler
from replay.cellib.version import NEWEST
from replay.prove.symbolic.node import Bounds, Root
from replay.prove.symbolic.term import boolean, forget
from replay.prove.symbolic.translate import Environment, Translator
from replay.prove.symbolic.value import FAILED, NULL, JsonMap, Opaque, SymbolicValue, known, truth
from tests.prove.concrete import Assignment

CORPUS = Path(__file__).parents[2].parent / "shared" / "cel" / "kubernetes" / "cases.jsonl.zst"
MOST_ITEMS = 6
KINDS = {"validation", "matchCondition", "variable"}


def _cases() -> Iterator[dict[str, Any]]:
    with pa.CompressedInputStream(str(CORPUS), "zstd") as stream:
        for line in io.TextIOWrapper(stream, "utf-8"):
            yield _decoded(line)


def _decoded(line: str) -> dict[str, Any]:
    case: dict[str, Any] = json.loads(line)
    return {**case, "vars": _numbers(case.get("vars", {}))}


def _numbers(value: Any) -> Any:
    """Integers beyond 64 bits are doubles."""
    if isinstance(value, dict):
        return {key: _numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_numbers(item) for item in value]
    return float(value) if type(value) is int and not -(2**63) <= value < 2**63 else value


def _longest(value: Any) -> int:
    if isinstance(value, dict):
        return max([len(value), *map(_longest, value.values())], default=0)
    if isinstance(value, list):
        return max([len(value), *map(_longest, value)], default=0)
    return 0


def _answer(case: dict[str, Any]) -> tuple[str, Any]:
    """What the translation says of a case: `open` where it leaves the answer open."""
    forget()
    compiler = ExpressionCompiler(NEWEST, has_params="params" in case.get("vars", {}))
    for each in case.get("variables", ()):
        compiler.declare_variable(each["name"], each["expression"])
    compiled = compiler.compile(ExpressionKind(case["kind"]), case["expr"])
    if compiled.program is None:
        return "uncompiled", None
    given = case.get("vars", {})
    root = Root(Bounds(max(_longest(given), 1), 4), {})
    mentioned: dict[str, dict[str, None]] = {}
    for _ in range(3):
        root = Root(Bounds(max(_longest(given), 1), 4), mentioned)
        value = _value(root, compiler, compiled, given, case.get("form", {}))
    assignment = Assignment(root, given, {})
    holds, fails = (assignment.evaluate(term) for term in truth(value))
    if holds is None or fails is None:
        return "open", None
    return ("error", None) if not holds and not fails else ("value", holds)


def _value(
    root: Root, compiler: ExpressionCompiler, compiled: Any, given: dict[str, Any], forms: dict[str, str]
) -> SymbolicValue:
    bindings: dict[str, SymbolicValue] = {"authorizer": known(Opaque("binding", ("authorizer",)))}
    for name in ("object", "oldObject", "request", "namespaceObject", "params"):
        if given.get(name) is None or (name == "namespaceObject" and compiled.kind is ExpressionKind.MATCH_CONDITION):
            bindings[name] = known(NULL)
        else:
            is_struct = boolean(forms.get(name) == "typed")
            bindings[name] = known(JsonMap(root.node(name, (name,), None, is_struct=is_struct)))
    made: dict[str, SymbolicValue | None] = {}

    def of_variable(name: str) -> SymbolicValue | None:
        if name not in made:
            found = compiler.variables.get(name)
            made[name] = FAILED
            if found is None:
                made[name] = None
            elif found.program is not None:
                made[name] = translator.translate(found.program.ast)
        return made[name]

    translator = Translator(root, Environment(bindings, of_variable))
    return translator.translate(compiled.program.ast)


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus is not beside the checkout")
def test_translation_agrees_with_the_server() -> None:
    counts: Counter[str] = Counter()
    wrong = []
    for case in _cases():
        is_bool = case.get("type") == "bool" and ("error" in case or "value" in case)
        if case["kind"] not in KINDS or not is_bool or case.get("out_of_budget") or case.get("before"):
            continue
        if _longest(case["vars"]) > MOST_ITEMS:
            continue
        said, holds = _answer(case)
        counts[said] += 1
        if said in {"value", "error"}:
            expected = ("value", case["value"]["bool"]) if "value" in case else ("error", None)
            if (said, holds) != expected and "cost limit" not in case.get("error", ""):
                wrong.append((case["id"], case["expr"], (said, holds), expected))
    assert wrong == []
    assert counts["value"] + counts["error"] > 600

"""Cases whose results are hard to write down."""

from __future__ import annotations

import json
from typing import Any

import pytest

from replay.pipeline.cel import results

DOUBLED = [{"name": "v0", "expression": "[1]"}] + [
    {"name": f"v{index}", "expression": f"[variables.v{index - 1}, variables.v{index - 1}]"} for index in range(1, 30)
]
ROWS: dict[str, tuple[str, list[dict[str, str]], dict[str, Any]]] = {
    "a message that stands for itself": (
        "google.protobuf.Empty{}",
        [],
        {"type": "google.protobuf.Empty", "value": {"opaque": "google.protobuf.Empty"}, "cost": 40},
    ),
    "variables inside themselves": (
        "variables.a",
        [{"name": "a", "expression": "variables"}],
        {"type": "dyn", "value": {"map": [[{"cycle": True}, {"err": "no such overload"}]]}, "cost": 3},
    ),
    "far too large": (
        "variables.v29",
        DOUBLED,
        {"undetermined": "it reads more values than replay evaluates"},
    ),
    "no method of a type": (
        "timestamp.now()",
        [],
        {
            "compile_error": "compilation failed: ERROR: <input>:1:14: undeclared reference to 'now' (in container '')\n"
            " | timestamp.now()\n | .............^"
        },
    ),
    "a pattern": (
        "'abc'.matches(variables.p)",
        [{"name": "p", "expression": "'(?<=a)b'"}],
        {"type": "bool", "error": "error parsing regexp: invalid named capture: `(?<=a)b`"},
    ),
    "a constant pattern": (
        "'abc'.find('(?<=a)b')",
        [],
        {
            "compile_error": "program instantiation failed: error parsing regexp: invalid named capture: `(?<=a)b`",
        },
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_result(name: str) -> None:
    expression, variables, wanted = ROWS[name]
    (result,) = results([json.dumps({"id": "1", "kind": "variable", "expr": expression, "variables": variables})])
    assert {key: result.get(key) for key in wanted} == wanted

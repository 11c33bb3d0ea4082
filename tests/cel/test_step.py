"""Steps one by one: the value, the cost, and what each reports to the tracker, which decides what is charged."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.cel_env import checked, evaluated, parsed

INPUT = {"a": {"b": {"c": 1}, "l": [1, 2]}, "b": "x"}
NO_KEY = "error: no such key: z"
NO_OVERLOAD = "error: no such overload"
STRING_INDEX = "error: unsupported index type 'string' in list"
KEY_IS_MAP = "error: invalid qualifier type: map[string]interface {}"

ROWS: list[tuple[str, str, Any, int, list[Any]]] = [
    ("a path is one attribute, each selection reported", "a.b.c", 1, 3, [{"c": 1}, 1, 1]),
    ("an element in a sum", "a.l[0] + 1", 2, 4, [[1, 2], 1, 1, 1, 2]),
    ("presence charges the selections alone", "has(a.b.z)", False, 2, [{"c": 1}, False, False]),
    ("a missing field", "a.z", NO_KEY, 2, [NO_KEY, NO_KEY]),
    ("an error is absorbed by what decides", "a.z == 1 || b == 'x'", True, 5, [NO_KEY, NO_KEY, 1, NO_KEY, "x", "x", True, True]),
    ("what decides ends the evaluation", "b == 'x' || a.z == 1", True, 2, ["x", "x", True, True]),
    ("an error is not absorbed by what does not decide", "a.z == 1 && b == 'x'", NO_KEY, 5, [NO_KEY, NO_KEY, 1, NO_KEY, "x", "x", True, NO_KEY]),
    ("a condition that is no bool", "b ? 1 : 2", NO_OVERLOAD, 1, ["x", NO_OVERLOAD]),
    ("a path after a conditional belongs to both branches", "(has(a.b) ? a.b : a.z).c", 1, 3, [True, True, {"c": 1}, 1, 1]),
    ("a chain that is optional ends where nothing is", "a.?z.c.orValue(5)", 5, 1, ["optional of nothing", 5, 5]),
    ("an index of another type", "a.l[b]", STRING_INDEX, 3, [[1, 2], STRING_INDEX, STRING_INDEX]),
    ("a map is no key", "a[a]", KEY_IS_MAP, 2, [KEY_IS_MAP, KEY_IS_MAP]),
    ("an element of a list that is read", "1 in a.l", True, 3, [1, [1, 2], [1, 2], True]),
    ("a key of a map", "'b' in a", True, 2, ["b", INPUT["a"], True]),
    ("equality of lists, one folded", "a.l == [1, 2]", True, 3, [[1, 2], [1, 2], [1, 2], True]),
    ("negation of what is no bool", "!b", NO_OVERLOAD, 2, ["x", NO_OVERLOAD]),
    ("a minus before a path", "-a.l[1]", -2, 4, [[1, 2], 2, 2, -2]),
    ("a literal list with an input in it", "[b, 'y']", ["x", "y"], 11, ["x", "y", ["x", "y"]]),
    ("an element of a literal list", "[1, 2][1]", 2, 2, [[1, 2], 2, 2]),
    ("an optional element of a literal list", "[?a.?z, 1]", [1], 11, ["optional of nothing", 1, [1]]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "value", "cost", "steps"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_checked(text: str, value: Any, cost: int, steps: list[Any]) -> None:
    assert evaluated(checked(text), INPUT) == (value, cost, steps)


NO_ATTRIBUTE = "error: no such attribute(s): u.x"
UNCHECKED: list[tuple[str, str, dict[str, Any], Any]] = [
    ("a name that nothing has", "u.x", INPUT, NO_ATTRIBUTE),
    ("the longest name wins", "u.x", {"u": {"x": 1}, "u.x": 2}, 2),
    ("a selection where no longer name is bound", "u.x", {"u": {"x": 1}}, 1),
    ("the name of a type", "int", {}, "int"),
    ("a variable hides a type", "int", {"int": 3}, 3),
    ("a leading dot", ".b", INPUT, "x"),
    ("a loop variable hides a variable", "[5].map(b, b)", INPUT, [5]),
    ("a leading dot passes the loop", "[5].map(b, .b)", INPUT, ["x"]),
]


@pytest.mark.parametrize(
    ("text", "bindings", "value"), [row[1:] for row in UNCHECKED], ids=[row[0] for row in UNCHECKED]
)
def test_unchecked(text: str, bindings: dict[str, Any], value: Any) -> None:
    got = evaluated(parsed(text), bindings)[0]
    assert getattr(got, "name", got) == value

"""What implements a call, and what libraries declare about its cost."""

from __future__ import annotations

from typing import Any

import pytest

from replay.cel.declare.cost import ONE, CallEstimate, Estimates, Range
from replay.cel.declare.dispatcher import Dispatcher, is_assignable, merged_functions, no_such_overload
from replay.cel.declare.library import Function, Library, Overload
from replay.cel.value.types import BOOL, DYN, INT, STRING, UINT, Type, list_type, map_type, type_param
from replay.cel.value.values import EvalError, Uint, Unknown, Value
from tests.support.cel_env import plain

ASSIGNABLE: list[tuple[str, Type, Value, bool]] = [
    ("a text", STRING, "x", True),
    ("a number is not a string", STRING, 1, False),
    ("a bool is no int", INT, True, False),
    ("a uint is no int", INT, Uint(1), False),
    ("a uint", UINT, Uint(1), True),
    ("anything", DYN, None, True),
    ("anything of a type to be found", type_param("T"), [1], True),
    ("a list by its first element", list_type(STRING), ["x", 1], True),
    ("a list of others", list_type(STRING), [1, "x"], False),
    ("an empty list", list_type(STRING), [], True),
    ("a map by its first entry", map_type(STRING, INT), {"k": 1, "l": "x"}, True),
    ("a map with other keys", map_type(STRING, INT), {1: 1}, False),
    ("a map with other values", map_type(STRING, INT), {"k": "x"}, False),
    ("a map is not a list", list_type(DYN), {}, False),
]


@pytest.mark.parametrize(
    ("declared", "value", "expected"), [row[1:] for row in ASSIGNABLE], ids=[row[0] for row in ASSIGNABLE]
)
def test_is_assignable(declared: Type, value: Value, expected: bool) -> None:
    assert is_assignable(declared, value) is expected


MISFITS: list[tuple[str, list[Value], str]] = [
    ("the types are named", [1, "x", [True]], "error: no such overload: f(int, string, list)"),
    ("an error among them", [1, EvalError("bad"), Unknown(("m",))], "error: bad"),
    ("what is not known among them", [Unknown(("m",)), 1, Unknown(("n",))], "unknown: n, m"),
]


@pytest.mark.parametrize(("args", "expected"), [row[1:] for row in MISFITS], ids=[row[0] for row in MISFITS])
def test_no_such_overload(args: list[Value], expected: str) -> None:
    assert plain(no_such_overload("f", args)) == expected


def overload(id_: str, *args: Type, says: Any = None, **fields: Any) -> Overload:
    implementation = None if says is None else lambda *_args: says
    return Overload(id_, args, STRING, implementation=implementation, **fields)


def library(*functions: Function) -> Library:
    return Library("test", functions=functions)


TWO = Function("f", (overload("f_int", INT, says="int"), overload("f_string", STRING, says="string")))
ONLY = Function("g", (overload("g_int", INT, says="int"),))
LAZY = Function("h", (overload("h_dyn", DYN, says="called", non_strict=True),))
LOOSE = Function("l", (overload("l_int", INT, says="int"),), type_guards=False)
SINGLE = Function("s", (overload("s_int", INT),), singleton=lambda value: f"single {value}")
DISPATCHER = Dispatcher([library(TWO, ONLY, LAZY, LOOSE, SINGLE)])

CALLS: list[tuple[str, str, list[Value], Any]] = [
    ("an overload", "f_int", [1], "int"),
    ("an overload with another argument", "f_int", ["x"], "error: no such overload: f(string)"),
    ("an overload with too many arguments", "f_int", [1, 2], "error: no such overload: f(int, int)"),
    ("a choice by type", "f", ["x"], "string"),
    ("no choice", "f", [True], "error: no such overload: f(bool)"),
    ("the only overload by name", "g", [1], "int"),
    ("an error is no argument", "g", [EvalError("bad")], "error: bad"),
    ("but for what is not strict", "h", [EvalError("bad")], "called"),
    ("types are not looked at", "l", ["x"], "int"),
    ("one implementation for all", "s", ["x"], "single x"),
]


@pytest.mark.parametrize(("name", "args", "value"), [row[1:] for row in CALLS], ids=[row[0] for row in CALLS])
def test_calls(name: str, args: list[Value], value: Any) -> None:
    binding = DISPATCHER.find(name)
    assert binding is not None
    assert plain(binding.implementation(*args)) == value


def test_nobody_has_it() -> None:
    assert DISPATCHER.find("nope") is None


EAGERNESS = [("f_int", (True, False)), ("f_string", (True, True)), ("f", (False, False)), ("h", (True, False))]


@pytest.mark.parametrize(("name", "expected"), EAGERNESS, ids=[row[0] for row in EAGERNESS])
def test_how_it_is_called(name: str, expected: tuple[bool, bool]) -> None:
    binding = DISPATCHER.find(name)
    assert binding is not None
    assert (binding.eager, binding.of_texts) == expected


def test_later_libraries_add_overloads_and_replace_implementations() -> None:
    declared = library(Function("f", (overload("f_int", INT), overload("f_bool", BOOL, says="bool"))))
    replacing = library(Function("f", (overload("f_string", STRING, says="another"), overload("f_uint", UINT))))
    (function,) = merged_functions([library(TWO), declared, replacing])
    assert [(each.id, each.implementation and each.implementation()) for each in function.overloads] == [
        ("f_int", "int"),
        ("f_string", "another"),
        ("f_bool", "bool"),
        ("f_uint", None),
    ]


def test_costs_are_found_by_overload_and_by_the_first_overload_of_a_name() -> None:
    one, two, three = (lambda _args, _result, cost=cost: cost for cost in (1, 2, 3))
    function = Function("f", (overload("f_a", INT, cost=one), overload("f_b", STRING, cost=two, cost_by_id=three)))
    assert Dispatcher([library(function)]).costs == {"f_a": one, "f": one, "f_b": three}


def test_estimates_are_those_of_the_libraries() -> None:
    def twice(_target: Any, args: Any) -> CallEstimate:
        return CallEstimate(args[0].any_size.scaled(2))

    declaring = Library(
        "test",
        functions=(Function("f", (overload("f_a", INT, estimate=twice), overload("f_b", STRING))),),
        equality={"T": ONE},
    )
    other = Library("other", equality={"U": Range(1, 7)})
    assert Dispatcher([declaring, other]).estimates == Estimates({"f_a": twice}, {"T": ONE, "U": Range(1, 7)})

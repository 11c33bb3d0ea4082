"""Paths of selections: which part, which error, and where a path is optional."""

from __future__ import annotations

from typing import Any

import pytest

from replay.cel.release import NEWEST_RELEASE, Release
from replay.cel.strict.attribute import (
    AbsoluteAttribute,
    ComputedQualifier,
    ConditionalAttribute,
    FieldQualifier,
    KeyQualifier,
    MaybeAttribute,
    Qualifier,
    TestOnlyQualifier,
    apply_qualifiers,
)
from replay.cel.strict.frame import Frame
from replay.cel.strict.step import ConstStep
from replay.cel.value.values import OPTIONAL_NONE, EvalError, ObjectValue, OptionalValue, Unknown, Value
from tests.support.cel_env import plain

UNKNOWN = Unknown(("m",))
BOUND: dict[str, Value] = {"a": {"b": {"c": 1}, "l": [1, 2]}, "k": "b", "broken": EvalError("bad"), "u": UNKNOWN}
MESSAGE = ObjectValue("Thing", {"set": 1})
NOTHING = "optional of nothing"


def frame(release: Release = NEWEST_RELEASE) -> Frame:
    return Frame(BOUND, None, release)


def key(name: Value, *, optional: bool = False) -> Qualifier:
    return KeyQualifier(1, name, optional=optional)


def computed(name: str, *, optional: bool = False) -> Qualifier:
    return ComputedQualifier(1, AbsoluteAttribute(2, (name,)), optional=optional)


PATHS: list[tuple[str, Value, list[Qualifier], Any]] = [
    ("nothing selected", 1, [], 1),
    ("fields", BOUND["a"], [key("b"), key("c")], 1),
    ("an element", [1, 2], [key(1)], 2),
    ("beyond the end", [1, 2], [key(2)], "error: index out of bounds: 2"),
    ("no such key", {}, [key("z"), key("c")], "error: no such key: z"),
    ("a part of what has none", 1, [key("z")], "error: no such key: z"),
    ("an optional field that is not there", {}, [key("z", optional=True), key("c")], NOTHING),
    ("an optional field that is there", {"z": {"c": 1}}, [key("z", optional=True), key("c")], "optional of 1"),
    ("all after an optional field is optional", {"z": {}}, [key("z", optional=True), key("c")], NOTHING),
    ("an optional with a value", OptionalValue({"z": 1}), [key("z")], "optional of 1"),
    ("an optional without one", OPTIONAL_NONE, [key("z")], NOTHING),
    ("an optional of which nothing is selected", OptionalValue(1), [], "optional of 1"),
    ("a computed key", {"b": 2}, [computed("k")], 2),
    ("a computed key that is no key", {"b": 2}, [computed("a")], "error: invalid qualifier type: map[string]interface {}"),
    ("a computed key in error", {"b": 2}, [computed("broken")], "error: bad"),
    ("a computed key that is not known", {"b": 2}, [computed("u"), key("z")], "unknown: m"),
    ("an optional computed key that is not known", {"b": 2}, [computed("u", optional=True)], "unknown: m"),
    ("an unbound key", {"b": 2}, [computed("nope")], "error: no such attribute(s): nope"),
    ("a field of a message", MESSAGE, [FieldQualifier(1, "set")], 1),
    ("an unset field of a message is null", MESSAGE, [FieldQualifier(1, "unset")], None),
    ("an unset optional field of a message", MESSAGE, [FieldQualifier(1, "unset", optional=True)], NOTHING),
    ("a field of what is no message after all", {"set": 2}, [FieldQualifier(1, "set")], 2),
    ("presence of a key", {"z": None}, [TestOnlyQualifier(KeyQualifier(1, "z"))], True),
    ("absence of a key", {}, [TestOnlyQualifier(KeyQualifier(1, "z"))], False),
    ("presence of a field that is set", MESSAGE, [TestOnlyQualifier(FieldQualifier(1, "set"))], True),
    ("presence of a field that is not", MESSAGE, [TestOnlyQualifier(FieldQualifier(1, "unset"))], False),
]  # fmt: skip


@pytest.mark.parametrize(("value", "qualifiers", "part"), [row[1:] for row in PATHS], ids=[row[0] for row in PATHS])
def test_path(value: Value, qualifiers: list[Qualifier], part: Any) -> None:
    assert plain(apply_qualifiers(frame(), value, qualifiers)) == part


def test_until_0_26_an_optional_variable_is_followed_into_without_a_selection() -> None:
    assert plain(apply_qualifiers(frame(Release.V0_26), OptionalValue(1), [])) == "optional of 1"
    assert plain(apply_qualifiers(frame(Release.V0_26), OPTIONAL_NONE, [])) == NOTHING


def absolute(*names: str) -> AbsoluteAttribute:
    return AbsoluteAttribute(7, names)


def maybe(name: str, *keys: str) -> MaybeAttribute:
    found = MaybeAttribute(7, (name,), lambda known: known == "int")
    for number, each in enumerate(keys):
        found.add_qualifier(KeyQualifier(10 + number, each))
    return found


def conditional(condition: Value) -> ConditionalAttribute:
    found = ConditionalAttribute(7, ConstStep(1, condition), absolute("a"), absolute("broken"))
    found.add_qualifier(KeyQualifier(10, "l"))
    return found


ATTRIBUTES: list[tuple[str, Any, int, Any]] = [
    ("bound", absolute("k"), 7, "b"),
    ("the first name that is bound", absolute("x.k", "k"), 7, "b"),
    ("no name is bound", absolute("x.n", "n"), 7, "error: no such attribute(s): x.n, n"),
    ("bound to an error", absolute("broken"), 7, "error: bad"),
    ("a selection", maybe("a", "b", "c"), 11, 1),
    ("a type", maybe("int"), 7, "type int"),
    ("neither variable nor type", maybe("n", "x"), 10, "error: no such attribute(s): n.x"),
    ("one branch, with the path", conditional(condition=True), 10, [1, 2]),
    ("the other branch", conditional(condition=False), 10, "error: bad"),
    ("a condition that is no bool", conditional("x"), 10, "error: no such overload"),
    ("a condition that is not known", conditional(UNKNOWN), 10, "unknown: m"),
    ("a condition in error", conditional(EvalError("worse")), 10, "error: worse"),
]


@pytest.mark.parametrize(
    ("attribute", "node_id", "value"), [row[1:] for row in ATTRIBUTES], ids=[row[0] for row in ATTRIBUTES]
)
def test_attribute(attribute: Any, node_id: int, value: Any) -> None:
    found = attribute.resolve(frame())
    assert (attribute.id, f"type {found.name}" if hasattr(found, "name") else plain(found)) == (node_id, value)

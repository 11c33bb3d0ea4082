"""Normal forms: what looks alike afterwards, and what must not."""

from __future__ import annotations

import pytest

from replay.cellib.version import NEWEST
from replay.prove.normal import normal_policy
from tests.prove.policies import unit

SAME = [
    ("a operands", "object.a > 1 && has(object.b)", "has(object.b) && 1 < object.a"),
    ("De Morgan", "!(has(object.a) && has(object.b))", "!has(object.a) || !has(object.b)"),
    ("quantifiers", "object.l.all(x, x > 1)", "!object.l.exists(y, !(y > 1))"),
    ("conditions for all", "object.l.all(x, x > 1 && x < 5)", "object.l.all(x, x < 5) && object.l.all(y, y > 1)"),
    ("branches", "has(object.a) ? object.b == 1 : object.c == 1", "!has(object.a) ? object.c == 1 : object.b == 1"),
    ("sizes", "size(object.l) == 1", "object.l.size() == 1"),
    ("members", "object.a in ['x', 'y']", "object.a in ['y', 'x']"),
]
OTHER = [
    ("equality of what may be a Go value", "object.a == object.b", "object.b == object.a"),
    (
        "inner and outer element",
        "object.l.all(x, object.l.all(y, object.l.all(z, x == z)))",
        "object.l.all(x, object.l.all(y, object.l.all(z, y == z)))",
    ),
    ("presence", "has(object.a)", "has(object.b)"),
    ("one in each", "object.l.all(x, x > 1 || x < 0)", "object.l.all(x, x > 1) || object.l.all(x, x < 0)"),
    ("a number and a text", "object.a == 1", "object.a == '1'"),
    ("a number and a double", "object.a == 1", "object.a == 1.0"),
]


@pytest.mark.parametrize(("one", "other"), [row[1:] for row in SAME], ids=[row[0] for row in SAME])
def test_same(one: str, other: str) -> None:
    assert normal_policy(unit(one), NEWEST) == normal_policy(unit(other), NEWEST)


@pytest.mark.parametrize(("one", "other"), [row[1:] for row in OTHER], ids=[row[0] for row in OTHER])
def test_other(one: str, other: str) -> None:
    assert normal_policy(unit(one), NEWEST) != normal_policy(unit(other), NEWEST)


def test_variables_count_by_what_they_are() -> None:
    first = unit("variables.a", variables={"a": "has(object.x)"})
    renamed = unit("variables.b", variables={"b": "has(object.x)"})
    changed = unit("variables.a", variables={"a": "has(object.y)"})
    tested = [unit("has(variables.a)", variables={"a": text}) for text in ("object.x > 1", "object.y > 1")]
    assert normal_policy(first, NEWEST) == normal_policy(renamed, NEWEST)
    assert normal_policy(first, NEWEST) != normal_policy(changed, NEWEST)
    assert normal_policy(tested[0], NEWEST) != normal_policy(tested[1], NEWEST)

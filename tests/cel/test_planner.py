"""What is decided once, when an expression is planned."""

from __future__ import annotations

from typing import Any

import pytest

from replay.cel.ast.tree import Ast
from replay.cel.strict.attribute import (
    AbsoluteAttribute,
    Attribute,
    ComputedQualifier,
    ConditionalAttribute,
    MaybeAttribute,
    RelativeAttribute,
)
from replay.cel.strict.folding import PlanError
from replay.cel.strict.planner import Planner
from replay.cel.strict.step import AttributeStep, ConstStep, ObservedQualifier, ObservedStep
from tests.support.cel_env import ENV, checked, parsed


def planned(ast: Ast) -> Any:
    step: Any = Planner(ast, ENV.dispatcher, ENV).plan(ast.expr)
    return shape(step)


def shape(step: Any) -> Any:
    """The constant that a step is, the attribute that it reads, or its class."""
    if isinstance(step, ObservedStep):
        return shape(step.step)
    if isinstance(step, ConstStep):
        return getattr(step.value, "name", step.value)
    if isinstance(step, AttributeStep):
        return f"{type(step).__name__.removesuffix('Step').lower()} {attribute(step.attribute)}"
    return type(step).__name__


def attribute(found: Attribute) -> str:
    if isinstance(found, AbsoluteAttribute):
        return " or ".join(found.names) + path(found.qualifiers)
    if isinstance(found, MaybeAttribute):
        return " else ".join(map(attribute, found._attributes))
    if isinstance(found, ConditionalAttribute):
        return f"({attribute(found.truthy)} : {attribute(found.falsy)})"
    assert isinstance(found, RelativeAttribute)
    return f"({shape(found._operand)}){path(found.qualifiers)}"


def path(qualifiers: Any) -> str:
    return "".join(map(qualifier, qualifiers))


def qualifier(found: Any) -> str:
    inner: Any = found._qualifier if isinstance(found, ObservedQualifier) else found
    mark = "?" if found.optional else ""
    if isinstance(inner, ComputedQualifier):
        return f"[{mark}{attribute(inner.attribute)}]"
    return f"[{mark}{inner.key!r}]"


PLANS = [
    ("a variable", "a", "attribute a"),
    ("a path is one attribute", "a.b[0]['c']", "attribute a['b'][0]['c']"),
    ("a dotted name is the variable that the checker found", "c.d.e", "attribute c.d['e']"),
    ("a computed key", "a[b.k]", "attribute a[b['k']]"),
    ("a key that is computed by a call", "a[b + 'k']", "attribute a[(CallStep)]"),
    ("optional selections", "a.?b[?0]", "attribute a[?'b'][?0]"),
    ("presence", "has(a.b.c)", "presence a['b']['c']"),
    ("a path after a conditional", "(a ? a.b : b).c", "attribute (a['b']['c'] : b['c'])"),
    ("a path after a call", "dyn(a).b", "attribute (CallStep)['b']"),
    ("a path after a constant", "[1][0]", "attribute ([1])[0]"),
    ("a constant list", "[1, [2]]", [1, [2]]),
    ("a list with an input", "[1, a]", "ListStep"),
    ("a constant map", "{'k': 1}", {"k": 1}),
    ("a constant conversion", "string(1)", "1"),
    ("the name of a type", "int", "int"),
    ("the type of a constant", "type(1)", "int"),
    ("arithmetic is left to the evaluation", "1 + 2", "CallStep"),
    ("membership in constants is a look-up", "a in [1, 2]", "MembershipStep"),
    ("membership in a list of the input", "1 in a", "CallStep"),
    ("and, or", "a && b || a", "LogicStep"),
    ("equality", "a != b", "EqualityStep"),
    ("or of optionals", "a.?b.or(b.?c)", "OptionalOrStep"),
    ("a fold", "a.all(x, x)", "FoldStep"),
]


@pytest.mark.parametrize(("text", "plan"), [row[1:] for row in PLANS], ids=[row[0] for row in PLANS])
def test_checked(text: str, plan: Any) -> None:
    assert planned(checked(text)) == plan


UNCHECKED = [
    ("a name with selections may be a longer name", "u.v.w", "attribute u.v.w else u.v['w'] else u['v']['w']"),
    ("a computed key ends the name", "u.v[b].w", "attribute u.v[b]['w'] else u['v'][b]['w']"),
    ("an unknown function is found out by the evaluation", "nope(a)", "CallStep"),
    ("a loop variable is no longer name", "[1].map(x, x.y)", "FoldStep"),
]


@pytest.mark.parametrize(("text", "plan"), [row[1:] for row in UNCHECKED], ids=[row[0] for row in UNCHECKED])
def test_unchecked(text: str, plan: Any) -> None:
    assert planned(parsed(text)) == plan


REFUSED = [
    ("a function without arguments that nobody has", "nope()", "no such overload: nope()"),
    ("a message that nobody has", "No.Such{}", "unknown type: No.Such"),
]


@pytest.mark.parametrize(("text", "message"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_refused(text: str, message: str) -> None:
    with pytest.raises(PlanError) as refused:
        planned(parsed(text))
    assert refused.value.message == message

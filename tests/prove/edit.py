"""Edits of policies: some that keep their meaning by the rules of CEL, some that usually change it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from replay.cel.ast import operator
from replay.cel.ast.issues import Issues
from replay.cel.ast.source import Source
from replay.cel.ast.tree import Ast, Call, Const, Expr, Ident, ListExpr, MapEntry, MapExpr, Select
from replay.cel.syntax.parser import parse
from replay.cel.syntax.unparse import unparse
from replay.kube.admissionregistration import FailurePolicy, Rule, ValidatingAdmissionPolicy, Validation, Variable
from replay.prove.unit import BoundPolicy

Rewrite = Callable[[Expr], Iterator[Expr]]
"""All that a node may be replaced by."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A unit that was edited; `keeps` says that the meaning is the same for certain."""

    name: str
    unit: BoundPolicy
    keeps: bool


def raw(text: str) -> Expr:
    """The tree of an expression with its macros as calls."""
    found = parse(Source(text), {})
    assert not isinstance(found, Issues)
    return found.expr


def is_parsed(text: str) -> bool:
    """Whether an expression can be read at all."""
    return not isinstance(parse(Source(text), {}), Issues)


def text_of(node: Expr) -> str:
    """The text of a tree."""
    return unparse(Ast(node, Source(""), {}))


def call(function: str, *args: Expr) -> Call:
    """A call of an operator or function."""
    return Call(0, function, args)


def rewritten(node: Expr, rewrite: Rewrite) -> Iterator[Expr]:  # noqa: C901, PLR0912 - one case a kind
    """The tree with one node replaced, for each node and replacement."""
    yield from rewrite(node)
    match node:
        case Call():
            for index, arg in enumerate(node.args):
                for new in rewritten(arg, rewrite):
                    yield replace(node, args=(*node.args[:index], new, *node.args[index + 1 :]))
            if node.target is not None:
                for new in rewritten(node.target, rewrite):
                    yield replace(node, target=new)
        case Select():
            for new in rewritten(node.operand, rewrite):
                yield replace(node, operand=new)
        case ListExpr():
            for index, item in enumerate(node.elements):
                for new in rewritten(item, rewrite):
                    yield replace(node, elements=(*node.elements[:index], new, *node.elements[index + 1 :]))
        case MapExpr():
            for index, entry in enumerate(node.entries):
                for new in rewritten(entry.value, rewrite):
                    made = MapEntry(0, entry.key, new, entry.optional)
                    yield replace(node, entries=(*node.entries[:index], made, *node.entries[index + 1 :]))


def _is(node: Expr, *functions: str) -> bool:
    return isinstance(node, Call) and node.function in functions


def _swap(node: Expr) -> Iterator[Expr]:
    if isinstance(node, Call) and _is(node, operator.LOGICAL_AND, operator.LOGICAL_OR):
        yield call(node.function, *reversed(node.args))


def _de_morgan(node: Expr) -> Iterator[Expr]:
    if isinstance(node, Call) and _is(node, operator.LOGICAL_AND, operator.LOGICAL_OR):
        other = operator.LOGICAL_OR if node.function == operator.LOGICAL_AND else operator.LOGICAL_AND
        yield call(operator.LOGICAL_NOT, call(other, *(call(operator.LOGICAL_NOT, arg) for arg in node.args)))


_MIRROR = {
    operator.LESS: operator.GREATER,
    operator.LESS_EQUALS: operator.GREATER_EQUALS,
    operator.GREATER: operator.LESS,
    operator.GREATER_EQUALS: operator.LESS_EQUALS,
}
_COMPLEMENT = {
    operator.LESS: operator.GREATER_EQUALS,
    operator.LESS_EQUALS: operator.GREATER,
    operator.GREATER: operator.LESS_EQUALS,
    operator.GREATER_EQUALS: operator.LESS,
    operator.EQUALS: operator.NOT_EQUALS,
    operator.NOT_EQUALS: operator.EQUALS,
}


def _mirror(node: Expr) -> Iterator[Expr]:
    if isinstance(node, Call) and node.function in _MIRROR:
        yield call(_MIRROR[node.function], node.args[1], node.args[0])


def _complement(node: Expr) -> Iterator[Expr]:
    if isinstance(node, Call) and node.function in _COMPLEMENT:
        yield call(operator.LOGICAL_NOT, call(_COMPLEMENT[node.function], *node.args))


def _quantifier(node: Expr) -> Iterator[Expr]:
    if isinstance(node, Call) and node.target is not None and node.function in {"all", "exists"}:
        other = "exists" if node.function == "all" else "all"
        body = call(operator.LOGICAL_NOT, node.args[-1])
        yield call(operator.LOGICAL_NOT, replace(node, function=other, args=(*node.args[:-1], body)))


def _branches(node: Expr) -> Iterator[Expr]:
    if isinstance(node, Call) and node.function == operator.CONDITIONAL:
        condition, one, other = node.args
        yield call(node.function, call(operator.LOGICAL_NOT, condition), other, one)


def _prefix_as_pattern(node: Expr) -> Iterator[Expr]:
    if isinstance(node, Call) and node.function == "startsWith" and isinstance(node.args[0], Const):
        yield replace(node, function="matches", args=(Const(0, "^" + re.escape(str(node.args[0].value))),))


def _twice(node: Expr) -> Iterator[Expr]:
    if isinstance(node, Call) and _is(node, operator.LOGICAL_AND):
        yield call(operator.LOGICAL_AND, node, node.args[0])


KEEPING: dict[str, Rewrite] = {
    "swapped operands": _swap,
    "De Morgan": _de_morgan,
    "mirrored comparison": _mirror,
    "complemented comparison": _complement,
    "other quantifier": _quantifier,
    "swapped branches": _branches,
    "prefix as pattern": _prefix_as_pattern,
    "a condition twice": _twice,
}


_OTHER_OPERATORS = {
    operator.LESS: (operator.LESS_EQUALS,),
    operator.LESS_EQUALS: (operator.LESS,),
    operator.GREATER: (operator.GREATER_EQUALS,),
    operator.GREATER_EQUALS: (operator.GREATER,),
    operator.EQUALS: (operator.NOT_EQUALS,),
    operator.NOT_EQUALS: (operator.EQUALS,),
    operator.LOGICAL_AND: (operator.LOGICAL_OR,),
    operator.LOGICAL_OR: (operator.LOGICAL_AND,),
}


def _operator(node: Expr) -> Iterator[Expr]:
    if isinstance(node, Call):
        for other in _OTHER_OPERATORS.get(node.function, ()):
            yield call(other, *node.args)


def _dropped_operand(node: Expr) -> Iterator[Expr]:
    if _is(node, operator.LOGICAL_AND, operator.LOGICAL_OR):
        assert isinstance(node, Call)
        yield from node.args


def _dropped_not(node: Expr) -> Iterator[Expr]:
    if _is(node, operator.LOGICAL_NOT):
        assert isinstance(node, Call)
        yield node.args[0]


def _dropped_guard(node: Expr) -> Iterator[Expr]:
    if _is(node, "has"):
        yield Const(0, True)


def _number(node: Expr) -> Iterator[Expr]:
    if isinstance(node, Const) and type(node.value) is int:
        yield Const(0, node.value + 1)
        yield Const(0, node.value * 2)


def _constant(node: Expr) -> Iterator[Expr]:
    if isinstance(node, Const) and isinstance(node.value, str) and node.value:
        yield Const(0, node.value[:-1])
        yield Const(0, node.value + "x")


def _other_predicate(node: Expr) -> Iterator[Expr]:
    names = {
        "startsWith": "contains",
        "endsWith": "contains",
        "contains": "startsWith",
        "all": "exists",
        "exists": "all",
    }
    if isinstance(node, Call) and node.target is not None and node.function in names:
        yield replace(node, function=names[node.function])


def _anchors(node: Expr) -> Iterator[Expr]:
    if isinstance(node, Call) and node.function == "matches" and isinstance(node.args[-1], Const):
        pattern = str(node.args[-1].value)
        if pattern.startswith("^"):
            yield replace(node, args=(*node.args[:-1], Const(0, pattern[1:])))
        if pattern.endswith("$"):
            yield replace(node, args=(*node.args[:-1], Const(0, pattern[:-1])))


CHANGING: dict[str, Rewrite] = {
    "another operator": _operator,
    "a dropped operand": _dropped_operand,
    "a dropped `!`": _dropped_not,
    "a dropped guard": _dropped_guard,
    "another number": _number,
    "another text": _constant,
    "another predicate": _other_predicate,
    "a dropped anchor": _anchors,
}


def edits_of(unit: BoundPolicy) -> Iterator[Edit]:
    """All edits of a unit that this module knows, in a fixed order."""
    yield from _expression_edits(unit)
    yield from _policy_edits(unit)


def _expression_edits(unit: BoundPolicy) -> Iterator[Edit]:
    for keeps, table in ((True, KEEPING), (False, CHANGING)):
        for name, rewrite in table.items():
            for text, put in _places(unit.policy):
                if not is_parsed(text):
                    continue
                for new in rewritten(raw(text), rewrite):
                    yield Edit(name, replace(unit, policy=put(text_of(new))), keeps)


def _places(policy: ValidatingAdmissionPolicy) -> Iterator[tuple[str, Callable[[str], ValidatingAdmissionPolicy]]]:
    """Each expression on which decisions depend, and how to put another in its place."""
    for name in ("validations", "variables", "match_conditions"):
        items: tuple[Any, ...] = getattr(policy, name)
        for index, item in enumerate(items):

            def put(
                text: str, name: str = name, items: tuple[Any, ...] = items, index: int = index, item: Any = item
            ) -> ValidatingAdmissionPolicy:
                changed: dict[str, Any] = {name: (*items[:index], replace(item, expression=text), *items[index + 1 :])}
                return replace(policy, **changed)

            yield item.expression, put


def _policy_edits(unit: BoundPolicy) -> Iterator[Edit]:
    yield Edit("renamed and reordered", renamed(unit), keeps=True)
    yield Edit("conditions in variables", extracted(unit), keeps=True)
    policy = unit.policy
    other = FailurePolicy.IGNORE if policy.failure_policy is FailurePolicy.FAIL else FailurePolicy.FAIL
    yield Edit("another failure policy", replace(unit, policy=replace(policy, failure_policy=other)), keeps=False)
    for name in ("validations", "match_conditions"):
        items = getattr(policy, name)
        for index in range(len(items)):
            if name == "validations" and len(items) == 1:
                continue
            rest = (*items[:index], *items[index + 1 :])
            fewer: dict[str, Any] = {name: rest}
            yield Edit(f"without one of its {name}", replace(unit, policy=replace(policy, **fewer)), keeps=False)
    for actions in (("Audit",), ("Warn",), ("Deny", "Audit")):
        bindings = tuple(replace(each, validation_actions=actions) for each in unit.bindings)
        yield Edit(f"actions {', '.join(actions)}", replace(unit, bindings=bindings), keeps=False)
    yield from _match_edits(unit)


def _match_edits(unit: BoundPolicy) -> Iterator[Edit]:
    match = unit.policy.match_constraints
    if match is None:
        return
    for index, rule in enumerate(match.resource_rules):
        for name, new in _other_rules(rule):
            rules = (*match.resource_rules[:index], new, *match.resource_rules[index + 1 :])
            policy = replace(unit.policy, match_constraints=replace(match, resource_rules=rules))
            yield Edit(name, replace(unit, policy=policy), keeps=False)
    for field in ("namespace_selector", "object_selector"):
        empty = type(match.namespace_selector)()
        if getattr(match, field) != empty:
            changed: dict[str, Any] = {field: empty}
            policy = replace(unit.policy, match_constraints=replace(match, **changed))
            yield Edit(f"without {field}", replace(unit, policy=policy), keeps=False)


def _other_rules(rule: Rule) -> Iterator[tuple[str, Rule]]:
    if len(rule.operations) > 1:
        yield "an operation less", replace(rule, operations=rule.operations[1:])
    if "DELETE" not in rule.operations and "*" not in rule.operations:
        yield "an operation more", replace(rule, operations=(*rule.operations, "DELETE"))
    if len(rule.resources) > 1:
        yield "a resource less", replace(rule, resources=rule.resources[1:])
    if "secrets" not in rule.resources and "*" not in rule.resources and "" in rule.api_groups:
        yield "a resource more", replace(rule, resources=(*rule.resources, "secrets"))


_VARIABLE = re.compile(r"\bvariables\.([A-Za-z_][A-Za-z0-9_]*)")


def renamed(unit: BoundPolicy) -> BoundPolicy:
    """Other names for all variables, validations and match conditions in another order, operands of `&&` and `||` swapped."""
    policy = unit.policy
    names = {each.name: f"v{index}_{each.name}" for index, each in enumerate(policy.variables)}

    def again(text: str) -> str:
        if not is_parsed(text):
            return text
        swapped = _swapped(raw(_VARIABLE.sub(lambda found: f"variables.{names.get(found[1], found[1])}", text)))
        return text_of(swapped)

    return replace(
        unit,
        policy=replace(
            policy,
            variables=tuple(Variable(names[each.name], again(each.expression)) for each in policy.variables),
            validations=tuple(
                replace(each, expression=again(each.expression), message_expression="")
                for each in reversed(policy.validations)
            ),
            match_conditions=tuple(
                replace(each, expression=again(each.expression)) for each in reversed(policy.match_conditions)
            ),
            audit_annotations=tuple(
                replace(
                    each,
                    value_expression=_VARIABLE.sub(
                        lambda found: f"variables.{names.get(found[1], found[1])}", each.value_expression
                    ),
                )
                for each in policy.audit_annotations
            ),
        ),
    )


def _swapped(node: Expr) -> Expr:
    """With the operands of every `&&` and `||` swapped."""
    match node:
        case Call():
            args = tuple(_swapped(arg) for arg in node.args)
            if node.function in {operator.LOGICAL_AND, operator.LOGICAL_OR}:
                args = tuple(reversed(args))
            return replace(node, args=args, target=None if node.target is None else _swapped(node.target))
        case Select():
            return replace(node, operand=_swapped(node.operand))
        case ListExpr():
            return replace(node, elements=tuple(_swapped(each) for each in node.elements))
    return node


def extracted(unit: BoundPolicy) -> BoundPolicy:
    """Each validation as a variable that it reads."""
    policy = unit.policy
    made = tuple(Variable(f"check{index}", each.expression) for index, each in enumerate(policy.validations))
    checks = tuple(
        Validation(f"variables.check{index}", each.message, "", each.reason)
        for index, each in enumerate(policy.validations)
    )
    return replace(unit, policy=replace(policy, variables=(*policy.variables, *made), validations=checks))


__all__ = ["CHANGING", "KEEPING", "Edit", "Ident", "edits_of", "renamed"]

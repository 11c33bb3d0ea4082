"""Reduction of an expression by known fields: operands that decide and branches that are taken."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from replay.cel.ast import operator
from replay.cel.ast.issues import Issues
from replay.cel.ast.tree import Ast, Call, Comprehension, Const, Expr, Ident, ListExpr, MapEntry, MapExpr, Select
from replay.cel.ast.walk import children, descendants
from replay.cel.env import Env
from replay.cel.strict.folding import PlanError
from replay.cel.value.values import Value
from replay.manifests.lint.reading import SchemaPath, path_of

Evaluator = Callable[[Expr], Value]
_LAZY = frozenset({operator.LOGICAL_AND, operator.LOGICAL_OR, operator.CONDITIONAL})


class Facts(Struct, frozen=True):
    """Facts about fields: the values of some, and the presence of others."""

    values: Mapping[SchemaPath, Value] = field(default_factory=dict)
    presence: Mapping[SchemaPath, bool] = field(default_factory=dict)
    is_read: bool = False
    """Whether an absent field is read as an empty map. Otherwise such a read stays in the expression."""


def tested_paths(node: Expr) -> frozenset[SchemaPath]:
    """Return the paths that an expression tests with `has()`, or selects with `.?`."""
    return frozenset(
        path for each in descendants(node) if isinstance(each, Select | Call) and (path := _tested(each)) is not None
    )


def _tested(node: Expr) -> SchemaPath | None:
    if isinstance(node, Select):
        return path_of(node) if node.test_only else None
    if isinstance(node, Call) and node.function == operator.OPT_SELECT and isinstance(node.args[1], Const):
        operand = path_of(node.args[0])
        return None if operand is None else (*operand, str(node.args[1].value))
    return None


def reachable(node: Expr, facts: Facts, evaluated: Evaluator) -> Expr:  # noqa: PLR0911 - one return a fact
    """Return the expression without the parts that are not evaluated or do not count under the facts.

    `evaluated` returns the value of an expression that reads nothing, or None if it has no constant value.
    """
    match node:
        case Select() if (path := path_of(node)) is not None:
            if node.test_only and path in facts.presence:
                return Const(node.id, facts.presence[path])
            if not node.test_only and path in facts.values:
                return Const(node.id, facts.values[path])
            if not node.test_only and facts.is_read and facts.presence.get(path) is False:
                return MapExpr(node.id, ())
        case Call() if (path := _tested(node)) is not None and facts.presence.get(path) is False:
            return Call(node.id, "optional.none", ())
    left = _with_children(node, lambda child: reachable(child, facts, evaluated))
    if isinstance(left, Call) and left.function in _LAZY:
        return _decided(left)
    if isinstance(left, Call | Comprehension) and _reads_nothing(left):
        value = evaluated(left)
        return left if value is None else Const(node.id, value)
    return left


def evaluator(env: Env, ast: Ast) -> Evaluator:
    """Return a function that evaluates parts of an expression that read nothing.

    It returns None for values other than bool, int and string.
    """

    def evaluated(node: Expr) -> Value:
        checked = env.check(replace(ast, expr=node, macro_calls={}))
        if isinstance(checked, Issues):
            return None
        try:
            value = env.program(checked).eval({}).value
        except PlanError:
            return None
        return value if isinstance(value, bool | int | str) else None

    return evaluated


def _with_children(node: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """Return the node with `change` applied to each child."""
    match node:
        case Select():
            return replace(node, operand=change(node.operand))
        case Call():
            target = None if node.target is None else change(node.target)
            return replace(node, target=target, args=tuple(map(change, node.args)))
        case ListExpr():
            return replace(node, elements=tuple(map(change, node.elements)))
        case MapExpr():
            entries = (MapEntry(each.id, change(each.key), change(each.value), each.optional) for each in node.entries)
            return replace(node, entries=tuple(entries))
        case Comprehension():
            parts = ("iter_range", "accu_init", "loop_condition", "loop_step", "result")
            return replace(node, **{part: change(getattr(node, part)) for part in parts})
    return node


def _decided(node: Call) -> Expr:
    """Return the reduced form of an operator that does not need all its operands."""
    if node.function == operator.CONDITIONAL:
        condition, one, other = node.args
        return (one if condition.value is True else other) if isinstance(condition, Const) else node
    decides = node.function == operator.LOGICAL_OR
    if any(_is(each, decides) for each in node.args):
        return Const(node.id, decides)
    rest = tuple(each for each in node.args if not _is(each, not decides))
    return Const(node.id, not decides) if not rest else rest[0] if len(rest) == 1 else replace(node, args=rest)


def _is(node: Expr, value: bool) -> bool:
    return isinstance(node, Const) and node.value is value


def _reads_nothing(node: Expr, bound: frozenset[str] = frozenset()) -> bool:
    """Return whether an expression names only the variables of its own loops."""
    if isinstance(node, Ident):
        return node.name in bound
    if isinstance(node, Comprehension):
        inner = bound | {node.iter_var, node.iter_var2, node.accu_var}
        outside, inside = (node.iter_range, node.accu_init), (node.loop_condition, node.loop_step, node.result)
        return all(_reads_nothing(each, bound) for each in outside) and all(_reads_nothing(e, inner) for e in inside)
    return all(_reads_nothing(each, bound) for each in children(node))

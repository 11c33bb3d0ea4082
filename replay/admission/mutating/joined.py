"""Lists that a policy joins: the server makes other Go values of `list + list` than of other lists (cel-go `concatList`)."""

from __future__ import annotations

from replay.cel.ast.below import descendants
from replay.cel.ast.factory import ACCUMULATOR
from replay.cel.ast.operator import ADD
from replay.cel.ast.tree import Ast, Call, Expr, Ident

_ADD_LIST = "add_list"


def joins_lists(ast: Ast) -> bool:
    """Whether an expression may join lists, other than to collect what a macro goes through."""
    return any(_joins_lists(node, ast) for node in descendants(ast.expr))


def _joins_lists(node: Expr, ast: Ast) -> bool:
    if not isinstance(node, Call) or node.function != ADD:
        return False
    reference = ast.reference_map.get(node.id)
    left = node.args[0]
    collects = isinstance(left, Ident) and left.name == ACCUMULATOR
    return reference is not None and _ADD_LIST in reference.overload_ids and not collects

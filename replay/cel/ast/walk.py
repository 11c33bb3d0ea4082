"""Walks over a tree: children of a node, its other parts, the shape of a tree, and a stack deep enough for it.

The server's limits allow expressions 250 levels deep, and more with macros.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import TypeVar

from replay.cel.ast.tree import Call, Comprehension, Const, Expr, Ident, ListExpr, MapExpr, Select, StructExpr

_FRAMES = 20_000

T = TypeVar("T")


def with_deep_stack(action: Callable[[], T]) -> T:
    """Return the action's result. Run it again with a deeper stack if it needs one.

    Normal expressions are unaffected. The recursion limit is restored afterwards.
    """
    try:
        return action()
    except RecursionError:
        limit = sys.getrecursionlimit()
        if limit >= _FRAMES:
            raise  # whoever is around has made room already; each of them trying again would take for ever
        sys.setrecursionlimit(_FRAMES)
        try:
            return action()
        finally:
            # Begun near the limit, it cannot be put back from here; it stays as high as it is then.
            with suppress(RecursionError):
                sys.setrecursionlimit(limit)


BoundNames = Mapping[str, int]
"""The names of the enclosing loops, by how far outside they were bound."""
Leaf = Callable[[Expr, BoundNames], object]
"""Function that replaces a node in a shape. It returns None to keep the node's own parts."""


def children(node: Expr) -> Iterator[Expr]:
    """Yield the expressions directly below a node, in the order of cel-go's visitors (`common/ast/navigable.go`)."""
    match node:
        case Select():
            yield node.operand
        case Call():
            if node.target is not None:
                yield node.target
            yield from node.args
        case ListExpr():
            yield from node.elements
        case MapExpr():
            for entry in node.entries:
                yield entry.key
                yield entry.value
        case StructExpr():
            for field in node.fields:
                yield field.value
        case Comprehension():
            yield from (node.iter_range, node.accu_init, node.loop_condition, node.loop_step, node.result)


def descendants(root: Expr) -> list[Expr]:
    """Return all nodes, each after its children."""
    nodes: list[Expr] = []
    pending = [root]
    while pending:
        node = pending.pop()
        nodes.append(node)
        pending.extend(children(node))
    nodes.reverse()
    return nodes


def own_parts(node: Expr) -> tuple[object, ...]:  # noqa: PLR0911 - one return a kind of node
    """Return a node's parts other than its children, without the names of loops."""
    match node:
        case Const():
            return (type(node.value).__name__, repr(node.value))
        case Ident():
            return (node.name,)
        case Select():
            return (node.field, node.test_only)
        case Call():
            return (node.function, node.target is not None)
        case ListExpr():
            return tuple(sorted(node.optional_indices))
        case MapExpr():
            return tuple(each.optional for each in node.entries)
        case StructExpr():
            return (node.type_name, *((each.field, each.optional) for each in node.fields))
        case Comprehension():
            return (bool(node.iter_var2),)
    return ()


def shape_of(node: Expr, leaf: Leaf, bound: BoundNames | None = None) -> object:
    """Return a tree as tuples in which loop names are replaced by their binding. `leaf` replaces further nodes."""
    around = bound or {}
    if isinstance(node, Ident) and node.name in around:
        return ("bound", around[node.name])
    name_of_leaf = leaf(node, around)
    if name_of_leaf is not None:
        return name_of_leaf
    if not isinstance(node, Comprehension):
        below = tuple(shape_of(child, leaf, around) for child in children(node))
        return (type(node).__name__, own_parts(node), below)
    inner = dict(around)
    for name in (node.iter_var, node.iter_var2, node.accu_var):
        inner[name] = 1 + max(inner.values(), default=0)
    parts = (node.accu_init, node.loop_condition, node.loop_step, node.result)
    loop = tuple(shape_of(part, leaf, inner) for part in parts)
    return ("Comprehension", own_parts(node), shape_of(node.iter_range, leaf, around), loop)

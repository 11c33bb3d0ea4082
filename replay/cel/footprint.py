"""What an expression may read of its input: a set of field paths, found without evaluating anything.

A path such as `object.spec.containers[].image` stands for what is there and all below it; `[]` for every element of a
list, or every entry of a map with its key; a field name that is no identifier is quoted: `object.metadata.labels["a/b"]`.
Where a path ends early, because a part of it is missing or of another type, the place where it ends is read too.

The set is an over-approximation: two inputs that agree on all paths give the same result.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from replay.cel.ast import (
    Ast,
    Call,
    Comprehension,
    Const,
    Expr,
    Ident,
    ListExpr,
    MapExpr,
    Select,
    StructExpr,
)

Paths = frozenset[str]
"""The places whose value a node may have; empty where its value is computed."""

_NOTHING: Paths = frozenset()
_PASSING = frozenset({"or", "orValue", "value", "optional.of", "optional.ofNonZeroValue", "dyn"})
"""Functions whose result is one of their arguments."""


def footprint_of(ast: Ast) -> frozenset[str]:
    """The paths that a checked expression may read."""
    reader = _Reader(ast)
    reader.consume(reader.trace(ast.expr, {}))
    return frozenset(reader.read)


def joined(path: str, key: str) -> str:
    """The path of a field."""
    return f"{path}.{key}" if key.isidentifier() and key.isascii() else f"{path}[{json.dumps(key)}]"


class _Reader:
    def __init__(self, ast: Ast) -> None:
        self._references = ast.reference_map
        self.read: set[str] = set()

    def consume(self, paths: Paths) -> None:
        """These places are looked at."""
        self.read.update(paths)

    def trace(self, node: Expr, scope: Mapping[str, Paths]) -> Paths:
        """Where the value of a node comes from; what it takes to compute it is consumed."""
        match node:
            case Const():
                return _NOTHING
            case Ident():
                return self._name(node, scope)
            case Select():
                return self._select(node, scope)
            case Call():
                return self._call(node, scope)
            case Comprehension():
                return self._fold(node, scope)
        for child in _parts(node):
            self.consume(self.trace(child, scope))
        return _NOTHING

    def _name(self, node: Ident, scope: Mapping[str, Paths]) -> Paths:
        if node.name in scope:
            return scope[node.name]
        reference = self._references.get(node.id)
        name = reference.name if reference is not None and reference.name else node.name
        return frozenset({name.removeprefix(".")})

    def _select(self, node: Select, scope: Mapping[str, Paths]) -> Paths:
        reference = self._references.get(node.id)
        if reference is not None and reference.name:
            return frozenset({reference.name})
        paths = frozenset(joined(path, node.field) for path in self.trace(node.operand, scope))
        if not node.test_only:
            return paths
        self.consume(paths)
        return _NOTHING

    def _call(self, node: Call, scope: Mapping[str, Paths]) -> Paths:
        operands = node.args if node.target is None else (node.target, *node.args)
        traced = [self.trace(operand, scope) for operand in operands]
        if node.function in ("_[_]", "_[?_]", "_?._"):
            return self._index(operands[1], traced)
        if node.function == "_?_:_":
            self.consume(traced[0])
            return traced[1] | traced[2]
        if node.function in _PASSING:
            return frozenset().union(*traced)
        for paths in traced:
            self.consume(paths)
        return _NOTHING

    def _index(self, key: Expr, traced: list[Paths]) -> Paths:
        self.consume(traced[1])
        if isinstance(key, Const) and isinstance(key.value, str):
            return frozenset(joined(path, key.value) for path in traced[0])
        return frozenset(f"{path}[]" for path in traced[0])

    def _fold(self, node: Comprehension, scope: Mapping[str, Paths]) -> Paths:
        ranges = self.trace(node.iter_range, scope)
        elements = frozenset(f"{path}[]" for path in ranges)
        before = set(self.read)
        accumulator = self.trace(node.accu_init, scope)
        for _ in range(2):  # what the accumulator holds after one step, a second step may read
            names = {**scope, node.accu_var: accumulator}
            names.update({node.iter_var2: elements, node.iter_var: _NOTHING} if node.iter_var2 else {node.iter_var: elements})
            self.consume(self.trace(node.loop_condition, names))
            accumulator = accumulator | self.trace(node.loop_step, names)
        found = self.trace(node.result, {**scope, node.accu_var: accumulator})
        seen = self.read - before
        # How many elements there are, or which keys, is read in any case.
        self.consume(frozenset(path for path in elements if not any(one.startswith(path) for one in seen)))
        if node.iter_var2:
            self.consume(elements)
        return found


def _parts(node: Expr) -> list[Expr]:
    """The expressions inside a literal."""
    match node:
        case ListExpr():
            return list(node.elements)
        case MapExpr():
            return [part for entry in node.entries for part in (entry.key, entry.value)]
        case StructExpr():
            return [item.value for item in node.fields]
    return []

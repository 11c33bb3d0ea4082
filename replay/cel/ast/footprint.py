"""What an expression may read of its input: a set of field paths, found without evaluating anything.

A path such as `object.spec.containers[].image` stands for what is there and all below it; `[]` for every element of a
list, or every entry of a map with its key; a field name that is no identifier is quoted: `object.metadata.labels["a/b"]`.
`object.spec.volumes?` stands for whether there is such a field, whatever it holds, and `object.spec.volumes[]?` for how
many elements it has.
Where a path ends early, because a part of it is missing or of another type, the place where it ends is read too.

The set is an over-approximation: two inputs that agree on all paths give the same result.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from replay.cel.ast import operator
from replay.cel.ast.below import children
from replay.cel.ast.depth import with_room
from replay.cel.ast.tree import Ast, Call, Comprehension, Const, Expr, Ident, ListExpr, Select

Paths = frozenset[str]
"""The places whose value a node may have; empty where its value is computed."""

_NOTHING: Paths = frozenset()
_PASSING = frozenset(
    {
        *("or", "orValue", "value", "optional.of", "optional.ofNonZeroValue", "dyn"),
        *(operator.ADD, operator.OR_VALUE_EAGERLY),
    }
)
"""Functions whose result is one of their arguments, or a list of what stands in them."""


class Reads(NamedTuple):
    """What it takes to compute an expression, and the places whose value it may then have."""

    reads: frozenset[str]
    places: Paths

    @property
    def footprint(self) -> frozenset[str]:
        """The paths that are read where the value is used."""
        return self.reads | self.places


class LazyMap(NamedTuple):
    """The map of an environment whose entries are computed by other expressions: its name, and their traces by key."""

    name: str = ""
    entries: Mapping[str, Reads] = MappingProxyType({})


NO_LAZY_MAP = LazyMap()


def footprint_of(ast: Ast) -> frozenset[str]:
    """The paths that a checked expression may read."""
    return trace_of(ast, NO_LAZY_MAP).footprint


def trace_of(ast: Ast, lazy: LazyMap) -> Reads:
    """The trace of a checked expression; what it reads of a lazy map is where the entry comes from."""
    return with_room(lambda: _trace_of(ast, lazy))


def _trace_of(ast: Ast, lazy: LazyMap) -> Reads:
    reader = _Reader(ast, lazy)
    places = reader.trace(ast.expr, {})
    return Reads(frozenset(reader.reads), places)


def joined(path: str, key: str) -> str:
    """The path of a field."""
    return f"{path}.{key}" if key.isidentifier() and key.isascii() else f"{path}[{json.dumps(key)}]"


class _Reader:
    def __init__(self, ast: Ast, lazy: LazyMap) -> None:
        self._references = ast.reference_map
        self._lazy = lazy
        self.reads: set[str] = set()

    def consume(self, paths: Paths) -> None:
        """These places are looked at."""
        self.reads.update(paths)

    def trace(self, node: Expr, scope: Mapping[str, Paths]) -> Paths:
        """Where the value of a node comes from; what it takes to compute it is consumed."""
        match node:
            case Ident():
                return self._name(node, scope)
            case Select():
                return self._select(node, scope)
            case Call():
                return self._call(node, scope)
            case Comprehension():
                return self._fold(node, scope)
            case ListExpr():
                return self._list(node, scope)
        for child in children(node):
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
        paths = self._fields(self.trace(node.operand, scope), node.field)
        if not node.test_only:
            return paths
        self.consume(frozenset(f"{path}?" for path in paths))
        return _NOTHING

    def _fields(self, paths: Paths, field: str) -> Paths:
        """A field of each place; one of the lazy map is where that entry comes from."""
        if self._lazy.name not in paths or field not in self._lazy.entries:
            return frozenset(joined(path, field) for path in paths)
        entry = self._lazy.entries[field]
        self.consume(entry.reads)
        return entry.places | self._fields(paths - {self._lazy.name}, field)

    def _call(self, node: Call, scope: Mapping[str, Paths]) -> Paths:
        operands = node.args if node.target is None else (node.target, *node.args)
        traced = [self.trace(operand, scope) for operand in operands]
        if node.function in (operator.INDEX, operator.OPT_INDEX, operator.OPT_SELECT):
            return self._index(operands[1], traced)
        if node.function == operator.CONDITIONAL:
            self.consume(traced[0])
            return traced[1] | traced[2]
        if node.function == operator.IN and isinstance(operands[0], Const) and isinstance(operands[0].value, str):
            # A map is asked for the key; a list is read as a whole, because the path ends early there.
            self.consume(frozenset(f"{joined(path, operands[0].value)}?" for path in traced[1]))
            return _NOTHING
        if node.function in _PASSING:
            return frozenset().union(*traced)
        for paths in traced:
            self.consume(frozenset(f"{path}[]?" for path in paths) if node.function == "size" else paths)
        return _NOTHING

    def _index(self, key: Expr, traced: list[Paths]) -> Paths:
        self.consume(traced[1])
        if isinstance(key, Const) and isinstance(key.value, str):
            return self._fields(traced[0], key.value)
        if self._lazy.name in traced[0]:
            self.consume(frozenset().union(*(entry.footprint for entry in self._lazy.entries.values())))
        return frozenset(f"{path}[]" for path in traced[0])

    def _list(self, node: ListExpr, scope: Mapping[str, Paths]) -> Paths:
        """A list of elements of another list is a part of that list; other elements are read."""
        elements = frozenset().union(*(self.trace(element, scope) for element in node.elements))
        self.consume(frozenset(path for path in elements if not path.endswith("[]")))
        return frozenset(path.removesuffix("[]") for path in elements if path.endswith("[]"))

    def _fold(self, node: Comprehension, scope: Mapping[str, Paths]) -> Paths:
        ranges = self.trace(node.iter_range, scope)
        elements = frozenset(f"{path}[]" for path in ranges)
        earlier = set(self.reads)
        accumulator = self.trace(node.accu_init, scope)
        grown = self._step(node, scope, elements, accumulator)
        if grown != accumulator:  # what the accumulator holds after one step, a second step may read
            accumulator = grown | self._step(node, scope, elements, grown)
        paths = self.trace(node.result, {**scope, node.accu_var: accumulator})
        paths_of_loop = self.reads - earlier
        # How many elements there are, or which keys, is read in any case.
        self.consume(
            frozenset(f"{path}?" for path in elements if not any(one.startswith(path) for one in paths_of_loop))
        )
        if node.iter_var2:
            self.consume(elements)
        return paths

    def _step(self, node: Comprehension, scope: Mapping[str, Paths], elements: Paths, accumulator: Paths) -> Paths:
        """What the accumulator may hold after one element."""
        names = {**scope, node.accu_var: accumulator, node.iter_var: _NOTHING if node.iter_var2 else elements}
        if node.iter_var2:
            names[node.iter_var2] = elements
        self.consume(self.trace(node.loop_condition, names))
        return accumulator | self.trace(node.loop_step, names)

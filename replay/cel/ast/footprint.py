"""The part of its input that an expression may read: a set of field paths, found without evaluating anything.

A path such as `object.spec.containers[].image` stands for the value there and everything below it. `[]` stands for
every element of a list, or every entry of a map with its key. A field name that is no identifier is quoted:
`object.metadata.labels["a/b"]`. `object.spec.volumes?` stands for whether the field exists, and whether it is null or
otherwise empty. `object.spec.volumes[]?` stands for how many elements it has. If a path ends early, because a part of
it is missing or of another type, the value where it ends is read too.

The set is an over-approximation: two inputs that agree on all paths give the same result.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from replay.cel.ast import operator
from replay.cel.ast.tree import Ast, Call, Comprehension, Const, Expr, Ident, ListExpr, MapExpr, Select
from replay.cel.ast.walk import children, with_deep_stack

Paths = frozenset[str]

_NO_PATHS: Paths = frozenset()
_PASSING = frozenset({"or", "orValue", "value", "optional.of", "dyn", operator.ADD, operator.OR_VALUE_EAGERLY})
"""Functions whose result is one of their arguments, or a list of the arguments' elements."""
_GROWING = frozenset({operator.ADD, operator.LOGICAL_AND, operator.LOGICAL_OR, "cel.@mapInsert"})
"""Functions with which macros add to their accumulator, which is the first argument."""
_MOST_PARTS = 256
"""Maximum number of parts of a list or map literal that are distinguished. Larger literals are read as a whole."""


class Places(NamedTuple):
    """Possible sources of a node's value, and the parts of a value that the expression builds.

    The part ANY is any element of a list, or the entry of a computed key.
    """

    paths: Paths = _NO_PATHS
    parts: Mapping[str | None, Places] = MappingProxyType({})
    size: int = 1
    """The number of parts, at any depth."""

    @property
    def footprint(self) -> Paths:
        """The paths that are read if the value is used as a whole."""
        return self.paths.union(*(part.footprint for part in self.parts.values())) if self.parts else self.paths

    @property
    def any_part(self) -> Places:
        """The sources of any part of the value."""
        return _union(Places(frozenset(f"{path}[]" for path in self.paths)), *self.parts.values())


ANY = None
_NOTHING = Places()


def _union(*places: Places) -> Places:
    """Return the union of several sources."""
    distinct = list({id(each): each for each in places if each.paths or each.parts}.values())
    if len(distinct) < 2:
        return distinct[0] if distinct else _NOTHING
    paths = _NO_PATHS.union(*(each.paths for each in distinct))
    keys = {key: None for each in distinct for key in each.parts}
    return _built(paths, {key: _union(*(each.parts[key] for each in distinct if key in each.parts)) for key in keys})


def _built(paths: Paths, parts: Mapping[str | None, Places]) -> Places:
    return Places(paths, parts, 1 + sum(part.size for part in parts.values()))


class Reads(NamedTuple):
    """Paths that an expression needs, and the sources of its value."""

    reads: Paths
    places: Places

    @property
    def footprint(self) -> Paths:
        """The paths that are read if the value is used."""
        paths = self.reads | self.places.footprint
        return frozenset(path for path in paths if not path.endswith("?") or path[:-1] not in paths)


class LazyMap(NamedTuple):
    """The map of an environment whose entries are computed by other expressions: its name, and their traces by key."""

    name: str = ""
    entries: Mapping[str, Reads] = MappingProxyType({})


NO_LAZY_MAP = LazyMap()


def footprint_of(ast: Ast) -> frozenset[str]:
    """Return the paths that a checked expression may read."""
    return trace_of(ast, NO_LAZY_MAP).footprint


def trace_of(ast: Ast, lazy: LazyMap) -> Reads:
    """Return the trace of a checked expression. What it reads of a lazy map is attributed to the entry's source."""
    return with_deep_stack(lambda: _trace_of(ast, lazy))


def _trace_of(ast: Ast, lazy: LazyMap) -> Reads:
    reader = _Reader(ast, lazy)
    places = reader.trace(ast.expr, {})
    return Reads(frozenset(reader.reads), places)


def joined(path: str, key: str) -> str:
    """Return the path of a field."""
    return f"{path}.{key}" if key.isidentifier() and key.isascii() else f"{path}[{json.dumps(key)}]"


class _Reader:
    def __init__(self, ast: Ast, lazy: LazyMap) -> None:
        self._references = ast.reference_map
        self._lazy = lazy
        self.reads: set[str] = set()

    def consume(self, places: Places) -> None:
        """Record that the values at these places are used."""
        self.reads.update(places.footprint)

    def consume_presence(self, places: Places) -> None:
        """Record a presence test at these places. Parts that the expression builds are always present."""
        self.reads.update(f"{path}?" for path in places.paths)

    def trace(self, node: Expr, scope: Mapping[str, Places]) -> Places:  # noqa: PLR0911 - one return a node
        """Return the sources of a node's value, and record the paths that it needs."""
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
                return self._build([(ANY, self.trace(element, scope)) for element in node.elements])
            case MapExpr():
                return self._build([self._entry(entry.key, entry.value, scope) for entry in node.entries])
        for child in children(node):
            self.consume(self.trace(child, scope))
        return _NOTHING

    def _name(self, node: Ident, scope: Mapping[str, Places]) -> Places:
        if node.name in scope:
            return scope[node.name]
        reference = self._references.get(node.id)
        name = reference.name if reference is not None and reference.name else node.name
        return Places(frozenset({name.removeprefix(".")}))

    def _select(self, node: Select, scope: Mapping[str, Places]) -> Places:
        reference = self._references.get(node.id)
        if reference is not None and reference.name:
            return Places(frozenset({reference.name}))
        places = self._field(self.trace(node.operand, scope), node.field)
        if not node.test_only:
            return places
        self.consume_presence(places)
        return _NOTHING

    def _field(self, places: Places, field: str) -> Places:
        """Return a field of each place, or for the lazy map the sources of that entry."""
        parts = [places.parts[key] for key in (field, ANY) if key in places.parts]
        paths = places.paths
        if self._lazy.name in paths and field in self._lazy.entries:
            entry = self._lazy.entries[field]
            self.reads |= entry.reads
            parts.append(entry.places)
            paths -= {self._lazy.name}
        return _union(Places(frozenset(joined(path, field) for path in paths)), *parts)

    def _build(self, parts: Iterable[tuple[str | None, Places]]) -> Places:
        """Return a list or map of parts. One that is too large is read as a whole."""
        by_key: dict[str | None, Places] = {}
        for key, places in parts:
            self.consume_presence(places)
            by_key[key] = _union(by_key.get(key, _NOTHING), places)
        built = _built(_NO_PATHS, by_key)
        if built.size <= _MOST_PARTS:
            return built
        self.consume(built)
        return _NOTHING

    def _entry(self, key: Expr, value: Expr, scope: Mapping[str, Places]) -> tuple[str | None, Places]:
        """Return an entry of a map, and record that its key is read."""
        self.consume(self.trace(key, scope))
        return _constant_text(key), self.trace(value, scope)

    def _call(self, node: Call, scope: Mapping[str, Places]) -> Places:  # noqa: C901, PLR0911 - one branch a form of call
        operands = node.args if node.target is None else (node.target, *node.args)
        traced = [self.trace(operand, scope) for operand in operands]
        match node.function:
            case operator.INDEX | operator.OPT_INDEX | operator.OPT_SELECT:
                return self._index(operands[1], traced)
            case operator.CONDITIONAL:
                self.consume(traced[0])
                return _union(traced[1], traced[2])
            case operator.EQUALS | operator.NOT_EQUALS if any(map(_is_null, operands)):
                for places in traced:
                    self._consume_whether_null(places)
                return _NOTHING
            case operator.IN if (key := _constant_text(operands[0])) is not None:
                # A map is asked for the key; a list is read as a whole, because the path ends early there.
                self.reads.update(f"{joined(path, key)}?" for path in traced[1].paths)
                self.consume(_built(_NO_PATHS, traced[1].parts))
                return _NOTHING
            case "hasValue":
                self.consume_presence(traced[0])
                return _NOTHING
            case "optional.ofNonZeroValue":
                self._consume_size(traced[0])
                return traced[0]
            case "size":
                for places in traced:
                    self._consume_size(places)
                return _NOTHING
            case "cel.@mapInsert" if len(operands) == 3:
                self.consume(traced[1])
                return _union(traced[0], self._build([(_constant_text(operands[1]), traced[2])]))
        if node.function in _PASSING:
            return _union(*traced)
        for places in traced:
            self.consume(places)
        return _NOTHING

    def _consume_whether_null(self, places: Places) -> None:
        """Record a null test. For a path to any element, the value itself is read."""
        self.reads.update(path if path.endswith("[]") else f"{path}?" for path in places.paths)

    def _consume_size(self, places: Places) -> None:
        """Record a size test. The size of a built value depends on paths that are recorded already."""
        self.reads.update(f"{path}[]?" for path in places.paths)

    def _index(self, key: Expr, traced: list[Places]) -> Places:
        self.consume(traced[1])
        text = _constant_text(key)
        if text is not None:
            return self._field(traced[0], text)
        if self._lazy.name in traced[0].paths:
            self.reads.update(*(entry.footprint for entry in self._lazy.entries.values()))
        return traced[0].any_part

    def _fold(self, node: Comprehension, scope: Mapping[str, Places]) -> Places:
        ranges = self.trace(node.iter_range, scope)
        elements = ranges.any_part
        earlier = set(self.reads)
        accumulator = self.trace(node.accu_init, scope)
        grown = self._step(node, scope, elements, accumulator)
        if grown != accumulator and _reads(_author_parts(node.loop_step, node.accu_var), node.accu_var):
            # What the accumulator holds after one step, a second one may read. Without this check, nested folds take exponential time.
            grown = self._step(node, scope, elements, grown)
        accumulator = grown
        places = self.trace(node.result, {**scope, node.accu_var: accumulator})
        paths_of_loop = self.reads - earlier
        # How many elements there are, or which keys, is read in any case.
        self.reads.update(
            f"{path}[]?" for path in ranges.paths if not any(one.startswith(f"{path}[]") for one in paths_of_loop)
        )
        return places

    def _step(self, node: Comprehension, scope: Mapping[str, Places], elements: Places, accumulator: Places) -> Places:
        """Return what the accumulator may hold after one element."""
        names = {**scope, node.accu_var: accumulator, node.iter_var: _NOTHING if node.iter_var2 else elements}
        if node.iter_var2:
            names[node.iter_var2] = elements
        self.consume(self.trace(node.loop_condition, names))
        return _union(accumulator, self.trace(node.loop_step, names))


def _author_parts(step: Expr, accumulator: str) -> list[Expr]:
    """Return the parts of a fold's step that the macro did not add itself.

    For `p ? accumulator + [x] : accumulator` these are `p` and `[x]`.
    """
    if isinstance(step, Ident) and step.name == accumulator:
        return []
    if isinstance(step, Call) and step.target is None:
        first, *others = step.args
        if step.function == operator.CONDITIONAL:
            return [first, *(part for each in others for part in _author_parts(each, accumulator))]
        if step.function in _GROWING and isinstance(first, Ident) and first.name == accumulator:
            return others
    return [step]


def _reads(nodes: Iterable[Expr], name: str) -> bool:
    """Return whether an expression reads a variable. A fold that binds the name again hides it."""
    rest = list(nodes)
    while rest:
        node = rest.pop()
        if isinstance(node, Ident) and node.name == name:
            return True
        if isinstance(node, Comprehension) and node.accu_var == name:
            rest.extend((node.iter_range, node.accu_init))
        else:
            rest.extend(children(node))
    return False


def _constant_text(node: Expr) -> str | None:
    return node.value if isinstance(node, Const) and isinstance(node.value, str) else None


def _is_null(node: Expr) -> bool:
    return isinstance(node, Const) and node.value is None

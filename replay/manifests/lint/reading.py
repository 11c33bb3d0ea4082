"""The fields that an expression reads or tests, through loops, variables and function results.

A path is a chain of fields from a root, as in `("object", "spec", "containers", "[]", "image")`. `[]` is any element of
a list. A read from a CEL optional cannot fail, so it does not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from replay.cel.ast import operator
from replay.cel.ast.tree import Ast, Call, Comprehension, Const, Expr, Ident, ListExpr, Select
from replay.cel.ast.walk import children, with_deep_stack

SchemaPath = tuple[str, ...]

ELEMENT = "[]"
VARIABLES = "variables"
_DISCRIMINATOR = "type"
"""The field of a union that says which of its other fields is set."""
_OPTIONAL_MAKERS = frozenset({"optional.of", "optional.ofNonZeroValue"})
_PASSING = frozenset({"dyn", "reverse", "sort", "slice", "distinct"})
"""Functions whose result is their argument, or a list of some of its elements."""


class ReadingOrigin(Struct, frozen=True):
    """Possible sources of a value: paths of the value itself, and paths of its elements."""

    paths: frozenset[SchemaPath] = frozenset()
    elements: frozenset[SchemaPath] = frozenset()
    is_optional: bool = False
    """Whether the value is a CEL optional, in which a missing field is no error."""

    @property
    def any_element(self) -> frozenset[SchemaPath]:
        """The possible sources of an element."""
        return frozenset((*path, ELEMENT) for path in self.paths) | self.elements


_NOWHERE = ReadingOrigin()


class Reading(Struct, frozen=True):
    """The paths that an expression reads, those that it tests for presence, and the variables that it reads."""

    paths: frozenset[SchemaPath]
    guards: frozenset[SchemaPath]
    variables: frozenset[str]
    origin: ReadingOrigin

    def is_guarded(self, path: SchemaPath) -> bool:
        """Return whether the expression tests the path itself, or the type of the union to which the field belongs."""
        return path in self.guards or (*path[:-1], _DISCRIMINATOR) in self.guards


def reading_of(ast: Ast, variables: Mapping[str, Reading] | None = None) -> Reading:
    """Return what a checked expression reads itself. `variables` has the sources of each variable."""
    tracer = _Tracer(variables or {})
    origin = with_deep_stack(lambda: tracer.trace(ast.expr, {}))
    return Reading(frozenset(tracer.paths), frozenset(tracer.guards), frozenset(tracer.variables), origin)


def path_of(node: Expr) -> SchemaPath | None:
    """Return the path of a chain of selections, or None for another expression."""
    fields: list[str] = []
    while isinstance(node, Select):
        fields.append(node.field)
        node = node.operand
    if not isinstance(node, Ident):
        return None
    return (*node.name.split("."), *reversed(fields))


class _Tracer:
    """Tracer of values through one expression."""

    def __init__(self, variables: Mapping[str, Reading]) -> None:
        self._known = variables
        self.paths: set[SchemaPath] = set()
        self.guards: set[SchemaPath] = set()
        self.variables: set[str] = set()

    def trace(self, node: Expr, scope: Mapping[str, ReadingOrigin]) -> ReadingOrigin:
        match node:
            case Ident():
                return scope[node.name] if node.name in scope else self._variable(node)
            case Select():
                return self._select(node, scope)
            case Call():
                return self._call(node, scope)
            case Comprehension():
                return self._loop(node, scope)
            case ListExpr():
                items = [self.trace(item, scope) for item in node.elements]
                return ReadingOrigin(elements=frozenset[SchemaPath]().union(*(item.paths for item in items)))
        for child in children(node):
            self.trace(child, scope)
        return _NOWHERE

    def _variable(self, node: Ident) -> ReadingOrigin:
        paths = frozenset({tuple(node.name.split("."))})
        self.paths |= paths
        return ReadingOrigin(paths)

    def _select(self, node: Select, scope: Mapping[str, ReadingOrigin]) -> ReadingOrigin:
        operand = self.trace(node.operand, scope)
        selected = self._field(operand, node.field)
        if node.test_only:
            self.guards |= selected.paths
            return _NOWHERE
        if not operand.is_optional:
            self.paths |= selected.paths
        return selected

    def _field(self, operand: ReadingOrigin, field: str) -> ReadingOrigin:
        """Return the source of a value's field. A field of `variables` has the source of the variable."""
        paths = {(*path, field) for path in operand.paths if path != (VARIABLES,)}
        if (VARIABLES,) not in operand.paths:
            return ReadingOrigin(frozenset(paths), is_optional=operand.is_optional)
        self.variables.add(field)
        known = self._known.get(field)
        origin = known.origin if known is not None else _NOWHERE
        return ReadingOrigin(origin.paths | paths, origin.elements, origin.is_optional or operand.is_optional)

    def _call(self, node: Call, scope: Mapping[str, ReadingOrigin]) -> ReadingOrigin:  # noqa: PLR0911 - one return a form of call
        operands = node.args if node.target is None else (node.target, *node.args)
        traced = [self.trace(operand, scope) for operand in operands]
        match node.function:
            case operator.OPT_SELECT | operator.OPT_INDEX:
                found = self._entry(traced[0], operands[1])
                self.guards |= found.paths
                return ReadingOrigin(found.paths, found.elements, is_optional=True)
            case operator.INDEX:
                return self._entry(traced[0], operands[1])
            case operator.IN if isinstance(operands[0], Const):
                self.guards |= self._entry(traced[1], operands[0]).paths
                return _NOWHERE
            case operator.EQUALS | operator.NOT_EQUALS | operator.IN:
                self.guards |= _roots_compared_with_null(operands) | _types(traced)
                return _NOWHERE
            case operator.CONDITIONAL:
                return _any_of(traced[1:])
            case operator.ADD | "or":
                return _any_of(traced)
            case "orValue" | "value":
                origin = _any_of(traced)
                return ReadingOrigin(origin.paths, origin.elements)
            case "flatten":
                inner = traced[0].any_element
                return ReadingOrigin(elements=frozenset((*path, ELEMENT) for path in inner))
        if node.function in _OPTIONAL_MAKERS:
            return ReadingOrigin(traced[0].paths, traced[0].elements, is_optional=True)
        return traced[0] if node.function in _PASSING else _NOWHERE

    def _entry(self, operand: ReadingOrigin, key: Expr) -> ReadingOrigin:
        """Return the source of a list element or map entry. A constant key is like a field, but does not count as read."""
        if isinstance(key, Const) and isinstance(key.value, str):
            return self._field(operand, key.value)
        return ReadingOrigin(operand.any_element, is_optional=operand.is_optional)

    def _loop(self, node: Comprehension, scope: Mapping[str, ReadingOrigin]) -> ReadingOrigin:
        element = ReadingOrigin(self.trace(node.iter_range, scope).any_element)
        accumulator = self.trace(node.accu_init, scope)
        names = {**scope, node.accu_var: accumulator}
        names[node.iter_var2 or node.iter_var] = element
        if node.iter_var2:
            names[node.iter_var] = _NOWHERE
        self.trace(node.loop_condition, names)
        accumulator = _any_of([accumulator, self.trace(node.loop_step, names)])
        return self.trace(node.result, {**scope, node.accu_var: accumulator})


def _any_of(origins: Iterable[ReadingOrigin]) -> ReadingOrigin:
    """Return the union of sources."""
    found = list(origins)
    return ReadingOrigin(
        frozenset[SchemaPath]().union(*(each.paths for each in found)),
        frozenset[SchemaPath]().union(*(each.elements for each in found)),
        any(each.is_optional for each in found),
    )


def _roots_compared_with_null(operands: tuple[Expr, ...]) -> frozenset[SchemaPath]:
    """Return the variables that are compared with null. A field is read before it is compared, so it does not count."""
    pairs = (operands, operands[::-1])
    return frozenset(
        (one.name,)
        for one, other in pairs
        if isinstance(other, Const) and other.value is None and isinstance(one, Ident)
    )


def _types(origins: Iterable[ReadingOrigin]) -> frozenset[SchemaPath]:
    """Return the paths of fields that select the member of a union."""
    return frozenset(path for each in origins for path in each.paths if path[-1] == _DISCRIMINATOR and len(path) > 2)


# Facts about an expression without evaluation: the names that it reads, and the operations that it requires.


def mentions(ast: Ast, path: SchemaPath) -> bool:
    """Return whether the expression reads, tests or compares the path or something below it."""
    reading = reading_of(ast)
    return any(below[: len(path)] == path for below in reading.paths | reading.guards)


def compared_operations(ast: Ast) -> Iterator[tuple[str, int]]:
    """Yield the operations to which `request.operation` must be equal for a true result, with their offsets."""
    for node in conjuncts(ast.expr):
        if isinstance(node, Call) and node.function == operator.EQUALS:
            for one, other in (node.args, node.args[::-1]):
                if path_of(one) == ("request", "operation") and isinstance(other, Const):
                    yield str(other.value), ast.positions.get(other.id, 0)


def conjuncts(node: Expr) -> Iterator[Expr]:
    """Yield the operands of nested `&&`, or another expression itself."""
    if isinstance(node, Call) and node.function == operator.LOGICAL_AND:
        for argument in node.args:
            yield from conjuncts(argument)
    else:
        yield node

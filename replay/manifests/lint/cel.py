"""What can be said of an expression without evaluating it: guards, optional fields, null objects.

A path is a chain of selections from a root, `("object", "metadata", "labels")`; an index or a variable of a macro ends it.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from replay.cel.ast import operator
from replay.cel.ast.below import children
from replay.cel.ast.tree import Ast, Call, Const, Expr, Ident, Select

SchemaPath = tuple[str, ...]

_EQUALITY = frozenset({operator.EQUALS, operator.NOT_EQUALS})


class Reading(Struct, frozen=True):
    """What an expression reads: paths with the offset of each, and the paths that it tests before."""

    paths: tuple[tuple[SchemaPath, int], ...]
    guards: frozenset[SchemaPath]

    def is_guarded(self, path: SchemaPath) -> bool:
        """Whether the path itself, or something below it, is tested somewhere in the expression."""
        return any(guard[: len(path)] == path for guard in self.guards)


def reading_of(ast: Ast) -> Reading:
    """What an expression reads."""
    paths: list[tuple[SchemaPath, int]] = []
    guards: set[SchemaPath] = set()
    for node in _nodes(ast.expr):
        if isinstance(node, Select):
            path = path_of(node)
            if path is not None and node.test_only:
                guards.add(path)
            elif path is not None:
                paths.append((path, ast.positions.get(node.id, 0)))
        elif isinstance(node, Call) and node.function in (operator.OPT_SELECT, operator.OPT_INDEX):
            path = path_of(node.args[0])
            if path is not None and isinstance(node.args[1], Const):
                guards.add((*path, str(node.args[1].value)))
        elif isinstance(node, Call) and node.function in _EQUALITY:
            guards.update(_compared_with_null(node))
    return Reading(tuple(paths), frozenset(guards))


def _compared_with_null(node: Call) -> Iterator[SchemaPath]:
    for one, other in (node.args, node.args[::-1]):
        if isinstance(other, Const) and other.value is None and (path := path_of(one)) is not None:
            yield path


def path_of(node: Expr) -> SchemaPath | None:
    """The path of a chain of selections, None for anything else."""
    fields: list[str] = []
    while isinstance(node, Select):
        fields.append(node.field)
        node = node.operand
    if not isinstance(node, Ident):
        return None
    return (*node.name.split("."), *reversed(fields))


def mentions(ast: Ast, path: SchemaPath) -> bool:
    """Whether the expression reads, tests or compares the path or something below it."""
    reading = reading_of(ast)
    paths = (*(below for below, _ in reading.paths), *reading.guards)
    return any(below[: len(path)] == path for below in paths)


def compared_operations(ast: Ast) -> Iterator[tuple[str, int]]:
    """The operations with which `request.operation` must equal for the whole expression to be true, with their offsets."""
    for node in _conjuncts(ast.expr):
        if isinstance(node, Call) and node.function == operator.EQUALS:
            for one, other in (node.args, node.args[::-1]):
                if path_of(one) == ("request", "operation") and isinstance(other, Const):
                    yield str(other.value), ast.positions.get(other.id, 0)


def _conjuncts(node: Expr) -> Iterator[Expr]:
    if isinstance(node, Call) and node.function == operator.LOGICAL_AND:
        for argument in node.args:
            yield from _conjuncts(argument)
    else:
        yield node


def _nodes(node: Expr) -> Iterator[Expr]:
    """A node and those below it; of a chain of selections only the longest, unless it is tested."""
    pending = [node]
    while pending:
        current = pending.pop()
        yield current
        if isinstance(current, Select) and path_of(current) is not None and not current.test_only:
            continue
        pending.extend(children(current))

"""Facts about an expression without evaluation: the names that it reads, and the operations that it requires."""

from __future__ import annotations

from collections.abc import Iterator

from replay.cel.ast import operator
from replay.cel.ast.tree import Ast, Call, Const, Expr
from replay.manifests.lint.reading import SchemaPath, path_of, reading_of


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

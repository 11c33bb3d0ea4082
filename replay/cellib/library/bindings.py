"""`cel.bind(name, value, expression)` (cel-go `ext/bindings.go`)."""

from __future__ import annotations

from replay.cel.ast.factory import ExprFactory
from replay.cel.ast.tree import Expr, Ident
from replay.cel.declare.library import Library
from replay.cel.declare.macros import Macro, let, simple_name


def is_namespace(target: Expr | None, name: str) -> bool:
    """Whether the receiver of a macro is the name of its library."""
    return isinstance(target, Ident) and target.name == name


def _bind(factory: ExprFactory, target: Expr | None, args: tuple[Expr, ...]) -> Expr | None:
    if not is_namespace(target, "cel"):
        return None
    name = simple_name(args[0], "cel.bind() variable names must be simple identifiers")
    return let(factory, factory.list(), name, args[1], args[2])


BINDINGS = Library(name="cel.lib.ext.cel.bindings", macros=(Macro("bind", (3,), _bind),))
"""`cel.bind`."""

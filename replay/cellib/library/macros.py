"""The macros `cel.bind`, `proto.getExt` and `proto.hasExt` (cel-go `ext/bindings.go`, `ext/protos.go`)."""

from __future__ import annotations

from replay.cel.ast.factory import ExprFactory
from replay.cel.ast.tree import Expr, Ident, Select
from replay.cel.declare.library import Library
from replay.cel.declare.macros import Macro, MacroError, let, simple_name


def is_namespace(target: Expr | None, name: str) -> bool:
    """Return whether the receiver of a macro is the name of its library."""
    return isinstance(target, Ident) and target.name == name


def _bind(factory: ExprFactory, target: Expr | None, args: tuple[Expr, ...]) -> Expr | None:
    if not is_namespace(target, "cel"):
        return None
    name = simple_name(args[0], "cel.bind() variable names must be simple identifiers")
    return let(factory, factory.list(), name, args[1], args[2])


BINDINGS = Library(name="cel.lib.ext.cel.bindings", macros=(Macro("bind", (3,), _bind),))
"""`cel.bind`."""


def _qualified_name(node: Expr) -> str | None:
    if isinstance(node, Ident):
        return node.name
    if isinstance(node, Select) and not node.test_only:
        operand = _qualified_name(node.operand)
        return None if operand is None else f"{operand}.{node.field}"
    return None


def _field(node: Expr) -> str:
    name = _qualified_name(node) if isinstance(node, Select) else None
    if name is None:
        raise MacroError(node, "invalid extension field")
    return name


def _has_extension(factory: ExprFactory, target: Expr | None, args: tuple[Expr, ...]) -> Expr | None:
    if not is_namespace(target, "proto"):
        return None
    return factory.presence_test(args[0], _field(args[1]))


def _get_extension(factory: ExprFactory, target: Expr | None, args: tuple[Expr, ...]) -> Expr | None:
    if not is_namespace(target, "proto"):
        return None
    return factory.select(args[0], _field(args[1]))


PROTOS = Library(
    name="cel.lib.ext.protos",
    macros=(Macro("getExt", (2,), _get_extension), Macro("hasExt", (2,), _has_extension)),
)
"""`proto.getExt` and `proto.hasExt`."""

"""`proto.getExt` and `proto.hasExt`: fields by their qualified names (cel-go `ext/protos.go`)."""

from __future__ import annotations

from replay.cel.ast.factory import ExprFactory
from replay.cel.ast.tree import Expr, Ident, Select
from replay.cel.declare.library import Library
from replay.cel.declare.macros import Macro, MacroError
from replay.cellib.library.bindings import is_namespace


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

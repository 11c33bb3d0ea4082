"""Parses text that may not be well-formed, and finds everything that the server finds wrong with it."""

from __future__ import annotations

from replay.cel.ast.factory import ExprFactory
from replay.cel.ast.issues import NO_OFFSET, Issues
from replay.cel.ast.source import Source
from replay.cel.ast.tree import Ast
from replay.cel.ast.walk import with_deep_stack
from replay.cel.declare.macros import MacroTable
from replay.cel.release import NEWEST_RELEASE, Release
from replay.cel.syntax import lexer
from replay.cel.syntax.recovery.parser import LimitError, parse_tree
from replay.cel.syntax.recovery.syntax_error import AbortedError
from replay.cel.syntax.recovery.tree_visitor import VisitDepthError, expr_from_tree


def parse_with_recovery(
    source: Source, macros: MacroTable, *, optional_syntax: bool, release: Release = NEWEST_RELEASE
) -> Ast | Issues:
    """Return the tree of an expression, or everything that is wrong with it."""
    if len(source.text) > lexer.MAX_CODE_POINTS:
        issues = Issues(source)
        size = len(source.text)
        message = f"expression code point size exceeds limit: size: {size}, limit {lexer.MAX_CODE_POINTS}"
        issues.report(0, NO_OFFSET, message)
        return issues
    return with_deep_stack(lambda: _parse(source, macros, release, optional_syntax=optional_syntax))


def _parse(source: Source, macros: MacroTable, release: Release, *, optional_syntax: bool) -> Ast | Issues:
    issues = Issues(source)
    factory = ExprFactory(release)
    expr = None
    try:
        tree = parse_tree(source.text, issues, release)
        expr = expr_from_tree(tree, factory, issues, macros, optional_syntax=optional_syntax)
    except (LimitError, VisitDepthError) as error:
        issues.report(0, NO_OFFSET, str(error))
    except AbortedError:
        pass  # reported where it was found
    if issues or expr is None:
        return issues
    return Ast(expr, source, factory.positions, factory.macro_calls)

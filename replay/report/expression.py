"""An expression with the values of its parts below it, one line for each part, indented like the parts.

Parts that were not evaluated are marked. Of a macro, only the first and the last rounds are shown. The last round is
the one that decides `all` and `exists`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from replay.cel.ast import operator
from replay.cel.ast.tree import Ast, Call, Comprehension, Const, Expr, Ident, ListExpr, MapExpr, Select, StructExpr
from replay.cel.strict.trace import Trace
from replay.cel.syntax.unparse import unparse
from replay.cel.value.bounds import UndeterminedError
from replay.cel.value.concat import materialized
from replay.cel.value.partial import PartialValue
from replay.cel.value.text import display, type_name
from replay.cel.value.values import EvalError, ObjectValue, OptionalValue, Unknown, Value, untyped

ARROW = "→"
NOT_EVALUATED = "not evaluated"
LONGEST_VALUE = 120
LONGEST_TEXT = 160
FIRST_ROUNDS, LAST_ROUNDS = 2, 1
DEEPEST = 12
_INDICES = frozenset({operator.INDEX, operator.OPT_INDEX, operator.OPT_SELECT})
_LOGICAL = frozenset({operator.LOGICAL_AND, operator.LOGICAL_OR})

Conceal = Callable[[str, Value], Value]
"""Function that takes the text of a part and its value, and returns the value that may be shown."""


def expression_lines(ast: Ast, trace: Trace, conceal: Conceal) -> list[str]:
    """Return a line `text → value` for each part of an expression that matters, without the expression itself."""
    return list(_Drawing(ast, conceal).parts(ast.expr, trace, 0))


_BEGUN = re.compile(r"(?<!\w)\w{2,24}$")
"""Pattern of the first characters of a word of usual length, at the place where a text is cut."""


def shown(value: Value) -> str:  # noqa: PLR0911 - one form a kind of value
    """Return a value on one line, cut if it is long. It is JSON if possible, otherwise in the server's form."""
    if isinstance(value, PartialValue):
        return f"partly known; missing {', '.join(each.path for each in value.missing)}"  # type: ignore[attr-defined]
    if isinstance(value, Unknown):
        paths = ", ".join(f"{each.path} ({each.reason})" for each in value.missing)  # type: ignore[attr-defined]
        return f"unknown: {paths}"
    if isinstance(value, EvalError):
        return f"error: {value.message}"
    if isinstance(value, OptionalValue):
        return f"optional.of({shown(value.value)})" if value.has_value else "optional.none()"
    if isinstance(value, ObjectValue):
        fields = ", ".join(f"{name}: {shown(item)}" for name, item in value.fields.items())
        return _cut(f"{value.type_name}{{{fields}}}", LONGEST_VALUE)
    try:
        value = materialized(untyped(value))
    except UndeterminedError:
        return f"{type_name(value)}, too large to be shown"
    if isinstance(value, list | tuple) and any(isinstance(item, ObjectValue) for item in value):
        return _cut(f"[{', '.join(map(shown, value))}]", LONGEST_VALUE)
    if isinstance(value, str | bool | int | float | list | dict | tuple | type(None)):
        return _cut(json.dumps(value, ensure_ascii=False, default=_json_fallback), LONGEST_VALUE)
    return _cut(display(value), LONGEST_VALUE)


def _json_fallback(value: Any) -> Any:
    """Convert a value that JSON cannot express."""
    plain = untyped(value)
    return plain if plain is not value else shown(value)


def _cut(text: str, longest: int) -> str:
    """Cut a text at the end of a word."""
    if len(text) <= longest:
        return text
    begun = _BEGUN.search(text[: longest + 1])
    end = begun.start() if begun else longest
    return f"{text[:end].rstrip()}… ({len(text):,} characters)"


class _Drawing:
    """One expression tree, drawn with the values of a trace."""

    def __init__(self, ast: Ast, conceal: Conceal) -> None:
        self._ast = ast
        self._conceal = conceal
        self._locals: set[str] = set()

    def entry(self, node: Expr, trace: Trace, depth: int) -> Iterator[str]:
        """Yield the line of a part, then those of its parts, without constants and grouping."""
        if depth > DEEPEST or _is_constant(node) or (isinstance(node, Ident) and node.name in self._locals):
            return
        has_value, value = self._value(node, trace)
        text = unparse(replace(self._ast, expr=node))
        shown_value = shown(self._conceal(text, value)) if has_value else NOT_EVALUATED
        yield f"{'  ' * depth}{_cut(text, LONGEST_TEXT)} {ARROW} {shown_value}"
        if has_value:
            yield from self.parts(node, trace, depth + 1)

    def parts(self, node: Expr, trace: Trace, depth: int) -> Iterator[str]:
        """Yield the lines of the parts of a node."""
        if isinstance(node, Comprehension):
            yield from self._fold(node, trace, depth)
            return
        for part in self._operands(node):
            yield from self.entry(part, trace, depth)

    def _operands(self, node: Expr) -> Sequence[Expr]:
        """Return the parts that matter to a reader. A path such as `object.spec.replicas` is one part."""
        written = self._ast.macro_calls.get(node.id)
        if isinstance(written, Call) and not isinstance(node, Select):
            return [*([written.target] if written.target else []), *written.args[1:]]
        if isinstance(node, Select) or (isinstance(node, Call) and node.function in _INDICES):
            return self._path_operands(node)
        return self._arguments(node) if isinstance(node, Call) else _elements(node)

    def _arguments(self, node: Call) -> Sequence[Expr]:
        if node.function in _LOGICAL:
            return [term for arg in node.args for term in self._terms(arg, node.function)]
        if node.function == operator.LOGICAL_NOT:
            return self._operands(node.args[0])  # `!x` says what `x` is
        return [*([node.target] if node.target else []), *node.args]

    def _terms(self, node: Expr, function: str) -> list[Expr]:
        """Return the terms of a chain of `&&` or `||`, which are one level however the parser balanced them."""
        if isinstance(node, Call) and node.function == function and node.id not in self._ast.macro_calls:
            return [term for arg in node.args for term in self._terms(arg, function)]
        return [node]

    def _path_operands(self, node: Expr) -> list[Expr]:
        """Return a path's start, if it is not a name, and its computed keys."""
        keys: list[Expr] = []
        while True:
            if isinstance(node, Select):
                node = node.operand
            elif isinstance(node, Call) and node.function in _INDICES:
                keys = [*node.args[1:], *keys]
                node = node.args[0]
            else:
                return [*([] if isinstance(node, Ident) else [node]), *keys]

    def _value(self, node: Expr, trace: Trace) -> tuple[bool, Value]:
        """Return whether a part has a value, and the value. A path that ends early in an error has it at its first name."""
        root = node
        while isinstance(root, Select) or (isinstance(root, Call) and root.function in _INDICES):
            root = root.operand if isinstance(root, Select) else root.args[0]
        return trace.find(node.id, root.id)

    def _fold(self, node: Comprehension, trace: Trace, depth: int) -> Iterator[str]:
        """Yield the range of a macro, then its rounds."""
        written = self._ast.macro_calls.get(node.id)
        yield from self.entry(node.iter_range, trace, depth)
        if not isinstance(written, Call):
            return
        names = [name for name in (node.iter_var, node.iter_var2) if name]
        bodies = written.args[len(names) :]
        self._locals.update(names)
        rounds = trace.rounds(node.loop_step.id)
        items = self._items(node, trace)
        for index in _shown_indexes(len(rounds)):
            if index is None:
                rest = len(rounds) - FIRST_ROUNDS - LAST_ROUNDS
                yield f"{'  ' * depth}… {rest} more round{'s' if rest > 1 else ''}"
                continue
            item = items[index] if index < len(items) else ()
            text = ", ".join(f"{n} = {shown(self._conceal(n, v))}" for n, v in zip(names, item, strict=False))
            yield f"{'  ' * depth}{text or f'round {index}'}:"
            for body in bodies:
                yield from self.entry(body, rounds[index], depth + 1)

    def _items(self, node: Comprehension, trace: Trace) -> list[tuple[Value, ...]]:
        """Return the values of a macro's variables in each round."""
        _, value = self._value(node.iter_range, trace)
        value = untyped(value.value if isinstance(value, PartialValue) else value)
        if isinstance(value, dict):
            return list(value.items()) if node.iter_var2 else [(key,) for key in value]
        if isinstance(value, list | tuple):
            return list(enumerate(value)) if node.iter_var2 else [(item,) for item in value]
        return []


def _elements(node: Expr) -> Sequence[Expr]:
    if isinstance(node, ListExpr):
        return node.elements
    if isinstance(node, MapExpr):
        return [entry.value for entry in node.entries]
    return [field.value for field in node.fields] if isinstance(node, StructExpr) else []


def _is_constant(node: Expr) -> bool:
    """Return whether a part is a constant."""
    return isinstance(node, Const) or (isinstance(node, ListExpr) and all(map(_is_constant, node.elements)))


def _shown_indexes(count: int) -> Iterator[int | None]:
    """Yield the rounds to draw. None marks omitted ones."""
    if count <= FIRST_ROUNDS + LAST_ROUNDS:
        yield from range(count)
        return
    yield from range(FIRST_ROUNDS)
    yield None
    yield from range(count - LAST_ROUNDS, count)

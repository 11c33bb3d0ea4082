"""The abstract syntax tree of CEL: small nodes with an id; everything known about a node stands beside the tree.

The shape is that of cel-go (`common/ast`): macros are expanded into `Comprehension` by the parser, operators are `Call`s
of their internal names (`_&&_`, `_+_`, `_[_]`, `@in`, `_?._`, ...), and positions, macro calls, types and references are
maps by node id, so that a pass adds knowledge without touching the tree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from replay.cel.ast.source import Source
from replay.cel.value.types import Type
from replay.cel.value.values import Value


@dataclass(frozen=True, slots=True)
class Expr:
    """Any node; `id` is unique in its tree and positive."""

    id: int


@dataclass(frozen=True, slots=True)
class Const(Expr):
    """A literal: bool, int, Uint, float, str, bytes or None."""

    value: Value


@dataclass(frozen=True, slots=True)
class Ident(Expr):
    """A simple name; after checking, a qualified name may have been folded into one (`Reference.name`)."""

    name: str


@dataclass(frozen=True, slots=True)
class Select(Expr):
    """`operand.field`, or `has(operand.field)` if `test_only`."""

    operand: Expr
    field: str
    test_only: bool = False


@dataclass(frozen=True, slots=True)
class Call(Expr):
    """`function(args)`, or `target.function(args)`."""

    function: str
    args: tuple[Expr, ...]
    target: Expr | None = None


@dataclass(frozen=True, slots=True)
class ListExpr(Expr):
    """`[a, ?b]`; `optional_indices` are the positions marked with `?`."""

    elements: tuple[Expr, ...]
    optional_indices: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class MapEntry(Expr):
    """`key: value`, or `?key: value`."""

    key: Expr
    value: Expr
    optional: bool = False


@dataclass(frozen=True, slots=True)
class MapExpr(Expr):
    """`{key: value}`."""

    entries: tuple[MapEntry, ...]


@dataclass(frozen=True, slots=True)
class StructField(Expr):
    """`field: value`, or `?field: value`."""

    field: str
    value: Expr
    optional: bool = False


@dataclass(frozen=True, slots=True)
class StructExpr(Expr):
    """`TypeName{field: value}`."""

    type_name: str
    fields: tuple[StructField, ...]


@dataclass(frozen=True, slots=True)
class Comprehension(Expr):
    """A fold over `iter_range`, the form all comprehension macros expand to; `iter_var2` is empty for one variable."""

    iter_range: Expr
    iter_var: str
    iter_var2: str
    accu_var: str
    accu_init: Expr
    loop_condition: Expr
    loop_step: Expr
    result: Expr


@dataclass(frozen=True, slots=True)
class Reference:
    """What a checked name or call means: a variable's full name, a constant, or the candidate overloads of a call."""

    name: str = ""
    overload_ids: tuple[str, ...] = ()
    value: Value = None
    is_constant: bool = False


@dataclass(frozen=True, slots=True)
class Ast:
    """A parsed expression and what later passes found out about it.

    `positions` maps node ids to offsets in code points of the source, `macro_calls` maps the id of an expanded macro to
    the call as written. `type_map` and `reference_map` are empty until the checker has run.
    """

    expr: Expr
    source: Source
    positions: Mapping[int, int]
    macro_calls: Mapping[int, Expr] = field(default_factory=dict)
    type_map: Mapping[int, Type] = field(default_factory=dict)
    reference_map: Mapping[int, Reference] = field(default_factory=dict)

    @property
    def is_checked(self) -> bool:
        """Whether the checker has run."""
        return bool(self.type_map)

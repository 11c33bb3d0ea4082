"""Abstract syntax tree of CEL: small nodes with an id. Facts about a node are kept outside of the tree.

The shape is that of cel-go (`common/ast`): the parser expands macros into `Comprehension`, and operators are `Call`s
with internal names (`_&&_`, `_+_`, `_[_]`, `@in`, `_?._`, ...). Positions, macro calls, types and references are maps
by node id, so that a pass adds knowledge without changing the tree.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from replay.cel.ast.source import Source
from replay.cel.value.types import Type
from replay.cel.value.values import Value


class Expr(Struct, frozen=True):
    """Any node. `id` is positive and unique in its tree."""

    id: int


class Const(Expr, frozen=True):
    """A literal: bool, int, Uint, float, str, bytes or None."""

    value: Value


class Ident(Expr, frozen=True):
    """A simple name. After checking, it may stand for a qualified name (`Reference.name`)."""

    name: str


class Select(Expr, frozen=True):
    """`operand.field`, or `has(operand.field)` if `test_only`."""

    operand: Expr
    field: str
    test_only: bool = False


class Call(Expr, frozen=True):
    """`function(args)`, or `target.function(args)`."""

    function: str
    args: tuple[Expr, ...]
    target: Expr | None = None


class ListExpr(Expr, frozen=True):
    """`[a, ?b]`. `optional_indices` are the positions marked with `?`."""

    elements: tuple[Expr, ...]
    optional_indices: frozenset[int] = frozenset()


class MapEntry(Expr, frozen=True):
    """`key: value`, or `?key: value`."""

    key: Expr
    value: Expr
    optional: bool = False


class MapExpr(Expr, frozen=True):
    """`{key: value}`."""

    entries: tuple[MapEntry, ...]


class StructField(Expr, frozen=True):
    """`field: value`, or `?field: value`."""

    field: str
    value: Expr
    optional: bool = False


class StructExpr(Expr, frozen=True):
    """`TypeName{field: value}`."""

    type_name: str
    fields: tuple[StructField, ...]


class Comprehension(Expr, frozen=True):
    """A fold over `iter_range`, to which all comprehension macros expand. `iter_var2` is empty for one variable."""

    iter_range: Expr
    iter_var: str
    iter_var2: str
    accu_var: str
    accu_init: Expr
    loop_condition: Expr
    loop_step: Expr
    result: Expr


class Reference(Struct, frozen=True):
    """Meaning of a checked name or call: a variable's full name, a constant, or the candidate overloads of a call."""

    name: str = ""
    overload_ids: tuple[str, ...] = ()
    value: Value = None
    is_constant: bool = False


class Ast(Struct, frozen=True):
    """A parsed expression and what later passes found out about it.

    `positions` maps node ids to offsets in code points of the source. `macro_calls` maps the id of an expanded macro to
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

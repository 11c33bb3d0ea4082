"""Makes nodes with the ids and positions of cel-go's parser (`parser/helper.go`).

Ids are given in the same order as in cel-go, because later passes report and count by them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from replay.cel.ast.tree import (
    Call,
    Comprehension,
    Const,
    Expr,
    Ident,
    ListExpr,
    MapEntry,
    MapExpr,
    Select,
    StructExpr,
    StructField,
)
from replay.cel.release import NEWEST_RELEASE, Release
from replay.cel.value.values import Value

ACCUMULATOR: Final = "@result"
"""Accumulator variable of comprehensions. No expression can name it."""
NAMED_ACCUMULATOR: Final = "__result__"
"""Name of the accumulator up to cel-go 0.22, where expressions can name it."""


class ExprFactory:
    """Factory that assigns ids and records offsets. While a macro expands, new nodes get the offset of its call."""

    __slots__ = ("accumulator_name", "macro_calls", "macro_offset", "next_id", "positions", "release")

    def __init__(self, release: Release = NEWEST_RELEASE) -> None:
        """Start with id 1 and without positions."""
        self.release = release
        self.accumulator_name = ACCUMULATOR if release >= Release.V0_23 else NAMED_ACCUMULATOR
        self.next_id = 1
        self.positions: dict[int, int] = {}
        self.macro_calls: dict[int, Expr] = {}
        self.macro_offset = 0

    def new_id(self, offset: int) -> int:
        """Return the next id, with an offset in code points as its position."""
        id_ = self.next_id
        self.next_id = id_ + 1
        self.positions[id_] = offset
        return id_

    def delete_id(self, id_: int) -> None:
        """Forget the id of a call that a macro replaced. If it was the last one, it is given again."""
        self.positions.pop(id_, None)
        if id_ == self.next_id - 1:
            self.next_id = id_

    def literal(self, value: Value) -> Const:
        """Return a literal at the position of the macro."""
        return Const(self.new_id(self.macro_offset), value)

    def ident(self, name: str) -> Ident:
        """Return a name at the position of the macro."""
        return Ident(self.new_id(self.macro_offset), name)

    def accumulator(self) -> Ident:
        """Return the accumulator variable of the comprehension."""
        return self.ident(self.accumulator_name)

    def call(self, function: str, *args: Expr) -> Call:
        """Return a global call at the position of the macro."""
        return Call(self.new_id(self.macro_offset), function, args)

    def member_call(self, function: str, target: Expr, *args: Expr) -> Call:
        """Return a call with a receiver at the position of the macro."""
        return Call(self.new_id(self.macro_offset), function, args, target)

    def list(self, *elements: Expr) -> ListExpr:
        """Return a list at the position of the macro."""
        return ListExpr(self.new_id(self.macro_offset), elements)

    def map(self) -> MapExpr:
        """Return an empty map at the position of the macro."""
        return MapExpr(self.new_id(self.macro_offset), ())

    def presence_test(self, operand: Expr, field: str) -> Select:
        """Return `has(operand.field)` at the position of the macro."""
        return Select(self.new_id(self.macro_offset), operand, field, test_only=True)

    def select(self, operand: Expr, field: str) -> Select:
        """Return `operand.field` at the position of the macro."""
        return Select(self.new_id(self.macro_offset), operand, field)

    def fold(  # noqa: PLR0913, PLR0917 - the parts of a comprehension
        self,
        iter_range: Expr,
        variables: tuple[str, str],
        accu: str,
        init: Expr,
        condition: Expr,
        step: Expr,
        result: Expr,
    ) -> Comprehension:
        """Return a comprehension at the position of the macro. The second variable is empty if there is only one."""
        id_ = self.new_id(self.macro_offset)
        return Comprehension(id_, iter_range, *variables, accu, init, condition, step, result)

    def copy(self, node: Expr) -> Expr:  # noqa: PLR0911 - one case per kind of node
        """Return the same tree with new ids at the same positions."""
        id_ = self.new_id(self.positions.get(node.id, 0))
        match node:
            case Const():
                return Const(id_, node.value)
            case Ident():
                return Ident(id_, node.name)
            case Select():
                return Select(id_, self.copy(node.operand), node.field, node.test_only)
            case Call():
                args = tuple([self.copy(arg) for arg in node.args])
                return Call(id_, node.function, args, None if node.target is None else self.copy(node.target))
            case ListExpr():
                return ListExpr(id_, tuple([self.copy(item) for item in node.elements]), node.optional_indices)
            case MapExpr():
                return MapExpr(id_, tuple([self._copy_entry(entry) for entry in node.entries]))
            case StructExpr():
                return StructExpr(id_, node.type_name, tuple([self._copy_field(field) for field in node.fields]))
            case Comprehension():
                return self._copy_comprehension(id_, node)
        return Expr(id_)

    def _copy_entry(self, entry: MapEntry) -> MapEntry:
        id_ = self.new_id(self.macro_offset)
        return MapEntry(id_, self.copy(entry.key), self.copy(entry.value), entry.optional)

    def _copy_field(self, field: StructField) -> StructField:
        id_ = self.new_id(self.macro_offset)
        return StructField(id_, field.field, self.copy(field.value), field.optional)

    def _copy_comprehension(self, id_: int, node: Comprehension) -> Comprehension:
        return Comprehension(
            id_,
            self.copy(node.iter_range),
            node.iter_var,
            node.iter_var2,
            node.accu_var,
            self.copy(node.accu_init),
            self.copy(node.loop_condition),
            self.copy(node.loop_step),
            self.copy(node.result),
        )

    def balanced(self, function: str, terms: Sequence[Expr], ops: Sequence[int]) -> Expr:
        """Return `a && b && c && d` as a tree of equal depth on both sides, as the server evaluates it."""
        return _balanced(function, terms, ops, 0, len(ops) - 1)


def _balanced(function: str, terms: Sequence[Expr], ops: Sequence[int], low: int, high: int) -> Call:
    # The same rounding as in cel-go: it decides which operator is at the root.
    middle = (low + high + 1) // 2
    left = terms[middle] if middle == low else _balanced(function, terms, ops, low, middle - 1)
    right = terms[middle + 1] if middle == high else _balanced(function, terms, ops, middle + 1, high)
    return Call(ops[middle], function, (left, right))

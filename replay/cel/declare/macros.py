"""Macros: calls that the parser replaces by other expressions (cel-go `parser/macro.go`).

This module has those of standard CEL. A library lists its macros as values. `macro_table` builds the table that the
parser uses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from msgspec import Struct

from replay.cel.ast import operator
from replay.cel.ast.factory import ACCUMULATOR, NAMED_ACCUMULATOR, ExprFactory
from replay.cel.ast.tree import Expr, Ident, Select
from replay.cel.release import Release

UNUSED = "#unused"
"""The variable of a comprehension over nothing."""

Expander = Callable[[ExprFactory, Expr | None, tuple[Expr, ...]], Expr | None]
"""Makes the replacement from the receiver and the arguments.

None leaves the call unchanged, `MacroError` rejects it.
"""

MacroTable = Mapping[tuple[str, int, bool], Expander]
"""Expansion of a call, by name, number of arguments and presence of a receiver."""


class MacroError(Exception):
    """Wrong use of a macro. The parser catches this error and reports it at the node."""

    def __init__(self, node: Expr, message: str) -> None:
        """`node` is the node at which `message` is reported."""
        super().__init__(message)
        self.node = node
        self.message = message


class Macro(Struct, frozen=True):
    """A macro: the calls that it expands, by numbers of arguments, and the expansion."""

    function: str
    arg_counts: tuple[int, ...]
    expander: Expander
    receiver: bool = True


def macro_table(macros: Iterable[Macro]) -> MacroTable:
    """Return the macros by the calls that they expand. A later macro replaces an earlier one."""
    return {(macro.function, count, macro.receiver): macro.expander for macro in macros for count in macro.arg_counts}


def _has(factory: ExprFactory, _: Expr | None, args: tuple[Expr, ...]) -> Expr:
    operand = args[0]
    if not isinstance(operand, Select):
        raise MacroError(operand, "invalid argument to has() macro")
    return factory.presence_test(operand.operand, operand.field)


def simple_name(node: Expr, message: str) -> str:
    """Return the name that an argument must be. Raises `MacroError` with a message if it is none."""
    if not isinstance(node, Ident):
        raise MacroError(node, message)
    return node.name


def _variable(factory: ExprFactory, node: Expr, message: str) -> str:
    name = simple_name(node, message)
    # Until cel-go 0.22 nothing keeps a macro over one variable from taking the name of the accumulator.
    if factory.release >= Release.V0_23:
        refuse_accumulator(node, name)
    return name


def refuse_accumulator(node: Expr, name: str) -> None:
    """Raise `MacroError` if a variable has the name of the accumulator."""
    if name in (ACCUMULATOR, NAMED_ACCUMULATOR):
        raise MacroError(node, "iteration variable overwrites accumulator variable")


def _one_variable(factory: ExprFactory, args: tuple[Expr, ...]) -> tuple[str, str]:
    return _variable(factory, args[0], "argument must be a simple name"), ""


def _element_variable(factory: ExprFactory, args: tuple[Expr, ...]) -> tuple[str, str]:
    return _variable(factory, args[0], "argument is not an identifier"), ""


MacroVariables = Callable[[ExprFactory, tuple[Expr, ...]], tuple[str, str]]
"""Function that returns the variable names in a macro's arguments. The second is empty if there is only one."""


def all_macro(variables: MacroVariables, used: int) -> Expander:
    """Return the expansion of `all`. `used` is the index of the argument with the predicate."""

    def expand(factory: ExprFactory, target: Expr | None, args: tuple[Expr, ...]) -> Expr:
        names = variables(factory, args)
        init = factory.literal(True)
        condition = factory.call(operator.NOT_STRICTLY_FALSE, factory.accumulator())
        step = factory.call(operator.LOGICAL_AND, factory.accumulator(), args[used])
        result = factory.accumulator()
        return factory.fold(receiver(target), names, factory.accumulator_name, init, condition, step, result)

    return expand


def exists_macro(variables: MacroVariables, used: int) -> Expander:
    """Return the expansion of `exists`. The parameters are those of `all_macro`."""

    def expand(factory: ExprFactory, target: Expr | None, args: tuple[Expr, ...]) -> Expr:
        names = variables(factory, args)
        init = factory.literal(False)
        not_yet = factory.call(operator.LOGICAL_NOT, factory.accumulator())
        condition = factory.call(operator.NOT_STRICTLY_FALSE, not_yet)
        step = factory.call(operator.LOGICAL_OR, factory.accumulator(), args[used])
        result = factory.accumulator()
        return factory.fold(receiver(target), names, factory.accumulator_name, init, condition, step, result)

    return expand


def exists_one_macro(variables: MacroVariables, used: int) -> Expander:
    """Return the expansion of `existsOne`. The parameters are those of `all_macro`."""

    def expand(factory: ExprFactory, target: Expr | None, args: tuple[Expr, ...]) -> Expr:
        names = variables(factory, args)
        init = factory.literal(0)
        # Until cel-go 0.20 there is one node for both ones.
        shared = factory.literal(1) if factory.release < Release.V0_22 else None
        condition = factory.literal(True)
        more = factory.call(operator.ADD, factory.accumulator(), shared or factory.literal(1))
        step = factory.call(operator.CONDITIONAL, args[used], more, factory.accumulator())
        result = factory.call(operator.EQUALS, factory.accumulator(), shared or factory.literal(1))
        return factory.fold(receiver(target), names, factory.accumulator_name, init, condition, step, result)

    return expand


def _filter(factory: ExprFactory, target: Expr | None, args: tuple[Expr, ...]) -> Expr:
    names = _element_variable(factory, args)
    init = factory.list()
    condition = factory.literal(True)
    longer = factory.call(operator.ADD, factory.accumulator(), factory.list(args[0]))
    step = factory.call(operator.CONDITIONAL, args[1], longer, factory.accumulator())
    return factory.fold(receiver(target), names, factory.accumulator_name, init, condition, step, factory.accumulator())


def expand_map(factory: ExprFactory, target: Expr | None, args: tuple[Expr, ...]) -> Expr:
    """Expand `target.map(x, [condition,] value)`."""
    names = _element_variable(factory, args)
    init = factory.list()
    condition = factory.literal(True)
    step: Expr = factory.call(operator.ADD, factory.accumulator(), factory.list(args[-1]))
    if len(args) > 2:
        step = factory.call(operator.CONDITIONAL, args[1], step, factory.accumulator())
    return factory.fold(receiver(target), names, factory.accumulator_name, init, condition, step, factory.accumulator())


def let(factory: ExprFactory, nothing: Expr, name: str, init: Expr, result: Expr) -> Expr:
    """Return `result` with a variable, as a comprehension over nothing.

    `nothing` is an empty list, which the caller makes so that ids are given in the right order.
    """
    condition = factory.literal(False)
    step = factory.ident(name)
    return factory.fold(nothing, (UNUSED, ""), name, init, condition, step, result)


def receiver(target: Expr | None) -> Expr:
    """Return the receiver, which the macro table guarantees."""
    assert target is not None
    return target


STANDARD_MACROS: Final = (
    Macro("has", (1,), _has, receiver=False),
    Macro("all", (2,), all_macro(_one_variable, 1)),
    Macro("exists", (2,), exists_macro(_one_variable, 1)),
    Macro("exists_one", (2,), exists_one_macro(_one_variable, 1)),
    Macro("map", (2, 3), expand_map),
    Macro("filter", (2,), _filter),
)
"""The macros of standard CEL."""

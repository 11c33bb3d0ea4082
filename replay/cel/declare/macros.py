"""Macros: calls that the parser replaces by other expressions (`parser/macro.go`, `ext/comprehensions.go` and others of cel-go).

A library names the macros that it enables; `macro_table` turns the names into what the parser looks up. The name of a macro
over two variables ends in `2`, since a library can enable either form alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from replay.cel.ast import operator
from replay.cel.ast.factory import ACCUMULATOR, NAMED_ACCUMULATOR, ExprFactory
from replay.cel.ast.tree import Call, Comprehension, Expr, Ident, ListExpr, Select
from replay.cel.release import Release

_UNUSED = "#unused"
_MAP_INSERT = "cel.@mapInsert"
_SORT_INPUT = "@__sortBy_input__"

Expander = Callable[[ExprFactory, Expr | None, tuple[Expr, ...]], Expr | None]
"""Makes the replacement from the receiver and the arguments; None leaves the call as it is, `MacroError` refuses it."""

MacroTable = Mapping[tuple[str, int, bool], Expander]
"""What to do with a call, by name, number of arguments and whether it has a receiver."""


class MacroError(Exception):
    """A macro was used wrongly; raised to the parser, which reports it at the node."""

    def __init__(self, node: Expr, message: str) -> None:
        """Keep the node, whose place the message gets."""
        super().__init__(message)
        self.node = node
        self.message = message


@dataclass(frozen=True, slots=True)
class Macro:
    """A macro as a library names it: the call that it answers, with its numbers of arguments, and what it does."""

    function: str
    arg_counts: tuple[int, ...]
    expander: Expander
    receiver: bool = True


def macro_table(names: Iterable[str]) -> MacroTable:
    """The macros of these names; an unknown name raises KeyError."""
    macros = [MACROS[name] for name in names]
    return {(macro.function, count, macro.receiver): macro.expander for macro in macros for count in macro.arg_counts}


def _has(factory: ExprFactory, _: Expr | None, args: tuple[Expr, ...]) -> Expr:
    operand = args[0]
    if not isinstance(operand, Select):
        raise MacroError(operand, "invalid argument to has() macro")
    return factory.presence_test(operand.operand, operand.field)


def _simple_name(node: Expr, message: str) -> str:
    if not isinstance(node, Ident):
        raise MacroError(node, message)
    return node.name


def _variable(factory: ExprFactory, node: Expr, message: str) -> str:
    name = _simple_name(node, message)
    # Until cel-go 0.22 nothing keeps a macro over one variable from taking the name of the accumulator.
    if factory.release >= Release.V0_23:
        _refuse_accumulator(node, name)
    return name


def _refuse_accumulator(node: Expr, name: str) -> None:
    if name in (ACCUMULATOR, NAMED_ACCUMULATOR):
        raise MacroError(node, "iteration variable overwrites accumulator variable")


def _one_variable(factory: ExprFactory, args: tuple[Expr, ...]) -> tuple[str, str]:
    return _variable(factory, args[0], "argument must be a simple name"), ""


def _element_variable(factory: ExprFactory, args: tuple[Expr, ...]) -> tuple[str, str]:
    return _variable(factory, args[0], "argument is not an identifier"), ""


def _two_variables(_: ExprFactory, args: tuple[Expr, ...]) -> tuple[str, str]:
    first, second = (_simple_name(arg, "argument must be a simple name") for arg in args[:2])
    if first == second:
        raise MacroError(args[1], f"duplicate variable name: {first}")
    _refuse_accumulator(args[0], first)
    _refuse_accumulator(args[1], second)
    return first, second


Variables = Callable[[ExprFactory, tuple[Expr, ...]], tuple[str, str]]


def _all(variables: Variables, used: int) -> Expander:
    def expand(factory: ExprFactory, target: Expr | None, args: tuple[Expr, ...]) -> Expr:
        names = variables(factory, args)
        init = factory.literal(True)
        condition = factory.call(operator.NOT_STRICTLY_FALSE, factory.accumulator())
        step = factory.call(operator.LOGICAL_AND, factory.accumulator(), args[used])
        result = factory.accumulator()
        return factory.fold(_target(target), names, factory.accumulator_name, init, condition, step, result)

    return expand


def _exists(variables: Variables, used: int) -> Expander:
    def expand(factory: ExprFactory, target: Expr | None, args: tuple[Expr, ...]) -> Expr:
        names = variables(factory, args)
        init = factory.literal(False)
        not_yet = factory.call(operator.LOGICAL_NOT, factory.accumulator())
        condition = factory.call(operator.NOT_STRICTLY_FALSE, not_yet)
        step = factory.call(operator.LOGICAL_OR, factory.accumulator(), args[used])
        result = factory.accumulator()
        return factory.fold(_target(target), names, factory.accumulator_name, init, condition, step, result)

    return expand


def _exists_one(variables: Variables, used: int) -> Expander:
    def expand(factory: ExprFactory, target: Expr | None, args: tuple[Expr, ...]) -> Expr:
        names = variables(factory, args)
        init = factory.literal(0)
        # Until cel-go 0.20 there is one node for both ones.
        shared = factory.literal(1) if factory.release < Release.V0_22 else None
        condition = factory.literal(True)
        more = factory.call(operator.ADD, factory.accumulator(), shared or factory.literal(1))
        step = factory.call(operator.CONDITIONAL, args[used], more, factory.accumulator())
        result = factory.call(operator.EQUALS, factory.accumulator(), shared or factory.literal(1))
        return factory.fold(_target(target), names, factory.accumulator_name, init, condition, step, result)

    return expand


def _filter(factory: ExprFactory, target: Expr | None, args: tuple[Expr, ...]) -> Expr:
    names = _element_variable(factory, args)
    init = factory.list()
    condition = factory.literal(True)
    kept = factory.call(operator.ADD, factory.accumulator(), factory.list(args[0]))
    step = factory.call(operator.CONDITIONAL, args[1], kept, factory.accumulator())
    return factory.fold(_target(target), names, factory.accumulator_name, init, condition, step, factory.accumulator())


def _map(factory: ExprFactory, target: Expr | None, args: tuple[Expr, ...]) -> Expr:
    names = _element_variable(factory, args)
    init = factory.list()
    condition = factory.literal(True)
    step: Expr = factory.call(operator.ADD, factory.accumulator(), factory.list(args[-1]))
    if len(args) > 2:
        step = factory.call(operator.CONDITIONAL, args[1], step, factory.accumulator())
    return factory.fold(_target(target), names, factory.accumulator_name, init, condition, step, factory.accumulator())


def _transform_list(factory: ExprFactory, target: Expr | None, args: tuple[Expr, ...]) -> Expr:
    names = _two_variables(factory, args)
    step = factory.call(operator.ADD, factory.accumulator(), factory.list(args[-1]))
    step = _where(factory, args, step)
    return _collect(factory, target, names, step, factory.list)


def _transform_map(factory: ExprFactory, target: Expr | None, args: tuple[Expr, ...]) -> Expr:
    names = _two_variables(factory, args)
    step = factory.call(_MAP_INSERT, factory.accumulator(), factory.ident(names[0]), args[-1])
    step = _where(factory, args, step)
    return _collect(factory, target, names, step, factory.map)


def _transform_map_entry(factory: ExprFactory, target: Expr | None, args: tuple[Expr, ...]) -> Expr:
    names = _two_variables(factory, args)
    step = factory.call(_MAP_INSERT, factory.accumulator(), args[-1])
    step = _where(factory, args, step)
    return _collect(factory, target, names, step, factory.map)


def _where(factory: ExprFactory, args: tuple[Expr, ...], step: Call) -> Call:
    """The step only where the optional third argument holds."""
    if len(args) > 3:
        return factory.call(operator.CONDITIONAL, args[2], step, factory.accumulator())
    return step


def _collect(
    factory: ExprFactory, target: Expr | None, names: tuple[str, str], step: Expr, empty: Callable[[], Expr]
) -> Expr:
    init = empty()
    condition = factory.literal(True)
    return factory.fold(_target(target), names, factory.accumulator_name, init, condition, step, factory.accumulator())


def _bound(factory: ExprFactory, name: str, init: Expr, result: Expr) -> Expr:
    """`result` with a variable, as a fold over nothing; the node of `init` has been made already."""
    return _let(factory, factory.list(), name, init, result)


def _let(factory: ExprFactory, nothing: Expr, name: str, init: Expr, result: Expr) -> Expr:
    condition = factory.literal(False)
    step = factory.ident(name)
    return factory.fold(nothing, (_UNUSED, ""), name, init, condition, step, result)


def _optional_map(function: str, wrap: bool) -> Expander:
    def expand(factory: ExprFactory, target: Expr | None, args: tuple[Expr, ...]) -> Expr:
        name = _simple_name(args[0], f"{function}() variable name must be a simple identifier")
        present = factory.member_call("hasValue", _target(target))
        nothing = factory.list()
        # Until cel-go 0.20 both calls have the very same receiver, with the same ids.
        receiver = _target(target)
        value = factory.member_call("value", factory.copy(receiver) if factory.release >= Release.V0_22 else receiver)
        mapped = _let(factory, nothing, name, value, args[1])
        if wrap:
            mapped = factory.call("optional.of", mapped)
        return factory.call(operator.CONDITIONAL, present, mapped, factory.call("optional.none"))

    return expand


def _bind(factory: ExprFactory, target: Expr | None, args: tuple[Expr, ...]) -> Expr | None:
    if not (isinstance(target, Ident) and target.name == "cel"):
        return None
    name = _simple_name(args[0], "cel.bind() variable names must be simple identifiers")
    return _bound(factory, name, args[1], args[2])


def _sort_by(factory: ExprFactory, target: Expr | None, args: tuple[Expr, ...]) -> Expr:
    values = factory.ident(_SORT_INPUT)
    target = _target(target)
    if not isinstance(target, ListExpr | Select | Ident | Comprehension | Call):
        raise MacroError(
            target, "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
        )
    keys = _map(factory, factory.copy(values), args)
    result = factory.member_call("@sortByAssociatedKeys", factory.copy(values), keys)
    nothing = factory.list()
    condition = factory.literal(False)
    return factory.fold(nothing, (_UNUSED, ""), _SORT_INPUT, target, condition, values, result)


def _target(target: Expr | None) -> Expr:
    """The receiver, which the table guarantees."""
    assert target is not None
    return target


MACROS: Final = {
    "has": Macro("has", (1,), _has, receiver=False),
    "all": Macro("all", (2,), _all(_one_variable, 1)),
    "exists": Macro("exists", (2,), _exists(_one_variable, 1)),
    "exists_one": Macro("exists_one", (2,), _exists_one(_one_variable, 1)),
    "existsOne": Macro("existsOne", (2,), _exists_one(_one_variable, 1)),
    "map": Macro("map", (2, 3), _map),
    "filter": Macro("filter", (2,), _filter),
    "all2": Macro("all", (3,), _all(_two_variables, 2)),
    "exists2": Macro("exists", (3,), _exists(_two_variables, 2)),
    "existsOne2": Macro("existsOne", (3,), _exists_one(_two_variables, 2)),
    "exists_one2": Macro("exists_one", (3,), _exists_one(_two_variables, 2)),
    "transformList": Macro("transformList", (3, 4), _transform_list),
    "transformMap": Macro("transformMap", (3, 4), _transform_map),
    "transformMapEntry": Macro("transformMapEntry", (3, 4), _transform_map_entry),
    "optMap": Macro("optMap", (2,), _optional_map("optMap", wrap=True)),
    "optFlatMap": Macro("optFlatMap", (2,), _optional_map("optFlatMap", wrap=False)),
    "cel.bind": Macro("bind", (3,), _bind),
    "sortBy": Macro("sortBy", (2,), _sort_by),
}
"""Every macro by the name under which a library enables it."""

STANDARD_MACROS: Final = ("has", "all", "exists", "exists_one", "map", "filter")
TWO_VARIABLE_MACROS: Final = (
    "all2",
    "exists2",
    "existsOne2",
    "exists_one2",
    "transformList",
    "transformMap",
    "transformMapEntry",
)
OPTIONAL_MACROS: Final = ("optMap", "optFlatMap")
"""The macros of the standard environment, of two-variable comprehensions and of optional types."""

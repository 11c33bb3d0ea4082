"""Loops over symbolic lists and maps, step by step up to a bound (`replay.cel.strict.planner`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct

from replay.cel.ast import operator
from replay.cel.ast.tree import Call, Comprehension, Const, Expr, Ident, ListExpr
from replay.prove.symbolic.selection import Guarded, count_of, joined, piece, spread
from replay.prove.symbolic.term import TRUE, Term, at_most, conj, integer, less, negated
from replay.prove.symbolic.unknown import ValueFactory
from replay.prove.symbolic.value import (
    ERROR,
    NO_LIST,
    Err,
    Int,
    Json,
    JsonList,
    JsonMap,
    ListOf,
    MapOf,
    Opaque,
    Pieces,
    Str,
    SymbolicOptional,
    SymbolicValue,
    ValueCase,
    either,
    known,
    truth,
)

NamedValues = Mapping[str, SymbolicValue]


class FoldFunctions(Struct, frozen=True):
    """Parts of a loop, as functions of the values of its names."""

    iter_range: SymbolicValue
    accu_init: Callable[[NamedValues], SymbolicValue]
    condition: Callable[[NamedValues], SymbolicValue]
    step: Callable[[NamedValues], SymbolicValue]
    result: Callable[[NamedValues], SymbolicValue]


FoldEntry = tuple[Term, SymbolicValue, SymbolicValue]
"""Condition that an element is present, and its two values: item twice, index and item, or key and value."""


def fold(make: ValueFactory, node: Comprehension, loop: FoldFunctions) -> SymbolicValue | None:
    """Return the value of a loop, or None if it is not modelled."""
    if loop.iter_range.cases == ((TRUE, NO_LIST),):
        return loop.result({node.accu_var: loop.accu_init({})})
    pairs: list[Guarded] = []
    for guard, case in spread(loop.iter_range):
        entries = _entries(make, node, case)
        if entries is None:
            if isinstance(case, Opaque | SymbolicOptional):
                return None
            pairs.append((guard, known(ERROR)))
        elif is_unordered(case) and not (is_any_or_all(node) or _counts(node)):
            if not _collects(node):
                make.root.depends_on_order = True
                return None
            pairs.append((guard, _without_order(_run(node, loop, entries))))
        else:
            pairs.append((guard, _run(node, loop, entries)))
    return joined(pairs)


def is_unordered(case: ValueCase) -> bool:
    """Return whether an expression sees the parts of a value in an unknown order."""
    return isinstance(case, JsonMap) or (isinstance(case, ListOf) and not case.is_ordered and len(case.items) > 1)


def _collects(node: Comprehension) -> bool:
    """Return whether a loop builds a list (`map`, `filter`). Only the list's order depends on the elements' order."""
    is_whole = isinstance(node.loop_condition, Const) and node.loop_condition.value is True
    begins_empty = isinstance(node.accu_init, ListExpr) and not node.accu_init.elements
    return (
        is_whole and begins_empty and _is_name(node.result, node.accu_var) and _appends(node.loop_step, node.accu_var)
    )


def _appends(step: Expr, name: str) -> bool:
    if isinstance(step, Call) and step.function == operator.CONDITIONAL:
        return _appends(step.args[1], name) and _is_name(step.args[2], name)
    return isinstance(step, Call) and step.function == operator.ADD and _is_name(step.args[0], name)


def _counts(node: Comprehension) -> bool:
    """Return whether a loop counts (`exists_one`)."""
    return isinstance(node.accu_init, Const) and type(node.accu_init.value) is int


def _without_order(value: SymbolicValue) -> SymbolicValue:
    cases = ((guard, ListOf(case.items, False) if isinstance(case, ListOf) else case) for guard, case in value.cases)
    return SymbolicValue(tuple(cases))


def _run(node: Comprehension, loop: FoldFunctions, entries: list[FoldEntry]) -> SymbolicValue:
    accumulator = loop.accu_init({})
    running = TRUE
    absorbs = is_any_or_all(node)
    for there, first, second in entries:
        names = {node.accu_var: accumulator, node.iter_var: first}
        if node.iter_var2:
            names[node.iter_var2] = second
        goes_on = TRUE
        if not absorbs:  # of `all` and `exists` the condition only ends what is decided
            _, fails = truth(loop.condition(names))
            goes_on = negated(fails)
        joins = conj(running, there, goes_on)
        accumulator = either(joins, loop.step(names), accumulator)
        running = conj(running, negated(conj(there, negated(goes_on))))
    return loop.result({node.accu_var: accumulator})


def is_any_or_all(node: Comprehension) -> bool:
    """Return whether a loop joins a condition on each element by `&&` or `||`. The order of elements is then irrelevant."""
    init, step, result = node.accu_init, node.loop_step, node.result
    if not (isinstance(init, Const) and isinstance(init.value, bool) and isinstance(step, Call)):
        return False
    joiner = operator.LOGICAL_AND if init.value else operator.LOGICAL_OR
    if step.function != joiner or not _is_name(step.args[0], node.accu_var) or not _is_name(result, node.accu_var):
        return False
    return _is_guard(node.loop_condition, node.accu_var, is_all=init.value)


def _is_guard(condition: Expr, name: str, *, is_all: bool) -> bool:
    if not isinstance(condition, Call) or condition.function != operator.NOT_STRICTLY_FALSE:
        return False
    inner = condition.args[0]
    if is_all:
        return _is_name(inner, name)
    return isinstance(inner, Call) and inner.function == operator.LOGICAL_NOT and _is_name(inner.args[0], name)


def _is_name(node: Expr, name: str) -> bool:
    return isinstance(node, Ident) and node.name == name


def _entries(make: ValueFactory, node: Comprehension, case: ValueCase) -> list[FoldEntry] | None:  # noqa: PLR0911
    """Return the elements of a loop, or None for a value without elements."""
    two = bool(node.iter_var2)
    match case:
        case JsonList():
            return list(_numbered(((there, known(Json(item))) for there, item in case.node.bounded_items()), two=two))
        case ListOf():
            # Where an earlier item may be missing, the index of a later one is not known.
            if two and any(guard is not TRUE for guard, _ in case.items):
                return None
            return list(_numbered(iter(case.items), two=two))
        case JsonMap():
            entries = case.node.bounded_entries()
            return [(there, known(Str(key)), known(Json(child))) for there, key, child in entries]
        case MapOf():
            return [
                # The dict keeps the last of equal keys, as a lookup does.
                (TRUE, known(Str(make.root.texts.literal(key))), value)
                for key, value in dict(case.entries).items()
            ]
        case Pieces():
            return list(_numbered(_pieces(make, case), two=two))
        case Err():
            return None
    return None


def _pieces(make: ValueFactory, pieces: Pieces) -> Iterator[tuple[Term, SymbolicValue]]:
    """Yield the pieces of a text that has at most as many as the bound."""
    bounds, count = make.root.bounds, count_of(make, pieces)
    bounds.used_items = True
    make.root.facts.append(at_most(count, integer(bounds.items)))
    for index in range(bounds.items):
        yield less(integer(index), count), piece(make, pieces, index)


def _numbered(items: Iterator[tuple[Term, SymbolicValue]], *, two: bool) -> Iterator[FoldEntry]:
    for index, (there, item) in enumerate(items):
        yield (there, known(Int(integer(index))), item) if two else (there, item, item)


def as_list(case: ValueCase) -> ListOf | None:
    """Return a list with its items up to the bound, or None if the value is not a list."""
    if isinstance(case, ListOf):
        return case
    if isinstance(case, JsonList):
        return ListOf(tuple((there, known(Json(item))) for there, item in case.node.bounded_items()))
    return None

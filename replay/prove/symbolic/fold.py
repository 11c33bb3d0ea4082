"""Folds over lists and maps of symbolic values, step by step up to a bound (`replay.cel.strict.fold`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from replay.cel.ast import operator
from replay.cel.ast.tree import Call, Comprehension, Const, Expr, Ident
from replay.prove.symbolic.selection import Guarded, joined, spread
from replay.prove.symbolic.term import TRUE, Term, conj, integer, negated
from replay.prove.symbolic.unknown import Maker
from replay.prove.symbolic.value import (
    ERROR,
    NO_LIST,
    Case,
    Err,
    Int,
    Json,
    JsonList,
    JsonMap,
    ListOf,
    MapOf,
    Opaque,
    Optional,
    Str,
    Value,
    either,
    known,
    truth,
)

Names = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Loop:
    """The parts of a fold, as functions of the values of its names."""

    iter_range: Value
    accu_init: Callable[[Names], Value]
    condition: Callable[[Names], Value]
    step: Callable[[Names], Value]
    result: Callable[[Names], Value]


Entry = tuple[Term, Value, Value]
"""Where an element is there, and what it is: item, or index and item, or key and value."""


def fold(make: Maker, node: Comprehension, loop: Loop) -> Value | None:
    """The value of a fold; None where it is not followed."""
    if loop.iter_range.cases == ((TRUE, NO_LIST),):
        return loop.result({node.accu_var: loop.accu_init({})})
    pairs: list[Guarded] = []
    for guard, case in spread(loop.iter_range):
        entries = _entries(make, node, case)
        if entries is None:
            if isinstance(case, Opaque | Optional):
                return None
            pairs.append((guard, known(ERROR)))
        elif isinstance(case, JsonMap) and not is_any_or_all(node):
            return None  # the order of a map's keys is not known, and may matter
        else:
            pairs.append((guard, _run(node, loop, entries)))
    return joined(pairs)


def _run(node: Comprehension, loop: Loop, entries: list[Entry]) -> Value:
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
        taken = conj(running, there, goes_on)
        accumulator = either(taken, loop.step(names), accumulator)
        running = conj(running, negated(conj(there, negated(goes_on))))
    return loop.result({node.accu_var: accumulator})


def is_any_or_all(node: Comprehension) -> bool:
    """Whether a fold joins a condition on each element by `&&` or `||`: then their order does not matter."""
    init, step, result = node.accu_init, node.loop_step, node.result
    if not (isinstance(init, Const) and isinstance(init.value, bool) and isinstance(step, Call)):
        return False
    wanted = operator.LOGICAL_AND if init.value else operator.LOGICAL_OR
    if step.function != wanted or not _is_name(step.args[0], node.accu_var) or not _is_name(result, node.accu_var):
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


def _entries(make: Maker, node: Comprehension, case: Case) -> list[Entry] | None:  # noqa: PLR0911
    """What a fold walks through; None where that is nothing to walk through."""
    two = bool(node.iter_var2)
    match case:
        case JsonList():
            return list(_numbered(((there, known(Json(item))) for there, item in case.node.bounded_items()), two=two))
        case ListOf():
            if two and any(guard is not TRUE for guard, _ in case.items):
                return None
            return list(_numbered(iter(case.items), two=two))
        case JsonMap():
            entries = case.node.bounded_entries()
            return [(there, known(Str(key)), known(Json(child))) for there, key, child in entries]
        case MapOf():
            return [
                (TRUE, known(Str(make.root.texts.literal(key))), value) for key, value in dict(case.entries).items()
            ]
        case Err():
            return None
    return None


def _numbered(items: Iterator[tuple[Term, Value]], *, two: bool) -> Iterator[Entry]:
    for index, (there, item) in enumerate(items):
        yield (there, known(Int(integer(index))), item) if two else (there, item, item)


def as_list(case: Case) -> ListOf | None:
    """A JSON list as one of items, up to the bound; None where it is no list."""
    if isinstance(case, ListOf):
        return case
    if isinstance(case, JsonList):
        return ListOf(tuple((there, known(Json(item))) for there, item in case.node.bounded_items()))
    return None

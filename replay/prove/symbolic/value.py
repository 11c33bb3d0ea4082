"""CEL values of which only some is known: the cases that there are, each with the formula under which it is the one.

The guards of a value's cases exclude one another and one of them holds. A JSON value of the request is a `Node`: its kind, what it
holds and which parts it has are constants of the formulas, made when they are first asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from replay.prove.symbolic.term import FALSE, TRUE, Term, boolean, choose, conj, disj, negated

if TYPE_CHECKING:
    from replay.prove.symbolic.node import Node


@dataclass(frozen=True, slots=True)
class Err:
    """An error; its text is not followed."""


@dataclass(frozen=True, slots=True)
class Null:
    """null."""


@dataclass(frozen=True, slots=True)
class Bool:
    """true where the formula holds, else false."""

    term: Term


@dataclass(frozen=True, slots=True)
class Int:
    """An int; within 64 bits."""

    term: Term


@dataclass(frozen=True, slots=True)
class Double:
    """A finite double, as a rational number."""

    term: Term


@dataclass(frozen=True, slots=True)
class Str:
    """A text by its number: equal texts have equal numbers."""

    term: Term


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list made by an expression: the items that are there where their guards hold, in order."""

    items: tuple[tuple[Term, Value], ...]


@dataclass(frozen=True, slots=True)
class MapOf:
    """A map made by an expression, with constant keys."""

    entries: tuple[tuple[str, Value], ...]


@dataclass(frozen=True, slots=True)
class Json:
    """A JSON value of any kind."""

    node: Node


@dataclass(frozen=True, slots=True)
class JsonList:
    """A JSON value that is a list here."""

    node: Node


@dataclass(frozen=True, slots=True)
class JsonMap:
    """A JSON value that is a map here."""

    node: Node


@dataclass(frozen=True, slots=True)
class Optional:
    """An optional: the value where the formula holds, else none."""

    present: Term
    value: Value


@dataclass(frozen=True, slots=True)
class Opaque:
    """A value of a type that is not followed, by how it was made."""

    kind: str
    made_of: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class TypeOf:
    """A type as a value."""

    name: str


@dataclass(frozen=True, slots=True)
class Variables:
    """The map of a policy's variables."""


Case = (
    Err
    | Null
    | Bool
    | Int
    | Double
    | Str
    | ListOf
    | MapOf
    | Json
    | JsonList
    | JsonMap
    | Optional
    | Opaque
    | TypeOf
    | Variables
)


@dataclass(frozen=True, slots=True)
class Value:
    """The cases of a value."""

    cases: tuple[tuple[Term, Case], ...]


ERROR = Err()
NULL = Null()
FAILED = Value(((TRUE, ERROR),))
NO_LIST = ListOf(())


def known(case: Case) -> Value:
    """A value of which there is one case."""
    return Value(((TRUE, case),))


def value_of(cases: Iterable[tuple[Term, Case]]) -> Value:
    """A value of some cases; like ones become one."""
    merged: list[tuple[Term, Case]] = []
    for guard, case in cases:
        if guard is FALSE:
            continue
        for index, (other_guard, other) in enumerate(merged):
            joined = _joined(guard, case, other)
            if joined is not None:
                merged[index] = (disj(other_guard, guard), joined)
                break
        else:
            merged.append((guard, case))
    return Value(tuple(merged)) if merged else FAILED


def _joined(guard: Term, case: Case, other: Case) -> Case | None:  # noqa: PLR0911 - one return a case
    """A case that is `case` where its guard holds, else the other one; None where there is none."""
    if case == other:
        return other
    if type(case) is not type(other):
        return None
    if isinstance(case, Bool) and isinstance(other, Bool):
        return Bool(choose(guard, case.term, other.term))
    if isinstance(case, Int) and isinstance(other, Int):
        return Int(choose(guard, case.term, other.term))
    if isinstance(case, Double) and isinstance(other, Double):
        return Double(choose(guard, case.term, other.term))
    if isinstance(case, Str) and isinstance(other, Str):
        return Str(choose(guard, case.term, other.term))
    if isinstance(case, ListOf) and isinstance(other, ListOf):
        return _joined_lists(guard, case, other)
    if isinstance(case, Optional) and isinstance(other, Optional):
        value = either(guard, case.value, other.value)
        return Optional(choose(guard, case.present, other.present), value)
    return None


def _joined_lists(guard: Term, one: ListOf, other: ListOf) -> ListOf | None:
    """Lists of which one begins with the other: the rest is there where the longer one is meant."""
    longer, shorter, where = (one, other, guard) if len(one.items) >= len(other.items) else (other, one, negated(guard))
    for (_, item), (_, known_item) in zip(longer.items, shorter.items, strict=False):
        if item != known_item:
            return None
    items = []
    for index, (there, item) in enumerate(longer.items):
        elsewhere = shorter.items[index][0] if index < len(shorter.items) else FALSE
        items.append((choose(where, there, elsewhere), item))
    return ListOf(tuple(items))


def either(condition: Term, one: Value, other: Value) -> Value:
    """One value where a condition holds, else the other."""
    if condition is TRUE or one == other:
        return one
    if condition is FALSE:
        return other
    otherwise = negated(condition)
    # The cases of the other come first: joining takes the later case where its guard holds.
    return value_of(
        [(conj(otherwise, guard), case) for guard, case in other.cases]
        + [(conj(condition, guard), case) for guard, case in one.cases]
    )


def truth(value: Value) -> tuple[Term, Term]:
    """Where a value is true, and where it is false; elsewhere it is an error, or no bool."""
    holds, fails = [], []
    for guard, case in value.cases:
        if isinstance(case, Bool):
            holds.append(conj(guard, case.term))
            fails.append(conj(guard, negated(case.term)))
        elif isinstance(case, Json):
            is_bool = conj(guard, case.node.is_kind("bool"))
            holds.append(conj(is_bool, case.node.truth))
            fails.append(conj(is_bool, negated(case.node.truth)))
    return disj(*holds), disj(*fails)


def error_of(value: Value) -> Term:
    """Where a value is an error."""
    return disj(*(guard for guard, case in value.cases if isinstance(case, Err)))


def decided(holds: Term, fails: Term) -> Value:
    """A bool that is true here, false there, and an error elsewhere."""
    return value_of([(disj(holds, fails), Bool(holds)), (conj(negated(holds), negated(fails)), ERROR)])


def sure(term: Term) -> Value:
    """A bool that is never an error."""
    return known(Bool(term))


YES, NO = sure(boolean(True)), sure(boolean(False))

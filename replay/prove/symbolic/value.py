"""CEL values that are partly known: possible cases, each with the formula under which it is the value.

The guards of the cases exclude one another, and one of them holds. A JSON value of the request is a `JsonNode`. Its
kind, content and parts are variables of the formulas, created on first use.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import Struct

from replay.prove.symbolic.term import FALSE, TRUE, Term, choose, conj, disj, negated

if TYPE_CHECKING:
    from replay.prove.symbolic.node import JsonNode


class Err(Struct, frozen=True):
    """Error. Its message is not modelled."""


class Null(Struct, frozen=True):
    """Null."""


class ScalarValue(Struct, frozen=True):
    """Value that is one term."""

    term: Term


class Bool(ScalarValue, frozen=True):
    """Boolean value."""


class Int(ScalarValue, frozen=True):
    """Int within 64 bits."""


class Double(ScalarValue, frozen=True):
    """Finite double, as a rational number."""


class Str(ScalarValue, frozen=True):
    """Text by its number. Equal texts have equal numbers."""


class ListOf(Struct, frozen=True):
    """List made by an expression. An item is present if its guard holds. A list of map keys is not ordered."""

    items: tuple[tuple[Term, SymbolicValue], ...]
    is_ordered: bool = True


class MapOf(Struct, frozen=True):
    """Map made by an expression, with constant keys."""

    entries: tuple[tuple[str, SymbolicValue], ...]


class NodeValue(Struct, frozen=True):
    """JSON value of the request, or one that an expression computes."""

    node: JsonNode


class Json(NodeValue, frozen=True):
    """JSON value of any kind."""


class JsonList(NodeValue, frozen=True):
    """JSON value that is a list."""


class JsonMap(NodeValue, frozen=True):
    """JSON value that is a map."""


class SymbolicOptional(Struct, frozen=True):
    """Optional: the value if the formula holds, otherwise none."""

    present: Term
    value: SymbolicValue


class Opaque(Struct, frozen=True):
    """Value of an unmodelled type, identified by how it was made."""

    kind: str
    made_of: tuple[object, ...]


class Pieces(Struct, frozen=True):
    """List of the pieces of a text between separators of one character."""

    term: Term
    separator: str


class TypeOf(Struct, frozen=True):
    """Type as a value."""

    name: str


class PolicyVariables(Struct, frozen=True):
    """Map of a policy's variables."""


ValueCase = (
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
    | SymbolicOptional
    | Opaque
    | Pieces
    | TypeOf
    | PolicyVariables
)


class SymbolicValue(Struct, frozen=True):
    """Cases of a value."""

    cases: tuple[tuple[Term, ValueCase], ...]


ERROR = Err()
NULL = Null()
FAILED = SymbolicValue(((TRUE, ERROR),))
NO_LIST = ListOf(())


def known(case: ValueCase) -> SymbolicValue:
    """Return a value with one case."""
    return SymbolicValue(((TRUE, case),))


def value_of(cases: Iterable[tuple[Term, ValueCase]]) -> SymbolicValue:
    """Return a value with these cases. Cases that can be merged become one."""
    merged: list[tuple[Term, ValueCase]] = []
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
    return SymbolicValue(tuple(merged)) if merged else FAILED


def _joined(guard: Term, case: ValueCase, other: ValueCase) -> ValueCase | None:
    """Return a case that is `case` if its guard holds, otherwise the other. Return None if that cannot be one case."""
    if case == other:
        return other
    if type(case) is not type(other):
        return None
    if isinstance(case, ScalarValue) and isinstance(other, ScalarValue):
        return type(case)(choose(guard, case.term, other.term))
    if isinstance(case, ListOf) and isinstance(other, ListOf):
        return _joined_lists(guard, case, other)
    if isinstance(case, SymbolicOptional) and isinstance(other, SymbolicOptional):
        value = either(guard, case.value, other.value)
        return SymbolicOptional(choose(guard, case.present, other.present), value)
    return None


def _joined_lists(guard: Term, one: ListOf, other: ListOf) -> ListOf | None:
    """Return one list for two lists of which one starts with the other."""
    longer, shorter, where = (one, other, guard) if len(one.items) >= len(other.items) else (other, one, negated(guard))
    for (_, item), (_, known_item) in zip(longer.items, shorter.items, strict=False):
        if item != known_item:
            return None
    items = []
    for index, (there, item) in enumerate(longer.items):
        elsewhere = shorter.items[index][0] if index < len(shorter.items) else FALSE
        items.append((choose(where, there, elsewhere), item))
    return ListOf(tuple(items), one.is_ordered and other.is_ordered)


def either(condition: Term, one: SymbolicValue, other: SymbolicValue) -> SymbolicValue:
    """Return one value if a condition holds, otherwise the other."""
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


def truth(value: SymbolicValue) -> tuple[Term, Term]:
    """Return where a value is true, and where it is false. Elsewhere it is an error or not a bool."""
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


def error_of(value: SymbolicValue) -> Term:
    """Return where a value is an error."""
    return disj(*(guard for guard, case in value.cases if isinstance(case, Err)))


def decided(holds: Term, fails: Term) -> SymbolicValue:
    """Return a bool that is true where `holds`, false where `fails`, and an error elsewhere."""
    return value_of([(disj(holds, fails), Bool(holds)), (conj(negated(holds), negated(fails)), ERROR)])


def sure(term: Term) -> SymbolicValue:
    """Return a bool that is never an error."""
    return known(Bool(term))

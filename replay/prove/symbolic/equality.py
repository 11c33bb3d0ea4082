"""Equality, order and membership of symbolic values (`replay.cel.value.equality`)."""

from __future__ import annotations

import re

from replay.prove.symbolic.selection import look_up_text, size_of, spread
from replay.prove.symbolic.term import (
    BOOL,
    FALSE,
    TRUE,
    Term,
    apply,
    as_real,
    at_most,
    boolean,
    choose,
    conj,
    disj,
    equal,
    integer,
    less,
    negated,
)
from replay.prove.symbolic.text_language import TextPredicate
from replay.prove.symbolic.unknown import ValueFactory
from replay.prove.symbolic.value import (
    Bool,
    Double,
    Err,
    Int,
    Json,
    JsonList,
    JsonMap,
    ListOf,
    MapOf,
    Null,
    Opaque,
    Pieces,
    Str,
    SymbolicOptional,
    SymbolicValue,
    TypeOf,
    ValueCase,
    known,
)

SymbolicEquality = tuple[Term, Term]
"""Conditions for true and for false. Where neither holds, the result is an error."""

_EXACT = 2**53
_CONTAINERS = (JsonList, JsonMap, ListOf, MapOf)


def equal_values(make: ValueFactory, one: SymbolicValue, other: SymbolicValue) -> SymbolicEquality:
    """Return when `one == other`. Neither value is an error."""
    return _over_cases(make, one, other, _equal_cases)


def _over_cases(make: ValueFactory, one: SymbolicValue, other: SymbolicValue, answer: object) -> SymbolicEquality:
    holds, fails = [], []
    for guard, case in spread(one):
        for other_guard, other_case in spread(other):
            here = conj(guard, other_guard)
            if here is FALSE:
                continue
            yes, no = answer(make, case, other_case)  # type: ignore[operator]  # one of the functions below
            holds.append(conj(here, yes))
            fails.append(conj(here, no))
    return disj(*holds), disj(*fails)


def _equal_cases(make: ValueFactory, one: ValueCase, other: ValueCase) -> SymbolicEquality:  # noqa: PLR0911 - one return a kind
    if isinstance(one, Null) or isinstance(other, Null):
        return _sure(boolean(isinstance(one, Null) and isinstance(other, Null)))
    if isinstance(one, Err) or isinstance(other, Err):
        return FALSE, FALSE
    if isinstance(one, SymbolicOptional | Opaque | Pieces) or isinstance(other, SymbolicOptional | Opaque | Pieces):
        return _unknown(make, "==", known(one), known(other))
    if isinstance(one, TypeOf) and isinstance(other, TypeOf):
        return _sure(boolean(one.name == other.name))
    if isinstance(one, _CONTAINERS):
        if isinstance(other, _CONTAINERS):
            return _equal_containers(make, one, other)
        return _with_scalar(one)
    numbers = compare_numbers(make, one, other)
    if numbers is not None:
        return _sure(numbers[1])
    if isinstance(one, Str) and isinstance(other, Str):
        return _sure(make.root.texts.same(one.term, other.term))
    if isinstance(one, Bool) and isinstance(other, Bool):
        return _sure(disj(conj(one.term, other.term), conj(negated(one.term), negated(other.term))))
    return _sure(FALSE)


def _sure(term: Term) -> SymbolicEquality:
    return term, negated(term)


def _unknown(make: ValueFactory, name: str, one: SymbolicValue, other: SymbolicValue) -> SymbolicEquality:
    holds = make.flag(name, one, other)
    failed = make.flag(f"{name} fails", one, other)
    return conj(holds, negated(failed)), conj(negated(holds), negated(failed))


def _with_scalar(container: ValueCase) -> SymbolicEquality:
    """Return the equality of a container and another type: false, or `no such overload` for a Go value."""
    if isinstance(container, JsonList | JsonMap):
        return FALSE, negated(container.node.is_struct)
    return FALSE, TRUE


def _equal_containers(make: ValueFactory, one: ValueCase, other: ValueCase) -> SymbolicEquality:
    # The same value. JSON has no NaN, which alone differs from itself.
    if one == other and isinstance(one, JsonList | JsonMap):
        return TRUE, FALSE
    is_list, other_is_list = isinstance(one, JsonList | ListOf), isinstance(other, JsonList | ListOf)
    if is_list != other_is_list:
        return _with_scalar(one)
    size, other_size = size_of(one), size_of(other)
    if is_list and size is not None and other_size is not None:
        if isinstance(other, ListOf) and isinstance(one, JsonList) and _are_scalars(other):
            return _equal_items(make, one, other)
        if isinstance(one, ListOf) and isinstance(other, JsonList) and _are_scalars(one):
            return _equal_items(make, other, one)
        if any(isinstance(each, ListOf) and not each.items for each in (one, other)):
            return _sure(equal(size, other_size))
        if any(isinstance(each, ListOf) and not each.is_ordered for each in (one, other)):
            make.root.depends_on_order = True
    return _unknown(make, "==", known(one), known(other))


def _are_scalars(items: ListOf) -> bool:
    """Return whether a list consists only of scalars, all of them present."""
    return all(
        guard is TRUE and all(isinstance(case, Null | Bool | Int | Str) for _, case in item.cases)
        for guard, item in items.items
    )


def _equal_items(make: ValueFactory, one: JsonList, other: ListOf) -> SymbolicEquality:
    """Return whether a JSON list equals a list of scalars: same length and equal items."""
    same = [equal(one.node.size, integer(len(other.items)))]
    for index, (_, item) in enumerate(other.items):
        holds, _ = equal_values(make, item, known(Json(one.node.item(index))))
        same.append(holds)
    return _sure(conj(*same))


def compare_numbers(make: ValueFactory, one: ValueCase, other: ValueCase) -> tuple[Term, Term] | None:
    """Return where one number is less than the other, and where they are equal. Return None unless both are numbers."""
    if isinstance(one, Int) and isinstance(other, Int):
        return less(one.term, other.term), equal(one.term, other.term)
    if isinstance(one, Double) and isinstance(other, Double):
        return less(one.term, other.term), equal(one.term, other.term)
    if isinstance(one, Int) and isinstance(other, Double):
        return _mixed(make, one.term, other.term, is_swapped=False)
    if isinstance(one, Double) and isinstance(other, Int):
        return _mixed(make, other.term, one.term, is_swapped=True)
    return None


def _mixed(make: ValueFactory, number: Term, double: Term, *, is_swapped: bool) -> tuple[Term, Term]:
    """Compare an int with a double in double precision, where that is exact. Beyond that it is not modelled."""
    exact = conj(at_most(integer(-_EXACT), number), at_most(number, integer(_EXACT)))
    real = as_real(number)
    below = less(double, real) if is_swapped else less(real, double)
    key = ("mixed", number, double)
    unknown_less, unknown_equal = make.flag(*key, "<", is_swapped), make.flag(*key, "=")
    return choose(exact, below, conj(unknown_less, negated(unknown_equal))), choose(
        exact, equal(real, double), unknown_equal
    )


def order(make: ValueFactory, one: SymbolicValue, other: SymbolicValue) -> tuple[Term, Term, Term]:
    """Return where one value is less, equal and greater. Where none holds, the values have no order, which is an error."""
    less, same, greater = [], [], []
    for guard, case in spread(one):
        for other_guard, other_case in spread(other):
            here = conj(guard, other_guard)
            part = None if here is FALSE else _order_cases(make, case, other_case)
            if part is not None:
                is_less, is_equal = part[0], part[1]
                valid = part[2] if len(part) > 2 else TRUE
                less.append(conj(here, valid, is_less))
                same.append(conj(here, valid, is_equal))
                greater.append(conj(here, valid, negated(is_less), negated(is_equal)))
    return disj(*less), disj(*same), disj(*greater)


def _order_cases(make: ValueFactory, one: ValueCase, other: ValueCase) -> tuple[Term, ...] | None:
    numbers = compare_numbers(make, one, other)
    if numbers is not None:
        return numbers
    if isinstance(one, Str) and isinstance(other, Str):
        return less_text(make, one.term, other.term), make.root.texts.same(one.term, other.term)
    if isinstance(one, Opaque) or isinstance(other, Opaque) or (isinstance(one, Bool) and isinstance(other, Bool)):
        names = (known(one), known(other))
        is_less, is_equal = make.flag("<", *names), make.flag("order =", *names)
        return conj(is_less, negated(is_equal)), is_equal, negated(make.flag("order fails", *names))
    return None


def less_text(make: ValueFactory, one: Term, other: Term) -> Term:  # noqa: PLR0911 - one case a kind
    """Return whether a text precedes another."""
    texts = make.root.texts
    if other.op == "ite":
        return choose(other.args[0], less_text(make, one, other.args[1]), less_text(make, one, other.args[2]))
    if one.op == "ite":
        return choose(one.args[0], less_text(make, one.args[1], other), less_text(make, one.args[2], other))
    constant = texts.text_of(other)
    if constant is not None:
        return texts.holds(TextPredicate("less", constant), one)
    constant = texts.text_of(one)
    if constant is not None:  # the constant comes first unless the other comes before it or is it
        return conj(negated(texts.holds(TextPredicate("less", constant), other)), negated(texts.same(one, other)))
    if one is other:
        return FALSE
    # One function for both directions, so that exactly one text precedes the other.
    if one.serial > other.serial:
        return conj(negated(less_text(make, other, one)), negated(texts.same(one, other)))
    return conj(apply("text <", (one, other), BOOL), negated(texts.same(one, other)))


def membership(make: ValueFactory, element: SymbolicValue, container: SymbolicValue) -> SymbolicEquality:
    """Return when `element in container`."""
    holds, fails = [], []
    for guard, case in spread(container):
        yes, no = _in_case(make, element, case)
        holds.append(conj(guard, yes))
        fails.append(conj(guard, no))
    return disj(*holds), disj(*fails)


def _in_case(make: ValueFactory, element: SymbolicValue, container: ValueCase) -> SymbolicEquality:
    if isinstance(container, ListOf):
        equality = disj(*(conj(there, equal_values(make, element, item)[0]) for there, item in container.items))
        return _sure(equality)
    if isinstance(container, JsonList):
        return _in_json_list(make, element, container)
    if isinstance(container, JsonMap | MapOf):
        return _in_map(make, element, container)
    if isinstance(container, Pieces):
        return _in_pieces(make, element, container)
    if isinstance(container, Opaque | SymbolicOptional):
        return _unknown(make, "in", element, known(container))
    return FALSE, FALSE


def _in_pieces(make: ValueFactory, element: SymbolicValue, container: Pieces) -> SymbolicEquality:
    """Return whether a constant text is one of the pieces. A value that is not a text is none of them."""
    texts, guards = make.root.texts, []
    for guard, case in spread(element):
        text = texts.text_of(case.term) if isinstance(case, Str) else None
        if text is None:
            inside = make.flag("in pieces", known(case), known(container)) if isinstance(case, Str | Opaque) else FALSE
        # No piece contains the separator.
        elif container.separator in text:
            inside = FALSE
        else:
            separator = re.escape(container.separator)
            pattern = f"(^|{separator}){re.escape(text)}({separator}|$)"
            inside = texts.holds(TextPredicate("matches", pattern), container.term)
        guards.append(conj(guard, inside))
    return _sure(disj(*guards))


def _in_json_list(make: ValueFactory, element: SymbolicValue, container: JsonList) -> SymbolicEquality:
    """Return whether a JSON list contains an element: an unknown function of both. An empty list contains nothing."""
    guards = []
    node = container.node
    for guard, case in spread(element):
        if isinstance(case, Str):
            inside = text_in_list(make, container, case.term)
        else:
            inside = make.flag("in", node, known(case))
        guards.append(conj(guard, inside))
    return _sure(conj(disj(*guards), less(integer(0), node.size)))


def text_in_list(make: ValueFactory, container: JsonList, term: Term) -> Term:
    """Return whether a text is in a JSON list, as a function of the text's number."""
    if term.op == "ite":
        one, other = (text_in_list(make, container, each) for each in term.args[1:])
        return choose(term.args[0], one, other)
    inside = apply(f"in {container.node.name}", (term,), BOOL)
    make.root.sought.setdefault(container.node, {})[term] = None
    return inside


def _in_map(make: ValueFactory, element: SymbolicValue, container: JsonMap | MapOf) -> SymbolicEquality:
    holds, fails = [], []
    for guard, case in spread(element):
        if isinstance(case, Str):
            present, _, failed = look_up_text(make, container, case.term)
            holds.append(conj(guard, negated(failed), present))
            fails.append(conj(guard, negated(failed), negated(present)))
        else:
            yes, no = _unknown(make, "key in", known(container), known(case))
            holds.append(conj(guard, yes))
            fails.append(conj(guard, no))
    return disj(*holds), disj(*fails)

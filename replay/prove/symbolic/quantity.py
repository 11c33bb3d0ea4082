"""Quantities: texts by their amounts (`k8s.io/apiserver/pkg/cel/library/quantity.go`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from replay.prove.symbolic.selection import Guarded, joined, spread
from replay.prove.symbolic.term import (
    BOOL,
    REAL,
    Term,
    apply,
    boolean,
    choose,
    conj,
    equal,
    integer,
    less,
    negated,
    rational,
)
from replay.prove.symbolic.text.exact import quantity_of
from replay.prove.symbolic.unknown import ValueFactory
from replay.prove.symbolic.value import (
    FAILED,
    Bool,
    Int,
    Opaque,
    Str,
    SymbolicOptional,
    SymbolicValue,
    ValueCase,
    known,
)

Followed = Callable[[ValueFactory, list[SymbolicValue]], SymbolicValue | None]
"""A function of symbolic values; None as a result: not followed after all."""

_QUANTITY = "quantity"


def _quantity(make: ValueFactory, arguments: list[SymbolicValue]) -> SymbolicValue | None:
    pairs: list[Guarded] = []
    for guard, case in spread(arguments[0]):
        if isinstance(case, Opaque):
            return None
        if not isinstance(case, Str):
            pairs.append((guard, FAILED))
            continue
        valid = _is_quantity_term(make, case.term)
        pairs += [
            (conj(guard, valid), known(Opaque(_QUANTITY, (case.term,)))),
            (conj(guard, negated(valid)), FAILED),
        ]
    return joined(pairs)


def _is_quantity(make: ValueFactory, arguments: list[SymbolicValue]) -> SymbolicValue | None:
    pairs: list[Guarded] = []
    for guard, case in spread(arguments[0]):
        if isinstance(case, Opaque | SymbolicOptional):
            return None
        pairs.append((guard, known(Bool(_is_quantity_term(make, case.term))) if isinstance(case, Str) else FAILED))
    return joined(pairs)


def _is_quantity_term(make: ValueFactory, term: Term) -> Term:
    text = make.root.texts.text_of(term)
    if text is not None:
        return boolean(quantity_of(text) is not None)
    if term.op == "ite":
        return choose(term.args[0], _is_quantity_term(make, term.args[1]), _is_quantity_term(make, term.args[2]))
    make.root.amounts[term] = None
    return apply("is quantity", (term,), BOOL)


def _amount(make: ValueFactory, term: Term) -> Term:
    if term.op == "ite":
        return choose(term.args[0], _amount(make, term.args[1]), _amount(make, term.args[2]))
    text = make.root.texts.text_of(term)
    amount = None if text is None else quantity_of(text)
    if amount is not None:
        return rational(amount)
    make.root.amounts[term] = None
    return apply("amount", (term,), REAL)


def _compare_quantities(
    answer: Callable[[Term, Term], SymbolicValue], make: ValueFactory, arguments: list[SymbolicValue]
) -> SymbolicValue | None:
    pairs: list[Guarded] = []
    for guard, case in arguments[0].cases:
        for other_guard, other in arguments[1].cases:
            here = conj(guard, other_guard)
            amounts = [_amount_of(make, each) for each in (case, other)]
            if amounts[0] is None or amounts[1] is None:
                return None
            pairs.append((here, answer(amounts[0], amounts[1])))
    return joined(pairs)


def _amount_of(make: ValueFactory, case: ValueCase) -> Term | None:
    if not isinstance(case, Opaque) or case.kind != _QUANTITY:
        return None
    term = case.made_of[0]
    assert isinstance(term, Term)
    return _amount(make, term)


def _compared(one: Term, other: Term) -> SymbolicValue:
    return known(Int(choose(less(one, other), integer(-1), choose(equal(one, other), integer(0), integer(1)))))


QUANTITIES: Mapping[tuple[str, int], Followed] = {
    ("quantity", 1): _quantity,
    ("isQuantity", 1): _is_quantity,
    ("isGreaterThan", 2): partial(_compare_quantities, lambda one, other: known(Bool(less(other, one)))),
    ("isLessThan", 2): partial(_compare_quantities, lambda one, other: known(Bool(less(one, other)))),
    ("compareTo", 2): partial(_compare_quantities, _compared),
}
"""By name and number of operands, the receiver among them."""

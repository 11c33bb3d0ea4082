"""Modelled functions of texts: results, pieces, positions of one text in another, and quantities.

Quantities are texts with an amount (`k8s.io/apiserver/pkg/cel/library/quantity.go`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from replay.prove.symbolic.selection import Guarded, joined, spread
from replay.prove.symbolic.term import (
    BOOL,
    INT,
    REAL,
    Term,
    apply,
    at_most,
    boolean,
    choose,
    conj,
    equal,
    implies,
    integer,
    less,
    negated,
    rational,
)
from replay.prove.symbolic.text_function import TextFunction
from replay.prove.symbolic.text_language import TextPredicate, quantity_of
from replay.prove.symbolic.unknown import ValueFactory
from replay.prove.symbolic.value import (
    FAILED,
    Bool,
    Int,
    Opaque,
    Pieces,
    Str,
    SymbolicOptional,
    SymbolicValue,
    ValueCase,
    known,
)

Followed = Callable[[ValueFactory, list[SymbolicValue]], SymbolicValue | None]
"""Function of symbolic values. A result of None means not modelled."""

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
"""Functions on quantities, by name and number of operands, including the receiver."""


_LONGEST = 64


def _text_function(name: str, make: ValueFactory, arguments: list[SymbolicValue]) -> SymbolicValue | None:
    """Model a function from text to text that never fails."""
    followed = TextFunction(name) if name in {"lowerAscii", "upperAscii"} else None
    pairs: list[Guarded] = []
    for guard, case in spread(arguments[0]):
        if isinstance(case, Opaque | SymbolicOptional):
            return None
        if not isinstance(case, Str):
            pairs.append((guard, FAILED))
        elif followed is not None:
            pairs.append((guard, known(Str(make.root.texts.result(followed, case.term)))))
        else:
            pairs.append((guard, known(Str(make.text_result(name, case.term)))))
    return joined(pairs)


def _split(make: ValueFactory, arguments: list[SymbolicValue]) -> SymbolicValue | None:
    """Model `text.split(separator)` for a separator of one character."""
    pairs: list[Guarded] = []
    for guard, case in spread(arguments[0]):
        for other_guard, other in spread(arguments[1]):
            if isinstance(case, Opaque | SymbolicOptional) or isinstance(other, Opaque | SymbolicOptional):
                return None
            here = conj(guard, other_guard)
            if not isinstance(case, Str) or not isinstance(other, Str):
                pairs.append((here, FAILED))
                continue
            separator = make.root.texts.text_of(other.term)
            if separator is None or len(separator) != 1:
                return None
            pairs.append((here, known(Pieces(case.term, separator))))
    return joined(pairs)


def _index_of(name: str, make: ValueFactory, arguments: list[SymbolicValue]) -> SymbolicValue | None:
    """Model `indexOf` and `lastIndexOf` of a constant: -1 if it is absent, 0 if nothing precedes the first."""
    pairs: list[Guarded] = []
    texts = make.root.texts
    for guard, case in spread(arguments[0]):
        for other_guard, other in spread(arguments[1]):
            if not isinstance(case, Str) or not isinstance(other, Str):
                return None
            text = texts.text_of(other.term)
            if not text:
                return None
            index = apply(f"{name} {text.encode('unicode_escape').hex()}", (case.term,), INT)
            there = texts.holds(TextPredicate("contains", text), case.term)
            meaning = conj(
                implies(there, at_most(integer(0), index)), implies(negated(there), equal(index, integer(-1)))
            )
            make.root.facts.append(meaning)
            if name == "indexOf":
                first, begins = equal(index, integer(0)), texts.holds(TextPredicate("startsWith", text), case.term)
                make.root.facts.append(conj(implies(first, begins), implies(begins, first)))
            pairs.append((conj(guard, other_guard), known(Int(index))))
    return joined(pairs)


def _substring(make: ValueFactory, arguments: list[SymbolicValue]) -> SymbolicValue | None:
    """Model `substring` with constant indices. Beyond the end it is an error."""
    limits = [_constant(each) for each in arguments[1:]]
    if any(each is None for each in limits):
        return None
    begin, *ends = (each for each in limits if each is not None)
    most = max((begin, *ends))
    if min((begin, *ends)) < 0 or (ends and ends[0] < begin):
        return FAILED
    if most > _LONGEST:
        return None
    pairs: list[Guarded] = []
    texts = make.root.texts
    for guard, case in spread(arguments[0]):
        if isinstance(case, Opaque | SymbolicOptional):
            return None
        if not isinstance(case, Str):
            pairs.append((guard, FAILED))
            continue
        reaches = texts.holds(TextPredicate("longer", number=most - 1), case.term) if most else conj()
        result: Term = case.term
        if ends:
            result = texts.result(TextFunction("begin", number=ends[0]), result)
        if begin:
            result = texts.result(TextFunction("drop", number=begin), result)
        pairs += [(conj(guard, reaches), known(Str(result))), (conj(guard, negated(reaches)), FAILED)]
    return joined(pairs)


def _constant(value: SymbolicValue) -> int | None:
    """Return the number that a value certainly is, or None."""
    if len(value.cases) != 1 or not isinstance(value.cases[0][1], Int):
        return None
    number = value.cases[0][1].term.value
    return number if type(number) is int and value.cases[0][1].term.op == "const" else None


TEXTS: Mapping[tuple[str, int], Followed] = {
    **{(name, 1): partial(_text_function, name) for name in ("lowerAscii", "upperAscii", "trim")},
    **{(name, 2): partial(_index_of, name) for name in ("indexOf", "lastIndexOf")},
    ("split", 2): _split,
    ("substring", 2): _substring,
    ("substring", 3): _substring,
}
"""Functions on texts, by name and number of operands, including the receiver."""

"""Formulas: booleans, integers and rationals over named constants. Equal formulas are one object."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any, Final

BOOL: Final = "Bool"
INT: Final = "Int"
REAL: Final = "Real"


class Term:
    """Formula or number. Equal terms are one object, so identity is equality."""

    __slots__ = ("args", "op", "serial", "sort", "value")

    def __init__(self, op: str, args: tuple[Term, ...], sort: str, value: object, serial: int) -> None:
        """Use the functions of this module instead."""
        self.op = op
        self.args = args
        self.sort = sort
        self.value = value
        self.serial = serial

    def __repr__(self) -> str:
        """Return the term as SMT-LIB."""
        return text_of(self)


_MADE: dict[tuple[object, ...], Term] = {}


def _intern(op: str, args: tuple[Term, ...], sort: str, value: object = None) -> Term:
    # `True` equals `1` in Python, so the type belongs to the key.
    key = (op, sort, type(value), value, *(arg.serial for arg in args))
    term = _MADE.get(key)
    if term is None:
        term = _MADE[key] = Term(op, args, sort, value, len(_MADE))
    return term


def forget() -> None:
    """Drop all formulas except the constants. Formulas that are still held must not be combined with new ones."""
    _MADE.clear()
    for constant in (TRUE, FALSE):
        _MADE["const", BOOL, bool, constant.value] = constant


TRUE: Final = _intern("const", (), BOOL, True)
FALSE: Final = _intern("const", (), BOOL, False)


def boolean(value: bool) -> Term:
    """Return a boolean constant."""
    return TRUE if value else FALSE


def integer(value: int) -> Term:
    """Return an integer constant."""
    return _intern("const", (), INT, value)


def rational(value: Fraction | int) -> Term:
    """Return a rational constant."""
    return _intern("const", (), REAL, Fraction(value))


def variable(name: str, sort: str) -> Term:
    """Return a variable of a sort."""
    return _intern("var", (), sort, name)


def apply(name: str, args: Iterable[Term], sort: str) -> Term:
    """Return an unknown function of some arguments."""
    return _intern("apply", tuple(args), sort, name)


def conj(*terms: Term) -> Term:
    """Return the conjunction."""
    return _joined("and", terms, FALSE, TRUE)


def disj(*terms: Term) -> Term:
    """Return the disjunction."""
    return _joined("or", terms, TRUE, FALSE)


def _joined(op: str, terms: Iterable[Term], deciding: Term, neutral: Term) -> Term:
    """Return terms under one operator. One `deciding` part is the result of all, `neutral` parts do not matter."""
    parts_by_serial: dict[int, Term] = {}
    for term in terms:
        for part in term.args if term.op == op else (term,):
            if part is deciding:
                return deciding
            if part is not neutral:
                parts_by_serial[part.serial] = part
    for part in parts_by_serial.values():
        if part.op == "not" and part.args[0].serial in parts_by_serial:
            return deciding
    # Sorted, so that equal parts in another order are the same term.
    parts = tuple(parts_by_serial[key] for key in sorted(parts_by_serial))
    return neutral if not parts else parts[0] if len(parts) == 1 else _intern(op, parts, BOOL)


def negated(term: Term) -> Term:
    """Return the negation."""
    if term is TRUE or term is FALSE:
        return boolean(term is FALSE)
    return term.args[0] if term.op == "not" else _intern("not", (term,), BOOL)


def implies(one: Term, other: Term) -> Term:
    """Return the implication of `other` by `one`."""
    return disj(negated(one), other)


def choose(condition: Term, one: Term, other: Term) -> Term:
    """Return one term if the condition holds, otherwise the other."""
    if condition is TRUE or one is other:
        return one
    if condition is FALSE:
        return other
    if one.sort == BOOL:
        return disj(conj(condition, one), conj(negated(condition), other))
    return _intern("ite", (condition, one, other), one.sort)


def equal(one: Term, other: Term) -> Term:
    """Return the formula that two numbers are equal."""
    if one is other:
        return TRUE
    if one.op == "const" and other.op == "const":
        return boolean(one.value == other.value)
    # The older term comes first, so that an equation and its reverse are one object.
    if one.serial > other.serial:
        one, other = other, one
    return _intern("=", (one, other), BOOL)


def less(one: Term, other: Term) -> Term:
    """Return the formula that a number is less than another of its sort."""
    if one is other:
        return FALSE
    if one.op == "const" and other.op == "const":
        return boolean(one.value < other.value)  # type: ignore[operator]  # both are numbers
    return _intern("<", (one, other), BOOL)


def at_most(one: Term, other: Term) -> Term:
    """Return the formula that a number is at most another."""
    return negated(less(other, one))


_ARITHMETIC: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "div": operator.floordiv,
}


def arithmetic(op: str, one: Term, other: Term) -> Term:
    """Return `+`, `-` or `*` of two numbers of one sort. `div` of an integer by a positive one rounds down."""
    if one.op == "const" and other.op == "const":
        a, b = one.value, other.value
        result = _ARITHMETIC[op](a, b)
        return integer(result) if one.sort == INT else rational(result)
    return _intern(op, (one, other), one.sort)


def as_real(term: Term) -> Term:
    """Return an integer as a rational."""
    if term.op == "const":
        assert isinstance(term.value, int)
        return rational(term.value)
    return _intern("to_real", (term,), REAL)


def total(terms: Iterable[Term]) -> Term:
    """Return the number of formulas that hold."""
    count = integer(0)
    for term in terms:
        count = arithmetic("+", count, choose(term, integer(1), integer(0)))
    return count


def walk(roots: Iterable[Term]) -> Iterator[Term]:
    """Yield all parts of some terms once each, after their own parts."""
    serials: set[int] = set()
    stack = [(root, False) for root in roots]
    while stack:
        term, is_done = stack.pop()
        if is_done:
            yield term
        elif term.serial not in serials:
            serials.add(term.serial)
            stack.append((term, True))
            stack.extend((arg, False) for arg in term.args if arg.serial not in serials)


def constant_text(term: Term) -> str:
    """Return a constant in SMT-LIB."""
    value = term.value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) if value >= 0 else f"(- {-value})"
    assert isinstance(value, Fraction)
    shown = f"(/ {abs(value.numerator)}.0 {value.denominator}.0)"
    return shown if value >= 0 else f"(- {shown})"


def text_of(term: Term) -> str:
    """Return a term in SMT-LIB for people, without shared parts."""
    if term.op == "const":
        return constant_text(term)
    if term.op == "var":
        return str(term.value)
    name = str(term.value) if term.op == "apply" else term.op
    return f"({name} {' '.join(map(text_of, term.args))})" if term.args else name

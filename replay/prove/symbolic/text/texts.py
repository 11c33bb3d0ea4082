"""Texts in formulas: constants are numbers, predicates and results are functions of numbers."""

from __future__ import annotations

import re

from replay.prove.symbolic.term import (
    BOOL,
    INT,
    Term,
    apply,
    boolean,
    choose,
    conj,
    disj,
    equal,
    integer,
    negated,
)
from replay.prove.symbolic.text.function import TextFunction
from replay.prove.symbolic.text.language import TextPredicate


class Texts:
    """Texts in formulas: constants have numbers, predicates are functions of numbers."""

    def __init__(self) -> None:
        """No text yet."""
        self.literals: dict[str, int] = {}
        self.predicates: dict[Term, dict[TextPredicate, None]] = {}
        """The predicates that are asked of each text that is not a constant."""
        self.derived: dict[Term, tuple[TextFunction, Term]] = {}
        """The texts that a function makes of others."""
        self.numerals: dict[Term, Term] = {}
        """The texts that whole numbers are written as."""
        self.compared: dict[tuple[Term, Term], None] = {}
        """The texts that are held against each other: what is asked of one is then asked of the other."""

    def literal(self, text: str) -> Term:
        """The number of a constant text."""
        return integer(self.literals.setdefault(text, len(self.literals)))

    def text_of(self, term: Term) -> str | None:
        """Return the constant text of a number, None if there is none."""
        if term.op != "const":
            return None
        return next(text for text, number in self.literals.items() if number == term.value)

    def result(self, function: TextFunction, term: Term) -> Term:
        """Return the result of a function of a text."""
        text = self.text_of(term)
        if text is not None:
            return self.literal(function.of(text))
        if term.op == "ite":
            return choose(term.args[0], self.result(function, term.args[1]), self.result(function, term.args[2]))
        result = apply(f"text of {name_of(function)}", (term,), INT)
        self.derived[result] = (function, term)
        return result

    def numeral(self, number: Term) -> Term:
        """A whole number as a text."""
        if number.op == "const":
            return self.literal(str(number.value))
        numeral = apply("text of int", (number,), INT)
        self.numerals[numeral] = number
        return numeral

    def holds(self, predicate: TextPredicate, term: Term) -> Term:
        """A predicate of a text."""
        if term.op == "ite":
            yes, no = self.holds(predicate, term.args[1]), self.holds(predicate, term.args[2])
            return disj(conj(term.args[0], yes), conj(negated(term.args[0]), no))
        if term.op == "const":
            answer = predicate.holds(self.text_of(term) or "")
            if answer is not None:
                return boolean(answer)
        self.predicates.setdefault(term, {})[predicate] = None
        return apply(name_of(predicate), (term,), BOOL)

    def same(self, one: Term, other: Term) -> Term:
        """Whether two texts are equal."""
        for term, constant in ((one, other), (other, one)):
            if constant.op == "const" and term.op == "ite":
                yes, no = self.same(term.args[1], constant), self.same(term.args[2], constant)
                return disj(conj(term.args[0], yes), conj(negated(term.args[0]), no))
            text = self.text_of(constant)
            if text is not None and term in self.numerals:
                is_numeral = re.fullmatch("0|-?[1-9][0-9]{0,18}", text, re.ASCII) is not None
                return equal(self.numerals[term], integer(int(text))) if is_numeral else boolean(False)
            if text is not None and term.op != "const":
                self.predicates.setdefault(term, {})[TextPredicate("equal", text)] = None
        if one.op != "const" and other.op != "const" and one is not other:
            self.compared[one, other] = None
        return equal(one, other)


def name_of(predicate: TextPredicate | TextFunction) -> str:
    """The name of a predicate, or of a function of texts, in formulas."""
    own = f"{predicate.kind} {predicate.text.encode('unicode_escape').hex()} {predicate.number}"
    inner = predicate.functions if isinstance(predicate, TextPredicate) else ()
    return " of ".join((own, *map(name_of, inner)))

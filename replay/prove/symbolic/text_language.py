"""Sets of texts that predicates describe, and which predicates can hold for one text together.

In formulas, constants are numbers, and predicates and results are functions of numbers.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from replay.cel.value.bounds import UndeterminedError
from replay.cel.value.regexp import matches
from replay.cel.value.values import EvalError
from replay.kube.quantity import QuantityError, parse_quantity
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
from replay.prove.symbolic.text_function import TextFunction
from replay.prove.symbolic.text_pattern import NFA, NotRegularError, nfa_of_pattern


@lru_cache(maxsize=65536)
def _matches_exactly(text: str, pattern: str) -> bool | None:
    """Return whether a pattern matches a text, or None for an error or an unknown result."""
    try:
        return matches(text, pattern)
    except (EvalError, UndeterminedError):
        return None


@lru_cache(maxsize=65536)
def quantity_of(text: str) -> Fraction | None:
    """Return the amount of a quantity, or None for another text."""
    try:
        quantity = parse_quantity(text)
    except QuantityError:
        return None
    return Fraction(quantity.value) * Fraction(10) ** quantity.scale


MOST_STATES = 6000
_LAST = 0x10FFFF
_SURROGATES = (0xD800, 0xDFFF)
_LONGEST = 300


class TextPredicate(Struct, frozen=True):
    """Predicate of a text: `kind` with a constant. `number` is a length, or the least number of separators."""

    kind: str
    text: str = ""
    number: int = 0
    functions: tuple[TextFunction, ...] = ()
    """Functions applied to the text before the predicate. The last one is applied first."""

    @property
    def is_equality(self) -> bool:
        """Whether it compares the text itself with a constant."""
        return self.kind == "equal" and not self.functions

    def after(self, function: TextFunction) -> TextPredicate:
        """Return the predicate for the result of a function."""
        return replace(self, functions=(*self.functions, function))

    def holds(self, text: str) -> bool | None:  # noqa: PLR0911 - one case a kind
        """Return the answer for one text, or None if the kind has none here."""
        if self.functions:
            return replace(self, functions=self.functions[:-1]).holds(self.functions[-1].apply(text))
        match self.kind:
            case "matches":
                return _matches_exactly(text, self.text)
            case "pieces":
                return text.count(self.text) >= self.number
            case "equal":
                return text == self.text
            case "startsWith":
                return text.startswith(self.text)
            case "endsWith":
                return text.endswith(self.text)
            case "contains":
                return self.text in text
            case "less":
                # Go compares bytes of UTF-8, which gives the order of code points.
                return text < self.text
            case "longer":
                return len(text) > self.number
        return None


class Combinations(Struct, frozen=True):
    """Combinations of answers that texts can give, each with a shortest such text."""

    samples: tuple[tuple[tuple[bool, ...], str], ...]


@lru_cache(maxsize=2048)
def combinations(predicates: tuple[TextPredicate, ...]) -> Combinations | None:
    """Return the possible combinations of answers, or None if they cannot be found."""
    automata = []
    for predicate in predicates:
        automaton = _automaton(predicate)
        if automaton is None:
            return None
        automata.append(automaton)
    letters = _letters(automata)
    start = tuple(each.start for each in automata)
    states_seen = {start}
    queue = deque([(start, "")])
    samples: dict[tuple[bool, ...], str] = {}
    # Breadth first, so that the first text of each combination is a shortest one.
    while queue:
        states, text = queue.popleft()
        answers = tuple(bool(state & each.accepting) for state, each in zip(states, automata, strict=True))
        samples.setdefault(answers, text)
        for letter in letters:
            following = tuple(each.step(state, letter) for state, each in zip(states, automata, strict=True))
            if following not in states_seen:
                if len(states_seen) >= MOST_STATES:
                    return None
                states_seen.add(following)
                queue.append((following, text + chr(letter)))
    return Combinations(tuple(sorted(samples.items())))


def is_regular(predicate: TextPredicate) -> bool:
    """Return whether a predicate can be expressed as an automaton."""
    return _automaton(predicate) is not None


@lru_cache(maxsize=2048)
def _automaton(predicate: TextPredicate) -> NFA | None:
    if not predicate.functions:
        return _plain(predicate)
    nfa = _automaton(replace(predicate, functions=predicate.functions[:-1]))
    try:
        return None if nfa is None else predicate.functions[-1].before(nfa)
    except NotRegularError:
        return None


def _plain(predicate: TextPredicate) -> NFA | None:  # noqa: PLR0911 - one case a kind
    """Return the automaton of a predicate of the text itself, or None."""
    anything, text = (("star", ((0, _LAST),)),), tuple(("one", ((ord(c), ord(c)),)) for c in predicate.text)
    if len(predicate.text) > _LONGEST or predicate.number > _LONGEST:
        return None
    match predicate.kind:
        case "equal":
            return NFA.of_sequence(text)
        case "startsWith":
            return NFA.of_sequence((*text, *anything))
        case "endsWith":
            return NFA.of_sequence((*anything, *text))
        case "contains":
            return NFA.of_sequence((*anything, *text, *anything))
        case "longer":
            return NFA.of_sequence((*((("one", ((0, _LAST),)),) * (predicate.number + 1)), *anything))
        case "pieces":
            return NFA.of_sequence((*((*anything, *text) * predicate.number), *anything))
        case "less":
            return _less_than(predicate.text)
        case "matches":
            return nfa_of_pattern(predicate.text)
    return None


def _less_than(text: str) -> NFA:
    """Return the automaton of texts before one, by code points: proper prefixes, and texts with a smaller character."""
    nfa = NFA()
    state = nfa.state()
    nfa.begin(state)
    end = nfa.state()
    nfa.edge(end, ((0, _LAST),), end)
    nfa.accept(end)
    for character in text:
        nfa.accept(state)
        if ord(character):
            nfa.edge(state, ((0, ord(character) - 1),), end)
        following = nfa.state()
        nfa.edge(state, ((ord(character), ord(character)),), following)
        state = following
    return nfa


def _letters(automata: Sequence[NFA]) -> list[int]:
    """Return one character per class that no automaton distinguishes, readable ones first."""
    # Surrogates are a class of their own, because no text has them.
    bounds = {0, _SURROGATES[0], _SURROGATES[1] + 1}
    for each in automata:
        for low, high in each.ranges():
            bounds.update((low, high + 1))
    edges = sorted(bound for bound in bounds if bound <= _LAST)
    classes = [(low, (edges[i + 1] if i + 1 < len(edges) else _LAST + 1) - 1) for i, low in enumerate(edges)]
    chosen = [_most_readable(low, high) for low, high in classes if not _SURROGATES[0] <= low <= _SURROGATES[1]]
    return sorted(chosen, key=_rank)


def _most_readable(low: int, high: int) -> int:
    for character in "ax10bAZ-./:_@":
        if low <= ord(character) <= high:
            return ord(character)
    for each in range(max(low, 0x21), min(high, 0x7E) + 1):
        return each
    return low


def _rank(letter: int) -> tuple[int, int]:
    character = chr(letter)
    return (0 if character.isascii() and character.isalnum() else 1 if 0x21 <= letter <= 0x7E else 2, letter)


class Texts:
    """Texts in formulas: constants have numbers, predicates are functions of numbers."""

    def __init__(self) -> None:
        """Start without texts."""
        self.literals: dict[str, int] = {}
        self.predicates: dict[Term, dict[TextPredicate, None]] = {}
        """Predicates of each text that is not a constant."""
        self.derived: dict[Term, tuple[TextFunction, Term]] = {}
        """Texts that are results of functions of other texts."""
        self.numerals: dict[Term, Term] = {}
        """Texts of whole numbers."""
        self.compared: dict[tuple[Term, Term], None] = {}
        """Pairs of compared texts. Predicates of one are then also asked of the other."""

    def literal(self, text: str) -> Term:
        """Return the number of a constant text."""
        return integer(self.literals.setdefault(text, len(self.literals)))

    def text_of(self, term: Term) -> str | None:
        """Return the constant text of a number, or None."""
        if term.op != "const":
            return None
        return next(text for text, number in self.literals.items() if number == term.value)

    def result(self, function: TextFunction, term: Term) -> Term:
        """Return the result of a function of a text."""
        text = self.text_of(term)
        if text is not None:
            return self.literal(function.apply(text))
        if term.op == "ite":
            return choose(term.args[0], self.result(function, term.args[1]), self.result(function, term.args[2]))
        result = apply(f"text of {name_of(function)}", (term,), INT)
        self.derived[result] = (function, term)
        return result

    def numeral(self, number: Term) -> Term:
        """Return the text of a whole number."""
        if number.op == "const":
            return self.literal(str(number.value))
        numeral = apply("text of int", (number,), INT)
        self.numerals[numeral] = number
        return numeral

    def holds(self, predicate: TextPredicate, term: Term) -> Term:
        """Return a predicate of a text."""
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
        """Return the formula that two texts are equal."""
        for term, constant in ((one, other), (other, one)):
            if constant.op == "const" and term.op == "ite":
                yes, no = self.same(term.args[1], constant), self.same(term.args[2], constant)
                return disj(conj(term.args[0], yes), conj(negated(term.args[0]), no))
            text = self.text_of(constant)
            if text is not None and term in self.numerals:
                # Other texts, such as 01, are the text of no int.
                is_numeral = re.fullmatch("0|-?[1-9][0-9]{0,18}", text, re.ASCII) is not None
                return equal(self.numerals[term], integer(int(text))) if is_numeral else boolean(False)
            if text is not None and term.op != "const":
                self.predicates.setdefault(term, {})[TextPredicate("equal", text)] = None
        if one.op != "const" and other.op != "const" and one is not other:
            self.compared[one, other] = None
        return equal(one, other)


def name_of(predicate: TextPredicate | TextFunction) -> str:
    """Return the name of a predicate or text function in formulas."""
    own = f"{predicate.kind} {predicate.text.encode('unicode_escape').hex()} {predicate.number}"
    inner = predicate.functions if isinstance(predicate, TextPredicate) else ()
    return " of ".join((own, *map(name_of, inner)))

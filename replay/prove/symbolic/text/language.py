"""Sets of texts that predicates describe, and which of several predicates can hold of one text at once.

A predicate is an automaton that is run only as far as it is needed. All predicates of a text are run side by side over classes
of characters that none of them tells apart: what combinations of answers a text can give is then a search for states.
A search that becomes too large says so, and then nothing is concluded from it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from replay.prove.symbolic.text.exact import matches_exactly
from replay.prove.symbolic.text.function import TextFunction
from replay.prove.symbolic.text.pattern import NFA, NotRegularError, nfa_of_pattern

MOST_STATES = 6000
_LAST = 0x10FFFF
_SURROGATES = (0xD800, 0xDFFF)
_LONGEST = 300


class TextPredicate(Struct, frozen=True):
    """A question about a text: `kind` with a constant; `number` for lengths, and for the separators that are there at least."""

    kind: str
    text: str = ""
    number: int = 0
    functions: tuple[TextFunction, ...] = ()
    """Functions applied to the text before the predicate, the last one first."""

    @property
    def is_equality(self) -> bool:
        """Whether it asks if the text itself is another one."""
        return self.kind == "equal" and not self.functions

    def after(self, function: TextFunction) -> TextPredicate:
        """The same question about the result of a function."""
        return replace(self, functions=(*self.functions, function))

    def holds(self, text: str) -> bool | None:  # noqa: PLR0911 - one case a kind
        """The answer for one text; None where the kind has none here."""
        if self.functions:
            return replace(self, functions=self.functions[:-1]).holds(self.functions[-1].of(text))
        match self.kind:
            case "matches":
                return matches_exactly(text, self.text)
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
                return text < self.text
            case "longer":
                return len(text) > self.number
        return None


class Combinations(Struct, frozen=True):
    """All combinations of answers that some text gives, each with a shortest such text."""

    samples: tuple[tuple[tuple[bool, ...], str], ...]


@lru_cache(maxsize=2048)
def combinations(predicates: tuple[TextPredicate, ...]) -> Combinations | None:
    """The combinations of answers of some predicates; None where that cannot be found out."""
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
    """Whether a predicate can be an automaton."""
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
    """The automaton of a question about the text itself."""
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
    """Texts before one in the order of code points: a proper beginning of it, or a smaller character somewhere."""
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

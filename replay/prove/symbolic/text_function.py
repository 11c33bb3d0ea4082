"""Functions from text to text, and the inverse: the automaton of the texts whose results another automaton accepts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct

from replay.go.regexp_tree import Ranges, complement
from replay.prove.symbolic.text_pattern import NFA

_ANY: Ranges = ((0, 0x10FFFF),)
_CASE = 32


class TextFunction(Struct, frozen=True):
    """Function by its kind.

    `lowerAscii` and `upperAscii` change case. `prepend` and `append` add `text`. `begin` and `drop` give the text
    before or from index `number`. `piece` gives the piece between separators (`text`, one character) at index `number`,
    negative from the end. A missing piece is the empty text. The caller must check first that it exists.
    """

    kind: str
    text: str = ""
    number: int = 0

    def apply(self, text: str) -> str:
        """Return the result for one text."""
        return _RESULTS[self.kind](self, text)

    def before(self, nfa: NFA) -> NFA:
        """Return the automaton of texts whose results an automaton accepts."""
        return _INVERSES[self.kind](self, nfa)


def _piece_of(function: TextFunction, text: str) -> str:
    pieces = text.split(function.text)
    return pieces[function.number] if -len(pieces) <= function.number < len(pieces) else ""


def _moved(text: str, first: str, step: int) -> str:
    last = chr(ord(first) + 25)
    return "".join(chr(ord(c) + step) if first <= c <= last else c for c in text)


def _copied(nfa: NFA, nfa_out: NFA, without: Ranges = ()) -> list[int]:
    """Copy the states of an automaton into another one, without the edges of some characters."""
    states = [nfa_out.state() for _ in range(nfa.count)]
    alphabet = complement(without) if without else _ANY
    for source, ranges, target in nfa.edges():
        nfa_out.edge(states[source], both(ranges, alphabet), states[target])
    return states


def both(one: Ranges, other: Ranges) -> Ranges:
    """Return the characters that are in both."""
    overlaps = ((max(a, c), min(b, d)) for a, b in one for c, d in other)
    return tuple((low, high) for low, high in overlaps if low <= high)


def _bits(states: int) -> Iterator[int]:
    while states:
        low = states & -states
        states ^= low
        yield low.bit_length() - 1


def _lettered(nfa: NFA, first: int, step: int) -> NFA:
    """Return an automaton that reads the 26 letters from `first` on as the letters `step` further."""
    nfa_out = NFA()
    states = [nfa_out.state() for _ in range(nfa.count)]
    letters: Ranges = ((first, first + 25),)
    for source, ranges, target in nfa.edges():
        moved = tuple((low - step, high - step) for low, high in ranges)
        nfa_out.edge(states[source], (*both(ranges, complement(letters)), *both(moved, letters)), states[target])
    nfa_out.start, nfa_out.accepting = nfa.start, nfa.accepting
    return nfa_out


def _begun(nfa: NFA, text: str) -> NFA:
    """Return an automaton that has already read a text."""
    nfa_out = NFA()
    _copied(nfa, nfa_out)
    nfa_out.start, nfa_out.accepting = nfa.start, nfa.accepting
    for character in text:
        nfa_out.start = nfa.step(nfa_out.start, ord(character))
    return nfa_out


def _with_suffix(nfa: NFA, text: str) -> NFA:
    """Return an automaton that accepts a text if its continuation by `text` is accepted."""
    nfa_out = NFA()
    _copied(nfa, nfa_out)
    nfa_out.start = nfa.start
    for state in range(nfa.count):
        states = 1 << state
        for character in text:
            states = nfa.step(states, ord(character))
        if states & nfa.accepting:
            nfa_out.accept(state)
    return nfa_out


def _begin(nfa: NFA, count: int) -> NFA:
    """Return an automaton that checks only the first characters."""
    nfa_out = NFA()
    states = [[nfa_out.state() for _ in range(nfa.count)] for _ in range(count + 1)]
    for index in range(count):
        for source, ranges, target in nfa.edges():
            nfa_out.edge(states[index][source], ranges, states[index + 1][target])
    for state in _bits(nfa.start):
        nfa_out.begin(states[0][state])
    for state in _bits(nfa.accepting):
        # A text may be shorter than the number of characters.
        for row in states:
            nfa_out.accept(row[state])
        nfa_out.edge(states[count][state], _ANY, states[count][state])
    return nfa_out


def _drop(nfa: NFA, count: int) -> NFA:
    """Return an automaton that skips the first characters."""
    nfa_out = NFA()
    states = _copied(nfa, nfa_out)
    for state in _bits(nfa.accepting):
        nfa_out.accept(states[state])
    starts = [nfa_out.state() for _ in range(count)]
    for index, state in enumerate(starts):
        following = starts[index + 1 : index + 2] or [states[each] for each in _bits(nfa.start)]
        for each in following:
            nfa_out.edge(state, _ANY, each)
        # A shorter text leaves the empty text.
        if nfa.start & nfa.accepting:
            nfa_out.accept(state)
    for state in starts[:1] or [states[each] for each in _bits(nfa.start)]:
        nfa_out.begin(state)
    return nfa_out


def _piece(nfa: NFA, separator: str, number: int) -> NFA:
    """Return an automaton that checks one piece and skips the others."""
    nfa_out, at = NFA(), ((ord(separator), ord(separator)),)
    states = _copied(nfa, nfa_out, without=at)
    accepting = [states[each] for each in _bits(nfa.accepting)]
    starting = [states[each] for each in _bits(nfa.start)]
    few = _pieces(nfa_out, at, number if number >= 0 else -number - 1)
    if number >= 0:
        _enter(nfa_out, few, at, starting)
        _leave(nfa_out, accepting, at)
    else:
        _enter_late(nfa_out, at, starting)
        _end(nfa_out, accepting, at, -number - 1)
    if nfa.start & nfa.accepting:  # a piece that is not there is empty
        for state in few:
            nfa_out.accept(state)
        for state in few[:1]:
            nfa_out.begin(state)
    return nfa_out


def _pieces(target: NFA, at: Ranges, count: int) -> list[int]:
    """Return states for so many successive pieces."""
    states = [target.state() for _ in range(count)]
    for index, state in enumerate(states):
        target.edge(state, complement(at), state)
        if index + 1 < count:
            target.edge(state, at, states[index + 1])
    return states


def _enter(target: NFA, ends: list[int], at: Ranges, starting: list[int]) -> None:
    """Connect the pieces before to the start states of a piece."""
    if not ends:
        for state in starting:
            target.begin(state)
        return
    target.begin(ends[0])
    for state in starting:
        target.edge(ends[-1], at, state)


def _leave(target: NFA, accepting: list[int], at: Ranges) -> None:
    """Accept anything after a piece."""
    rest = target.state()
    target.edge(rest, _ANY, rest)
    for state in (*accepting, rest):
        target.accept(state)
    for state in accepting:
        target.edge(state, at, rest)


def _enter_late(target: NFA, at: Ranges, starting: list[int]) -> None:
    """Enter a piece at the start of the text or after any separator."""
    start = target.state()
    target.begin(start)
    target.edge(start, _ANY, start)
    for state in starting:
        target.begin(state)
        target.edge(start, at, state)


def _end(target: NFA, accepting: list[int], at: Ranges, count: int) -> None:
    """Require exactly `count` further pieces after some states."""
    last = accepting
    for _ in range(count):
        following = target.state()
        target.edge(following, complement(at), following)
        for state in last:
            target.edge(state, at, following)
        last = [following]
    for state in last:
        target.accept(state)


_RESULTS: Mapping[str, Callable[[TextFunction, str], str]] = {
    "lowerAscii": lambda _, text: _moved(text, "A", _CASE),
    "upperAscii": lambda _, text: _moved(text, "a", -_CASE),
    "prepend": lambda function, text: function.text + text,
    "append": lambda function, text: text + function.text,
    "begin": lambda function, text: text[: function.number],
    "drop": lambda function, text: text[function.number :],
    "piece": _piece_of,
}
_INVERSES: Mapping[str, Callable[[TextFunction, NFA], NFA]] = {
    "lowerAscii": lambda _, nfa: _lettered(nfa, ord("A"), _CASE),
    "upperAscii": lambda _, nfa: _lettered(nfa, ord("a"), -_CASE),
    "prepend": lambda function, nfa: _begun(nfa, function.text),
    "append": lambda function, nfa: _with_suffix(nfa, function.text),
    "begin": lambda function, nfa: _begin(nfa, function.number),
    "drop": lambda function, nfa: _drop(nfa, function.number),
    "piece": lambda function, nfa: _piece(nfa, function.text, function.number),
}

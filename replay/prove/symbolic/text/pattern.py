"""Regular expressions as automata: the part of RE2's syntax that can be said without doubt.

What is not said here (flags, word boundaries, classes by name, ...) has no automaton, and nothing is concluded about it. Each
automaton is tried on texts against the matcher that decides, so that a misreading cannot stay.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from functools import lru_cache
from re import _constants as sre
from re import _parser as parser
from typing import Any, Self

from replay.cel.value.bounds import UndeterminedError
from replay.cel.value.regexp import matches
from replay.cel.value.values import EvalError
from replay.prove.search.text_sample import samples_of_pattern

Ranges = tuple[tuple[int, int], ...]
_LAST = 0x10FFFF
_ALL: Ranges = ((0, _LAST),)
_NOT_NEWLINE: Ranges = ((0, 9), (11, _LAST))
_CLASSES: dict[Any, Ranges] = {
    sre.CATEGORY_DIGIT: ((48, 57),),
    sre.CATEGORY_WORD: ((48, 57), (65, 90), (95, 95), (97, 122)),
    sre.CATEGORY_SPACE: ((9, 10), (12, 13), (32, 32)),
}
_NEGATED = {
    sre.CATEGORY_NOT_DIGIT: sre.CATEGORY_DIGIT,
    sre.CATEGORY_NOT_WORD: sre.CATEGORY_WORD,
    sre.CATEGORY_NOT_SPACE: sre.CATEGORY_SPACE,
}
_UNLIKE = (
    "(?",
    "[:",
    "\\Q",
    "\\b",
    "\\B",
    "\\A",
    "\\Z",
    "\\z",
    "\\C",
    "\\p",
    "\\P",
    "\\x{",
    "{,",
    "*+",
    "++",
    "?+",
    "}+",
)
"""What Python reads otherwise than Go, or not at all; `(?:` is taken out before it is looked for."""

_MOST_STATES = 2000


class _Unsayable(Exception):  # noqa: N818 - not an error: it ends the reading
    pass


class NFA:
    """States as bits of a number; `start` and `accepting` are sets of them."""

    __slots__ = ("_cache", "_count", "_edges", "accepting", "start")

    def __init__(self) -> None:
        """No state yet."""
        self._count = 0
        self._edges: list[list[tuple[Ranges, int]]] = []
        self._cache: dict[tuple[int, int], int] = {}
        self.start = 0
        self.accepting = 0

    def state(self) -> int:
        """A new state."""
        if self._count >= _MOST_STATES:
            raise _Unsayable
        self._edges.append([])
        self._count += 1
        return self._count - 1

    def begin(self, state: int) -> None:
        """Start in a state, too."""
        self.start |= 1 << state

    def accept(self, state: int) -> None:
        """A text may end in a state."""
        self.accepting |= 1 << state

    def edge(self, source: int, ranges: Ranges, target: int) -> None:
        """Some characters lead from one state to another."""
        self._edges[source].append((ranges, target))

    def finished(self) -> Self:
        """This one."""
        return self

    def ranges(self) -> list[tuple[int, int]]:
        """All ranges of characters on edges."""
        return [each for edges in self._edges for ranges, _ in edges for each in ranges]

    def step(self, states: int, letter: int) -> int:
        """Where a character leads from a set of states."""
        key = (states, letter)
        found = self._cache.get(key)
        if found is None:
            found, rest = 0, states
            while rest:
                low = rest & -rest
                rest ^= low
                for ranges, target in self._edges[low.bit_length() - 1]:
                    if any(first <= letter <= last for first, last in ranges):
                        found |= 1 << target
            self._cache[key] = found
        return found

    def accepts(self, text: str) -> bool:
        """Whether a text is in the set."""
        states = self.start
        for character in text:
            states = self.step(states, ord(character))
        return bool(states & self.accepting)

    @classmethod
    def of_sequence(cls, parts: Sequence[tuple[str, Ranges]]) -> NFA:
        """`one` character after another, or any number of them (`star`)."""
        nfa = cls()
        state = nfa.state()
        nfa.begin(state)
        for kind, ranges in parts:
            if kind == "star":
                nfa.edge(state, ranges, state)
                continue
            following = nfa.state()
            nfa.edge(state, ranges, following)
            state = following
        nfa.accept(state)
        return nfa


@lru_cache(maxsize=1024)
def nfa_of_pattern(pattern: str) -> NFA | None:
    """The texts in which a pattern is found; None where it cannot be said."""
    try:
        tree = _parsed(pattern)
        nfa = _Builder().build(tree)
    except (_Unsayable, re.error, RecursionError, OverflowError):
        return None
    return nfa if _agrees(pattern, nfa) else None


def _parsed(pattern: str) -> Any:
    if any(unlike in pattern.replace("(?:", "(") for unlike in _UNLIKE):
        raise _Unsayable
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return parser.parse(pattern)
        except Warning:
            raise _Unsayable from None


def _agrees(pattern: str, nfa: NFA) -> bool:
    """Whether the automaton answers as the matcher for texts around the pattern."""
    texts = {"", "a", "x", "\n", *samples_of_pattern(pattern, 12)}
    texts |= {text + end for text in tuple(texts) for end in ("x", "\n", "/")} | {"x" + text for text in texts}
    try:
        return all(matches(text, pattern) == nfa.accepts(text) for text in texts)
    except (EvalError, UndeterminedError):
        return False


_START, _END = "start", "end"


class _Builder:
    """Thompson's construction, with empty edges and places that only the beginning or the end of a text passes."""

    def __init__(self) -> None:
        self._nfa = NFA()
        self._empty: dict[int, list[tuple[int, str]]] = {}

    def build(self, tree: Any) -> NFA:
        """The automaton of texts in which the pattern is found: anything before it and after it."""
        nfa = self._nfa
        before, first = nfa.state(), nfa.state()
        last = self._sequence(tree, first)
        nfa.edge(before, _ALL, before)
        at_start = self._closure({before}, at_start=True, at_end=False)
        return self._without_empty(before, first, last, at_start)

    def _without_empty(self, before: int, first: int, last: int, _: set[int]) -> NFA:
        """The same without empty edges: what is reached at the start of a text, inside it, and at its end."""
        self._empty.setdefault(before, []).append((first, ""))
        nfa, made = self._nfa, NFA()
        count = len(nfa._edges)  # noqa: SLF001 - its own builder
        begin = [made.state() for _ in range(count + 2)]
        found, start = begin[count], begin[count + 1]
        made.edge(found, _ALL, found)
        made.accept(found)
        for state in range(count):
            self._copy(state, begin, made, last, found, at_start=False, source=begin[state])
        self._copy(before, begin, made, last, found, at_start=True, source=start)
        made.begin(start)
        return made

    def _copy(  # noqa: PLR0913 - what it depends on
        self, state: int, begin: list[int], made: NFA, last: int, found: int, *, at_start: bool, source: int
    ) -> None:
        inside = self._closure({state}, at_start=at_start, at_end=False)
        at_end = self._closure({state}, at_start=at_start, at_end=True)
        if last in inside:
            made.edge(source, _ALL, found)
        if last in at_end or last in inside:
            made.accept(source)
        for each in inside:
            for ranges, target in self._nfa._edges[each]:  # noqa: SLF001
                made.edge(source, ranges, begin[target])

    def _closure(self, states: set[int], *, at_start: bool, at_end: bool) -> set[int]:
        seen, stack = set(states), list(states)
        while stack:
            for target, where in self._empty.get(stack.pop(), ()):
                passes = not where or (where == _START and at_start) or (where == _END and at_end)
                if passes and target not in seen:
                    seen.add(target)
                    stack.append(target)
        return seen

    def _link(self, source: int, target: int, where: str = "") -> None:
        self._empty.setdefault(source, []).append((target, where))

    def _sequence(self, tree: Any, state: int) -> int:
        for kind, argument in tree:
            state = self._part(kind, argument, state)
        return state

    def _part(self, kind: Any, argument: Any, state: int) -> int:
        if kind is sre.AT:
            following = self._nfa.state()
            where = {sre.AT_BEGINNING: _START, sre.AT_END: _END}.get(argument)
            if where is None:
                raise _Unsayable
            self._link(state, following, where)
            return following
        if kind is sre.BRANCH:
            end = self._nfa.state()
            for branch in argument[1]:
                begin = self._nfa.state()
                self._link(state, begin)
                self._link(self._sequence(branch, begin), end)
            return end
        if kind is sre.SUBPATTERN:
            return self._sequence(argument[3], state)
        if kind in {sre.MAX_REPEAT, sre.MIN_REPEAT}:
            least, most, inner = argument
            return self._repeat(least, most, inner, state)
        following = self._nfa.state()
        self._nfa.edge(state, _characters(kind, argument), following)
        return following

    def _repeat(self, least: int, most: Any, inner: Any, state: int) -> int:
        for _ in range(least):
            state = self._sequence(inner, state)
        if most is sre.MAXREPEAT:
            loop, end = self._nfa.state(), self._nfa.state()
            self._link(state, loop)
            self._link(self._sequence(inner, loop), loop)
            self._link(loop, end)
            return end
        end = self._nfa.state()
        self._link(state, end)
        for _ in range(most - least):
            state = self._sequence(inner, state)
            self._link(state, end)
        return end


def _characters(kind: Any, argument: Any) -> Ranges:
    if kind is sre.LITERAL:
        return ((argument, argument),)
    if kind is sre.NOT_LITERAL:
        return _complement(((argument, argument),))
    if kind is sre.ANY:
        return _NOT_NEWLINE
    if kind is sre.IN:
        items = list(argument)
        is_negated = bool(items) and items[0][0] is sre.NEGATE
        ranges: list[tuple[int, int]] = []
        for item in items[1:] if is_negated else items:
            ranges += _member(*item)
        return _complement(tuple(ranges)) if is_negated else tuple(ranges)
    raise _Unsayable


def _member(kind: Any, argument: Any) -> Ranges:
    if kind is sre.LITERAL:
        return ((argument, argument),)
    if kind is sre.RANGE:
        return (tuple(argument),)
    if kind is sre.CATEGORY and argument in _CLASSES:
        return _CLASSES[argument]
    if kind is sre.CATEGORY and argument in _NEGATED:
        return _complement(_CLASSES[_NEGATED[argument]])
    raise _Unsayable


def _complement(ranges: Ranges) -> Ranges:
    found, at = [], 0
    for low, high in sorted(ranges):
        if low > at:
            found.append((at, low - 1))
        at = max(at, high + 1)
    if at <= _LAST:
        found.append((at, _LAST))
    return tuple(found)

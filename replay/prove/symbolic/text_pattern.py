"""Regular expressions as automata, from the parts of Go's parser (`replay.go.regexp_tree`).

Word boundaries, line anchors and Unicode classes have no automaton, and nothing is concluded about them. Each automaton
is tested against the real matcher on some texts, which reveals a wrong translation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from replay.cel.value.bounds import UndeterminedError
from replay.cel.value.regexp import matches
from replay.cel.value.values import EvalError
from replay.go.regexp import parts_of_pattern
from replay.go.regexp_tree import (
    LAST,
    Alternatives,
    Assertion,
    Characters,
    Concatenation,
    Ranges,
    RegexpError,
    RegexpPart,
    Repeated,
    UnlistedCharactersError,
    UnsupportedRegexpError,
)
from replay.prove.search.interest import samples_of_pattern

_ALL: Ranges = ((0, LAST),)
_MOST_STATES = 2000


class NotRegularError(Exception):
    """Set of texts without an automaton here."""


class NFA:
    """Automaton. States are bits of a number. `start` and `accepting` are sets of them."""

    __slots__ = ("_cache", "_count", "_edges", "accepting", "start")

    def __init__(self) -> None:
        """Start without states."""
        self._count = 0
        self._edges: list[list[tuple[Ranges, int]]] = []
        self._cache: dict[tuple[int, int], int] = {}
        self.start = 0
        self.accepting = 0

    def state(self) -> int:
        """Return a new state. Raises NotRegularError if there are too many."""
        if self._count >= _MOST_STATES:
            raise NotRegularError
        self._edges.append([])
        self._count += 1
        return self._count - 1

    def begin(self, state: int) -> None:
        """Add a start state."""
        self.start |= 1 << state

    def accept(self, state: int) -> None:
        """Add an accepting state."""
        self.accepting |= 1 << state

    def edge(self, source: int, ranges: Ranges, target: int) -> None:
        """Add an edge from one state to another for some characters."""
        self._edges[source].append((ranges, target))

    @property
    def count(self) -> int:
        """Number of states."""
        return self._count

    def edges(self) -> Iterator[tuple[int, Ranges, int]]:
        """Yield all edges: source, characters, target."""
        for source, edges in enumerate(self._edges):
            for ranges, target in edges:
                yield source, ranges, target

    def ranges(self) -> list[tuple[int, int]]:
        """Return all character ranges on edges."""
        return [each for edges in self._edges for ranges, _ in edges for each in ranges]

    def step(self, states: int, letter: int) -> int:
        """Return the states after a character."""
        key = (states, letter)
        reach = self._cache.get(key)
        if reach is None:
            reach, rest = 0, states
            while rest:
                # The lowest bit alone, so that the loop visits only the states that are set.
                low = rest & -rest
                rest ^= low
                for ranges, target in self._edges[low.bit_length() - 1]:
                    if any(first <= letter <= last for first, last in ranges):
                        reach |= 1 << target
            self._cache[key] = reach
        return reach

    def accepts(self, text: str) -> bool:
        """Return whether a text is in the set."""
        states = self.start
        for character in text:
            states = self.step(states, ord(character))
        return bool(states & self.accepting)

    @classmethod
    def of_sequence(cls, parts: Sequence[tuple[str, Ranges]]) -> NFA:
        """Return the automaton of a sequence: `one` is a character, `star` any number of them."""
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
    """Return the texts that a pattern matches, or None if an automaton cannot express it."""
    try:
        nfa = _Builder().build(parts_of_pattern(pattern))
    except (NotRegularError, UnlistedCharactersError, RegexpError, UnsupportedRegexpError, RecursionError):
        return None
    return nfa if _agrees(pattern, nfa) else None


def _agrees(pattern: str, nfa: NFA) -> bool:
    """Return whether the automaton agrees with the matcher on texts around the pattern."""
    texts = {"", "a", "x", "\n", *samples_of_pattern(pattern, 12)}
    texts |= {text + end for text in tuple(texts) for end in ("x", "\n", "/")} | {"x" + text for text in texts}
    try:
        return all(matches(text, pattern) == nfa.accepts(text) for text in texts)
    except (EvalError, UndeterminedError):
        return False


_START, _END = "start", "end"


class _Builder:
    """Thompson's construction, with empty edges that can be limited to the start or the end of a text."""

    def __init__(self) -> None:
        self._nfa = NFA()
        self._empty: dict[int, list[tuple[int, str]]] = {}

    def build(self, part: RegexpPart) -> NFA:
        """Return the automaton of texts that contain a match."""
        nfa = self._nfa
        prefix_state, first = nfa.state(), nfa.state()
        last = self._part(part, first)
        nfa.edge(prefix_state, _ALL, prefix_state)
        return self._without_empty(prefix_state, first, last)

    def _without_empty(self, initial: int, first: int, last: int) -> NFA:
        """Return the automaton without empty edges: at the start of a text, inside it, and at its end."""
        self._empty.setdefault(initial, []).append((first, ""))
        nfa, target = self._nfa, NFA()
        count = len(nfa._edges)  # noqa: SLF001 - its own builder
        begin = [target.state() for _ in range(count + 2)]
        accepting, start = begin[count], begin[count + 1]
        # Anything may follow a match, because patterns are searched in the text.
        target.edge(accepting, _ALL, accepting)
        target.accept(accepting)
        for state in range(count):
            self._copy(state, begin, target, last, accepting, at_start=False, source=begin[state])
        # Only this copy of the first state is at the start of a text.
        self._copy(initial, begin, target, last, accepting, at_start=True, source=start)
        target.begin(start)
        return target

    def _copy(  # noqa: PLR0913 - what it depends on
        self, state: int, begin: list[int], nfa_out: NFA, last: int, accepting: int, *, at_start: bool, source: int
    ) -> None:
        inside = self._closure({state}, at_start=at_start, at_end=False)
        at_end = self._closure({state}, at_start=at_start, at_end=True)
        if last in inside:
            nfa_out.edge(source, _ALL, accepting)
        if last in at_end or last in inside:
            nfa_out.accept(source)
        for each in inside:
            for ranges, target in self._nfa._edges[each]:  # noqa: SLF001
                nfa_out.edge(source, ranges, begin[target])

    def _closure(self, states: set[int], *, at_start: bool, at_end: bool) -> set[int]:
        closure, stack = set(states), list(states)
        while stack:
            for target, where in self._empty.get(stack.pop(), ()):
                passes = not where or (where == _START and at_start) or (where == _END and at_end)
                if passes and target not in closure:
                    closure.add(target)
                    stack.append(target)
        return closure

    def _link(self, source: int, target: int, where: str = "") -> None:
        self._empty.setdefault(source, []).append((target, where))

    def _part(self, part: RegexpPart, state: int) -> int:
        """Return the state after a part that begins in `state`."""
        match part:
            case Concatenation():
                for each in part.parts:
                    state = self._part(each, state)
                return state
            case Alternatives():
                end = self._nfa.state()
                for each in part.parts:
                    begin = self._nfa.state()
                    self._link(state, begin)
                    self._link(self._part(each, begin), end)
                return end
            case Repeated():
                return self._repeat(part, state)
        following = self._nfa.state()
        if isinstance(part, Characters):
            self._nfa.edge(state, part.ranges, following)
        else:
            self._link(state, following, _place(part))
        return following

    def _repeat(self, part: Repeated, state: int) -> int:
        for _ in range(part.least):
            state = self._part(part.part, state)
        end = self._nfa.state()
        if part.most is None:
            loop = self._nfa.state()
            self._link(state, loop)
            self._link(self._part(part.part, loop), loop)
            self._link(loop, end)
            return end
        self._link(state, end)
        for _ in range(part.most - part.least):
            state = self._part(part.part, state)
            self._link(state, end)
        return end


def _place(assertion: Assertion) -> str:
    """Return the position that an assertion requires. Raises NotRegularError for lines and words."""
    where = {r"\A": _START, r"\z": _END}.get(assertion.kind)
    if where is None:
        raise NotRegularError
    return where

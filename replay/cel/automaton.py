"""The grammar as an automaton, and what can come next in any of its states.

States and transitions are those that ANTLR would make of the grammar (`ATN`), as far as its parsers' behaviour depends on
them: one state before each element, block starts, loop entries and loop ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from typing import Final

from replay.cel.grammar import RULES, Alternative, Choice, Element, Invoke, Match, Optional, Plus, Rule, Star

EPSILON: Final = -2
"""Among the tokens that can come next: the end of the rule."""


class StateKind(Enum):
    """What a state is for; the reaction to a wrong token depends on it."""

    BASIC = "basic"
    BLOCK_START = "block start"
    LOOP_ENTRY = "loop entry"
    LOOP_BACK = "loop back"
    RULE_STOP = "rule stop"


@dataclass(slots=True)
class Transition:
    """A step to another state: by a token of `kinds`, through a whole rule, if precedence allows, or for free.

    At the end of a rule the free steps lead to the states after its invocations; `outermost` names the rule if it was invoked
    with the precedence 0.
    """

    target: int
    kinds: frozenset[int] | None = None
    follow: int = -1
    precedence: int = 0
    outermost: str = ""


@dataclass(slots=True)
class State:
    """A state of the automaton."""

    number: int
    rule: str
    kind: StateKind = StateKind.BASIC
    transitions: list[Transition] = field(default_factory=list)
    precedence_decision: bool = False


class Automaton:
    """All states of all rules."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        """Build the states and number the elements of the grammar with them."""
        self.states: list[State] = []
        self.rules = {rule.name: rule for rule in rules}
        self.stop_states = {}
        for rule in rules:
            rule.start_state = self._state(rule.name).number
            self.stop_states[rule.name] = self._state(rule.name, StateKind.RULE_STOP).number
        for rule in rules:
            self._build(rule)
        self._next_tokens: dict[int, frozenset[int]] = {}

    def next_tokens(self, state: int) -> frozenset[int]:
        """The kinds of tokens that can come next within the rule; `EPSILON` if the rule can end here."""
        known = self._next_tokens.get(state)
        if known is None:
            known = self._next_tokens[state] = frozenset(self._look(state))
        return known

    def _look(self, start: int) -> set[int]:
        found: set[int] = set()
        pending = [start]
        seen = {start}
        while pending:
            state = self.states[pending.pop()]
            if state.kind is StateKind.RULE_STOP:
                found.add(EPSILON)
                continue
            for transition in state.transitions:
                if transition.kinds is not None:
                    found |= transition.kinds
                elif transition.follow >= 0:
                    # No rule can be empty, so what follows it does not matter.
                    found |= self.next_tokens(transition.target)
                elif transition.target not in seen:
                    seen.add(transition.target)
                    pending.append(transition.target)
        return found

    def _state(self, rule: str, kind: StateKind = StateKind.BASIC) -> State:
        state = State(len(self.states), rule, kind)
        self.states.append(state)
        return state

    def _link(self, source: int, target: int) -> None:
        self.states[source].transitions.append(Transition(target))

    def _build(self, rule: Rule) -> None:
        first, last = self._sequence(rule.name, rule.body)
        self._link(rule.start_state, first)
        if rule.operators:
            entry, end = self._operators(rule)
            self._link(last, entry)
            last = end
        self._link(last, self.stop_states[rule.name])

    def _operators(self, rule: Rule) -> tuple[int, int]:
        """The repetition of a left-recursive rule: enter with an operator that binds strongly enough, or leave."""
        entry = self._state(rule.name, StateKind.LOOP_ENTRY)
        entry.precedence_decision = True
        choice = self._state(rule.name, StateKind.BLOCK_START)
        back = self._state(rule.name, StateKind.LOOP_BACK)
        end = self._state(rule.name)
        rule.entry_state, rule.choice_state, rule.loop_state = entry.number, choice.number, back.number
        self._link(entry.number, choice.number)
        self._link(entry.number, end.number)
        self._link(back.number, entry.number)
        for alternative in rule.operators:
            guard = self._state(rule.name)
            self._link(choice.number, guard.number)
            first, last = self._sequence(rule.name, alternative.body)
            guard.transitions.append(Transition(first, precedence=alternative.precedence))
            self._link(last, back.number)
        return entry.number, end.number

    def _sequence(self, rule: str, body: Iterable[Element]) -> tuple[int, int]:
        first = last = -1
        for element in body:
            start, end = self._element(rule, element)
            if last >= 0:
                self._link(last, start)
            else:
                first = start
            last = end
        return first, last

    def _element(self, rule: str, element: Element) -> tuple[int, int]:
        match element:
            case Match():
                start, end = self._state(rule), self._state(rule)
                start.transitions.append(Transition(end.number, element.kinds))
            case Invoke():
                start, end = self._state(rule), self._state(rule)
                self._invoke(start, end, element)
            case Optional():
                start, end = self._state(rule, StateKind.BLOCK_START), self._state(rule)
                self._branch(rule, start, end, element.body)
                self._link(start.number, end.number)
            case Choice():
                start, end = self._state(rule, StateKind.BLOCK_START), self._state(rule)
                for alternative in element.alternatives:
                    self._branch(rule, start, end, alternative.body)
            case Star():
                start, end = self._star(rule, element)
            case _:
                assert isinstance(element, Plus)
                start, end = self._plus(rule, element)
        element.state = start.number
        return start.number, end.number

    def _invoke(self, start: State, end: State, element: Invoke) -> None:
        target = self.rules[element.rule]
        start.transitions.append(Transition(target.start_state, follow=end.number))
        outermost = element.rule if target.operators and element.precedence == 0 else ""
        stop = self.states[self.stop_states[element.rule]]
        stop.transitions.append(Transition(end.number, outermost=outermost))

    def _branch(self, rule: str, start: State, end: State, body: tuple[Element, ...]) -> None:
        first, last = self._sequence(rule, body)
        self._link(start.number, first)
        self._link(last, end.number)

    def _star(self, rule: str, element: Star) -> tuple[State, State]:
        entry = self._state(rule, StateKind.LOOP_ENTRY)
        back, end = self._state(rule, StateKind.LOOP_BACK), self._state(rule)
        self._branch(rule, entry, back, element.body)
        self._link(entry.number, end.number)
        self._link(back.number, entry.number)
        element.loop_state = back.number
        return entry, end

    def _plus(self, rule: str, element: Plus) -> tuple[State, State]:
        start = self._state(rule, StateKind.BLOCK_START)
        back, end = self._state(rule, StateKind.LOOP_BACK), self._state(rule)
        self._branch(rule, start, back, element.body)
        self._link(back.number, start.number)
        self._link(back.number, end.number)
        element.loop_state = back.number
        return start, end


def first_state(alternative: Alternative) -> int:
    """The state before the first element of an alternative."""
    return alternative.body[0].state


@cache
def automaton() -> Automaton:
    """The automaton of CEL's grammar, built when an expression is first found wrong."""
    return Automaton(RULES)

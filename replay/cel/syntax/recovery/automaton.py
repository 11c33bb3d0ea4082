"""The grammar as an automaton, and the tokens that can come next in each of its states.

States and transitions are those that ANTLR would make of the grammar (`ATN`), as far as its parsers' behaviour depends
on them: one state before each element, block starts, loop entries and loop ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from functools import cache
from typing import Final

from msgspec import Struct, field

from replay.cel.syntax.recovery.grammar import (
    RULES,
    Choice,
    Element,
    GrammarRule,
    Invoke,
    OptionalBody,
    Plus,
    Star,
    TokenMatch,
    rules_without_escaped_names,
)

EPSILON: Final = -2
"""Stands for the end of the rule among the tokens that can come next."""


class StateKind(Enum):
    """The role of a state. The reaction to a wrong token depends on it."""

    BASIC = "basic"
    BLOCK_START = "block start"
    LOOP_ENTRY = "loop entry"
    LOOP_BACK = "loop back"
    RULE_STOP = "rule stop"


class Transition(Struct):
    """A step to another state: by a token of `kinds`, through a whole rule, if precedence allows it, or for free.

    At the end of a rule the free steps lead to the states after its invocations. `outermost` names the rule if it was
    invoked with precedence 0.
    """

    target: int
    kinds: frozenset[int] | None = None
    follow: int = -1
    precedence: int = 0
    outermost: str = ""


class AutomatonState(Struct):
    """A state of the automaton."""

    number: int
    rule: str
    kind: StateKind = StateKind.BASIC
    transitions: list[Transition] = field(default_factory=list)
    precedence_decision: bool = False


class Automaton:
    """All states of all rules."""

    def __init__(self, rules: Sequence[GrammarRule]) -> None:
        """Build the states, and store their numbers in the elements of the grammar."""
        self.states: list[AutomatonState] = []
        self.rules = {rule.name: rule for rule in rules}
        self.stop_states = {}
        for rule in rules:
            rule.start_state = self._state(rule.name).number
            self.stop_states[rule.name] = self._state(rule.name, StateKind.RULE_STOP).number
        for rule in rules:
            self._build(rule)
        self._next_tokens: dict[int, frozenset[int]] = {}

    def next_tokens(self, state: int) -> frozenset[int]:
        """Return the kinds of tokens that can come next within the rule, and `EPSILON` if the rule can end here."""
        kinds = self._next_tokens.get(state)
        if kinds is None:
            kinds = self._next_tokens[state] = frozenset(self._look(state))
        return kinds

    def _look(self, start: int) -> set[int]:
        kinds: set[int] = set()
        pending = [start]
        states = {start}
        while pending:
            state = self.states[pending.pop()]
            if state.kind is StateKind.RULE_STOP:
                kinds.add(EPSILON)
                continue
            for transition in state.transitions:
                if transition.kinds is not None:
                    kinds |= transition.kinds
                elif transition.follow >= 0:
                    # No rule can be empty, so what follows it does not matter.
                    kinds |= self.next_tokens(transition.target)
                elif transition.target not in states:
                    states.add(transition.target)
                    pending.append(transition.target)
        return kinds

    def _state(self, rule: str, kind: StateKind = StateKind.BASIC) -> AutomatonState:
        state = AutomatonState(len(self.states), rule, kind)
        self.states.append(state)
        return state

    def _link(self, source: int, target: int) -> None:
        self.states[source].transitions.append(Transition(target))

    def _build(self, rule: GrammarRule) -> None:
        last = self._state(rule.name).number
        self._link(last, self.stop_states[rule.name])
        if rule.operators:
            last = self._operators(rule, last)
        self._link(rule.start_state, self._sequence(rule.name, rule.body, last))

    def _operators(self, rule: GrammarRule, after: int) -> int:
        """Build the loop of a left-recursive rule: enter with an operator that binds strongly enough, or leave."""
        entry = self._state(rule.name, StateKind.LOOP_ENTRY)
        entry.precedence_decision = True
        choice = self._state(rule.name, StateKind.BLOCK_START)
        back = self._state(rule.name, StateKind.LOOP_BACK)
        rule.entry_state, rule.choice_state, rule.loop_state = entry.number, choice.number, back.number
        self._link(entry.number, choice.number)
        self._link(entry.number, after)
        self._link(back.number, entry.number)
        for alternative in rule.operators:
            guard = self._state(rule.name)
            self._link(choice.number, guard.number)
            first = self._sequence(rule.name, alternative.body, back.number)
            guard.transitions.append(Transition(first, precedence=alternative.precedence))
        return entry.number

    # Parts are built from the last to the first, so that each leads straight to the next one. Alternatives that end
    # with the same rule then return from it to the same state, and prediction sees that they are the same from there.

    def _sequence(self, rule: str, body: tuple[Element, ...], after: int) -> int:
        """Build a sequence that leads to a state, and return the state before it."""
        for element in reversed(body):
            after = self._element(rule, element, after)
        return after

    def _element(self, rule: str, element: Element, after: int) -> int:
        match element:
            case TokenMatch():
                start = self._state(rule)
                start.transitions.append(Transition(after, element.kinds))
            case Invoke():
                start = self._invoke(rule, element, after)
            case OptionalBody():
                start = self._state(rule, StateKind.BLOCK_START)
                end = self._join(rule, after)
                self._link(start.number, self._sequence(rule, element.body, end))
                self._link(start.number, end)
            case Choice():
                start = self._state(rule, StateKind.BLOCK_START)
                end = self._join(rule, after)
                for alternative in element.alternatives:
                    self._link(start.number, self._sequence(rule, alternative.body, end))
            case Star():
                start = self._star(rule, element, after)
            case _:
                assert isinstance(element, Plus)
                start = self._plus(rule, element, after)
        element.state = start.number
        return start.number

    def _join(self, rule: str, after: int) -> int:
        """Build the end of a block, where its alternatives meet."""
        end = self._state(rule)
        self._link(end.number, after)
        return end.number

    def _invoke(self, rule: str, element: Invoke, after: int) -> AutomatonState:
        start = self._state(rule)
        target = self.rules[element.rule]
        start.transitions.append(Transition(target.start_state, follow=after))
        outermost = element.rule if target.operators and element.precedence == 0 else ""
        stop = self.states[self.stop_states[element.rule]]
        stop.transitions.append(Transition(after, outermost=outermost))
        return start

    def _star(self, rule: str, element: Star, after: int) -> AutomatonState:
        entry = self._state(rule, StateKind.LOOP_ENTRY)
        back = self._state(rule, StateKind.LOOP_BACK)
        self._link(entry.number, self._sequence(rule, element.body, back.number))
        self._link(entry.number, self._join(rule, after))
        self._link(back.number, entry.number)
        element.loop_state = back.number
        return entry

    def _plus(self, rule: str, element: Plus, after: int) -> AutomatonState:
        start = self._state(rule, StateKind.BLOCK_START)
        back = self._state(rule, StateKind.LOOP_BACK)
        self._link(start.number, self._sequence(rule, element.body, back.number))
        self._link(back.number, start.number)
        self._link(back.number, self._join(rule, after))
        element.loop_state = back.number
        return start


@cache
def automaton(*, has_escaped_names: bool = True) -> Automaton:
    """Return the automaton of CEL's grammar, built for the first malformed expression.

    Without `has_escaped_names` it is the grammar of older releases, without names in backticks.
    """
    return Automaton(RULES if has_escaped_names else rules_without_escaped_names())

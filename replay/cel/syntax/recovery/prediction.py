"""Chooses alternatives with as much lookahead as needed: ALL(*), the algorithm of ANTLR's parsers.

All alternatives are followed at once. This is first done without the enclosing rules (SLL), and remembered per state
and token. If a conflict remains, it is done again with the enclosing rules (LL). If no alternative survives a token,
prediction fails at that token, which is why the server complains about positions far behind the decision.

See Parr, Harwell, Fisher: "Adaptive LL(*) Parsing" (2014). The details follow `ParserATNSimulator`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from msgspec import Struct, field

from replay.cel.syntax.lexer import EOF
from replay.cel.syntax.recovery.automaton import Automaton, AutomatonState, StateKind, Transition

NO_ALTERNATIVE: Final = 0

_MAX_CONTEXTS = 256
"""Maximum number of remembered contexts. Each may be as deep as an expression can be."""

RuleStack = tuple[int, ...]
"""States to return to when rules end, the innermost first."""


class Config(NamedTuple):
    """A possible position: the state, the alternative that led there, and the rules to return to.

    `outer` means that the rule of the decision has been left, and it is not known for which rule. `suppressed` means
    that it was left from where it had been entered anew, so that the precedence filter does not apply.
    """

    state: int
    alternative: int
    stack: RuleStack
    outer: bool = False
    suppressed: bool = False


Configs = frozenset[Config]


class NoViableAlternativeError(Exception):
    """No alternative survives the token `offset` places ahead."""

    def __init__(self, offset: int) -> None:
        """`offset` counts from the token at which the decision began."""
        super().__init__(offset)
        self.offset = offset


class _Remembered(Struct):
    """A set of configurations in SLL and what follows from it."""

    configs: Configs
    alternative: int = NO_ALTERNATIVE
    conflict: bool = False
    edges: dict[int, _Remembered | None] = field(default_factory=dict)


class Predictor:
    """Predictor for one automaton. Its results depend on nothing else and are remembered."""

    def __init__(self, automaton: Automaton) -> None:
        """Start with nothing remembered."""
        self._automaton = automaton
        self._states = automaton.states
        self._starts: dict[tuple[int, int], _Remembered] = {}
        self._predictions: dict[Configs, _Remembered] = {}
        self._starts_in_context: dict[tuple[int, int, RuleStack], _Remembered] = {}
        self._known_in_context: dict[Configs, _Remembered] = {}

    def predict(
        self, decision: int, look: Callable[[int], int], precedence: int, context: Callable[[], RuleStack]
    ) -> int:
        """Return the alternative at a decision, counted from 1.

        `look(n)` is the kind of the token `n` places ahead, from 0. Raises `NoViableAlternativeError`.
        """
        current = self._start(decision, precedence)
        offset = 0
        while True:
            token = look(offset)
            following = self._follow(current, token)
            if following is None:
                return self._finished(current.configs, offset)
            if following.conflict:
                return self._predict_in_context(decision, look, precedence, context())
            if following.alternative:
                return following.alternative
            current = following
            if token != EOF:
                offset += 1

    def _start(self, decision: int, precedence: int) -> _Remembered:
        is_precedence = self._states[decision].precedence_decision
        key = (decision, precedence if is_precedence else 0)
        start = self._starts.get(key)
        if start is None:
            # Elsewhere precedences are left to the parser, which has looked at them in the loop around.
            guard = precedence if is_precedence else None
            configs = self._closure_of_start(decision, (), full=False, precedence=guard)
            if is_precedence:
                configs = _precedence_filtered(configs)
            start = self._starts[key] = _Remembered(configs)
        return start

    def _follow(self, current: _Remembered, token: int) -> _Remembered | None:
        if token not in current.edges:
            reached = self._reach(current.configs, token, full=False)
            following = None
            if reached:
                # A name with many fields leads back to where it was: what follows then is known.
                following = self._predictions.get(reached)
                if following is None:
                    following = self._predictions[reached] = _Remembered(reached, _unique_alternative(reached))
                    following.conflict = not following.alternative and self._is_conflict(reached)
            current.edges[token] = following
        return current.edges[token]

    def _predict_in_context(
        self, decision: int, look: Callable[[int], int], precedence: int, context: RuleStack
    ) -> int:
        current = self._start_in_context(decision, precedence, context)
        offset = 0
        while True:
            token = look(offset)
            if token not in current.edges:
                reached = self._reach(current.configs, token, full=True)
                current.edges[token] = self._reached_in_context(reached) if reached else None
            following = current.edges[token]
            if following is None:
                return self._finished(current.configs, offset)
            if following.alternative:
                return following.alternative
            current = following
            if token != EOF:
                offset += 1

    def _reached_in_context(self, configs: Configs) -> _Remembered:
        reach = self._known_in_context.get(configs)
        if reach is None:
            alternative = _unique_alternative(configs) or _single_viable_alternative(configs)
            reach = self._known_in_context[configs] = _Remembered(configs, alternative)
        return reach

    def _start_in_context(self, decision: int, precedence: int, context: RuleStack) -> _Remembered:
        """Return the start with the enclosing rules, remembered because all elements of a long chain share them."""
        key = (decision, precedence, context)
        start = self._starts_in_context.get(key)
        if start is None:
            if len(self._starts_in_context) >= _MAX_CONTEXTS:
                self._starts_in_context.clear()
                self._known_in_context.clear()
            configs = self._closure_of_start(decision, context, full=True, precedence=precedence)
            start = self._starts_in_context[key] = _Remembered(configs)
        return start

    def _finished(self, configs: Configs, offset: int) -> int:
        """Return the first alternative with which the rule could have ended before the wrong token."""
        ended = [
            config.alternative
            for config in configs
            if config.outer or (not config.stack and self._states[config.state].kind is StateKind.RULE_STOP)
        ]
        if not ended:
            raise NoViableAlternativeError(offset)
        return min(ended)

    def _closure_of_start(self, decision: int, context: RuleStack, *, full: bool, precedence: int | None) -> Configs:
        state = self._states[decision]
        closure: set[Config] = set()
        for index, transition in enumerate(state.transitions):
            config = Config(transition.target, index + 1, context)
            self._close(config, closure, full=full, precedence=precedence, rule=state.rule)
        return frozenset(closure)

    def _reach(self, configs: Configs, token: int, *, full: bool) -> Configs:
        stopped: list[Config] = []
        moved: set[Config] = set()
        for config in configs:
            state = self._states[config.state]
            if state.kind is StateKind.RULE_STOP:
                if full or token == EOF:
                    stopped.append(config)
                continue
            for transition in state.transitions:
                if transition.kinds is not None and token in transition.kinds:
                    moved.add(config._replace(state=transition.target))
        if not stopped and token != EOF and _unique_alternative(moved):
            return frozenset(moved)
        reach: set[Config] = set()
        for config in moved:
            self._close(config, reach, full=full, eof_is_free=token == EOF)
        if token == EOF:
            reach = {config for config in reach if self._states[config.state].kind is StateKind.RULE_STOP}
        if stopped and (not full or not any(self._is_stop(config) for config in reach)):
            reach.update(stopped)
        return frozenset(reach)

    def _is_stop(self, config: Config) -> bool:
        return self._states[config.state].kind is StateKind.RULE_STOP

    def _close(  # noqa: PLR0913 - the settings of one closure
        self,
        start: Config,
        closure: set[Config],
        *,
        full: bool,
        precedence: int | None = None,
        rule: str = "",
        eof_is_free: bool = False,
    ) -> None:
        """Add all configurations that can be reached without a token.

        Precedences count only in a start state, and only until another rule is entered or the rule is left.
        """
        pending = [(start, precedence is not None)]
        configs_seen = set(pending)
        while pending:
            config, guarded = pending.pop()
            state = self._states[config.state]
            if state.kind is StateKind.RULE_STOP:
                following = self._leave(config, state, closure, full=full, rule=rule)
            else:
                following = self._advance(
                    config, state, closure, precedence if guarded else None, eof_is_free=eof_is_free
                )
            for successor in following:
                is_inside = state.kind is not StateKind.RULE_STOP and len(successor.stack) <= len(config.stack)
                item = (successor, guarded and is_inside)
                if item not in configs_seen:
                    configs_seen.add(item)
                    pending.append(item)

    def _leave(
        self, config: Config, state: AutomatonState, closure: set[Config], *, full: bool, rule: str
    ) -> list[Config]:
        """Return to where the rule was invoked, or in SLL, where that is not known, to all places that can invoke it."""
        if config.stack:
            return [config._replace(state=config.stack[0], stack=config.stack[1:])]
        if full or not state.transitions:
            closure.add(config)
            return []
        return [
            Config(
                transition.target,
                config.alternative,
                (),
                outer=True,
                suppressed=config.suppressed or bool(rule and transition.outermost == rule),
            )
            for transition in state.transitions
        ]

    def _advance(
        self, config: Config, state: AutomatonState, reach: set[Config], precedence: int | None, *, eof_is_free: bool
    ) -> list[Config]:
        following: list[Config] = []
        for index, transition in enumerate(state.transitions):
            if transition.kinds is not None:
                reach.add(config)
                if eof_is_free and EOF in transition.kinds:
                    following.append(config._replace(state=transition.target))
            elif transition.follow >= 0:
                stack = (transition.follow, *config.stack)
                following.append(config._replace(state=transition.target, stack=stack))
            elif self._is_closed(transition, precedence) or (index == 0 and self._is_redundant_entry(config, state)):
                continue
            else:
                following.append(config._replace(state=transition.target))
        return following

    @staticmethod
    def _is_closed(transition: Transition, precedence: int | None) -> bool:
        """Return whether an operator binds too weakly here."""
        return precedence is not None and 0 < transition.precedence < precedence

    def _is_redundant_entry(self, config: Config, state: AutomatonState) -> bool:
        """Return whether the operand on the right of an operator need not look for operators itself.

        The enclosing rule looks for the same ones. This only ever holds in rules that invoke themselves.
        """
        return state.precedence_decision and bool(config.stack) and self._states[config.stack[0]].rule == state.rule

    def _is_conflict(self, configs: Configs) -> bool:
        """Return whether SLL can no longer tell alternatives apart (`hasSLLConflictTerminatingPrediction`)."""
        if all(self._is_stop(config) for config in configs):
            return True
        if not any(len(alternatives) > 1 for alternatives in _alternatives_by_place(configs, full=False)):
            return False
        by_state: dict[int, set[int]] = defaultdict(set)
        for config in configs:
            by_state[config.state].add(config.alternative)
        return all(len(alternatives) > 1 for alternatives in by_state.values())


def _precedence_filtered(configs: Configs) -> Configs:
    """Drop ways of leaving the loop that lead to the same state as entering it (`applyPrecedenceFilter`)."""
    entered = {(config.state, config.stack) for config in configs if config.alternative == 1}
    return frozenset(
        config
        for config in configs
        if config.alternative == 1 or config.suppressed or (config.state, config.stack) not in entered
    )


def _unique_alternative(configs: Iterable[Config]) -> int:
    alternatives = {config.alternative for config in configs}
    return alternatives.pop() if len(alternatives) == 1 else NO_ALTERNATIVE


def _alternatives_by_place(configs: Configs, *, full: bool) -> list[set[int]]:
    """Return the sets of alternatives that are at the same state with the same stacks.

    ANTLR keeps the stacks of a state and an alternative in one graph, and compares whole graphs. In SLL the end of a
    stack stands for anything, so a stack that continues another one adds nothing to it.
    """
    stacks: dict[tuple[int, int], set[RuleStack]] = defaultdict(set)
    for config in configs:
        stacks[config.state, config.alternative].add(config.stack)
    places: dict[tuple[int, frozenset[RuleStack]], set[int]] = defaultdict(set)
    for (state, alternative), stacks_here in stacks.items():
        distinct = (
            stacks_here
            if full
            else {stack for stack in stacks_here if not any(stack[:end] in stacks_here for end in range(len(stack)))}
        )
        places[state, frozenset(distinct)].add(alternative)
    return list(places.values())


def _single_viable_alternative(configs: Configs) -> int:
    """Return the least alternative of every place, if it is the same everywhere."""
    least = {min(alternatives) for alternatives in _alternatives_by_place(configs, full=True)}
    return least.pop() if len(least) == 1 else NO_ALTERNATIVE

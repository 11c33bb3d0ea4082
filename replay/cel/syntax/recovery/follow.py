"""The tokens that can come next, given the enclosing rules: the recovering parser judges a token by these sets."""

from __future__ import annotations

from collections.abc import Iterator

from replay.cel.syntax.lexer import EOF
from replay.cel.syntax.recovery.automaton import EPSILON, Automaton
from replay.cel.syntax.recovery.prediction import RuleStack
from replay.cel.syntax.recovery.syntax_tree import Tree


def _after(automaton: Automaton, tree: Tree) -> int:
    """Return the state in which parsing continues after a rule."""
    return automaton.states[tree.invoking_state].transitions[0].follow


def _around(tree: Tree | None) -> Iterator[Tree]:
    """Yield the rules that were invoked by another rule, from the inside out."""
    while tree is not None and tree.invoking_state >= 0:
        yield tree
        tree = tree.parent


def expected(automaton: Automaton, state: int, tree: Tree | None) -> set[int]:
    """Return the kinds of tokens that can come next in a state and, if rules can end there, after the enclosing rules."""
    following = automaton.next_tokens(state)
    kinds = set(following)
    for rule in _around(tree):
        if EPSILON not in following:
            break
        following = automaton.next_tokens(_after(automaton, rule))
        kinds |= following
    if EPSILON in following:
        kinds.add(EOF)
    kinds.discard(EPSILON)
    return kinds


def recovery_set(automaton: Automaton, tree: Tree | None) -> set[int]:
    """Return the kinds of tokens with which some enclosing rule can continue."""
    kinds: set[int] = set()
    for rule in _around(tree):
        kinds |= automaton.next_tokens(_after(automaton, rule))
    kinds.discard(EPSILON)
    return kinds


def stack(automaton: Automaton, tree: Tree | None) -> RuleStack:
    """Return the states in which parsing continues after the enclosing rules, from the inside out."""
    return tuple([_after(automaton, rule) for rule in _around(tree)])

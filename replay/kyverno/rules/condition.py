"""Conditions of preconditions and of `deny` (`pkg/engine/variables/evaluate.go`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from replay.json import JSON
from replay.kyverno.rules.context import Context
from replay.kyverno.rules.errors import RuleError
from replay.kyverno.rules.go_value import as_map, join_non_empty, sprint
from replay.kyverno.rules.operator import operator_named
from replay.kyverno.rules.substitution import substitute


class Outcome(NamedTuple):
    """Result of conditions: whether they hold, and the messages of the conditions that decided."""

    holds: bool
    message: str


def evaluate_conditions(context: Context, conditions: JSON) -> Outcome:
    """Return whether conditions hold: a map with `any` and `all`, or a list as in old policies.

    Raises RuleError if a variable cannot be resolved.
    """
    if conditions is None:
        return Outcome(True, "")
    if isinstance(conditions, Mapping):
        return _any_and_all(context, conditions)
    messages: list[str] = []
    for condition in conditions:
        holds, message = _evaluate(context, condition)
        if not holds:
            return Outcome(False, message)
        messages.append(message)
    return Outcome(True, join_non_empty(messages, ";"))


def evaluate_all(context: Context, groups: Sequence[Mapping[str, Any]]) -> Outcome:
    """Return whether each of several groups with `any` and `all` holds."""
    messages: list[str] = []
    for group in groups:
        holds, message = _any_and_all(context, group)
        if not holds:
            return Outcome(False, message)
        messages.append(message)
    return Outcome(True, join_non_empty(messages, ";"))


def shown_conditions(context: Context, conditions: JSON, *, holding: bool) -> tuple[str, ...]:
    """Return the conditions that hold, or those that do not, with their values."""
    listed = [each for group in ("any", "all") for each in as_map(conditions).get(group) or ()]
    listed = listed if isinstance(conditions, Mapping) else list(conditions or ())
    told = []
    for each in listed:
        key, value = (substitute(context, each.get(part)) for part in ("key", "value"))
        if _evaluate(context, each).holds is holding:
            says = "holds" if holding else "does not hold"
            told.append(f"{each.get('key')} {each.get('operator')} {sprint(value)} {says}: the key is {sprint(key)}")
    return tuple(told)


def _any_and_all(context: Context, conditions: Mapping[str, Any]) -> Outcome:
    """Return whether one condition of `any` holds, unless there is no `any`, and each condition of `all`."""
    any_holds = all_holds = True
    met: list[str] = []
    unmet: list[str] = []
    if conditions.get("any") is not None:
        any_holds = False
        for condition in conditions["any"]:
            any_holds, message = _evaluate(context, condition)
            (met if any_holds else unmet).append(message)
            if any_holds:
                break
    for condition in conditions.get("all") or ():
        all_holds, message = _evaluate(context, condition)
        (met if all_holds else unmet).append(message)
        if not all_holds:
            break
    holds = any_holds and all_holds
    return Outcome(holds, join_non_empty(met if holds else unmet, "; "))


def _evaluate(context: Context, condition: Mapping[str, Any]) -> Outcome:
    try:
        key = substitute(context, condition.get("key"))
    except RuleError as error:
        raise RuleError(f"failed to substitute variables in condition key: {error}") from None
    try:
        value = substitute(context, condition.get("value"))
    except RuleError as error:
        raise RuleError(f"failed to substitute variables in condition value: {error}") from None
    operator = operator_named(str(condition.get("operator") or ""))
    if operator is None:
        # Go prints so the missing error that Kyverno wraps here.
        raise RuleError("failed to create handler for condition operator: %!w(<nil>)")
    return Outcome(operator(key, value), str(condition.get("message") or ""))

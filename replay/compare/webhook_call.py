"""Webhook calls that a candidate adds or removes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from replay.admission.decision import Decision, WebhookCall
from replay.manifests.static_rule import without_suffix

NEWLY_CALLED = "newly called"
NO_LONGER_CALLED = "no longer called"
CALLED_BY_BOTH = "called as before"
NOT_ASKED = "not asked"
FAILED = "failed"


class CallChange(NamedTuple):
    """Key of calls that are alike: one webhook and one kind of answer (`not asked`, or its first word)."""

    change: str
    phase: str
    configuration: str
    webhook: str
    failure_policy: str
    timeout_seconds: int
    side_effects: str
    answer: str


def call_changes(current: Decision, candidate: Decision) -> Iterator[CallChange]:
    """Yield every webhook that either set calls for a request, once."""
    current_calls = {_identity(call): call for call in current.webhooks}
    after = {_identity(call): call for call in candidate.webhooks}
    for identity, call in after.items():
        yield _change(CALLED_BY_BOTH if identity in current_calls else NEWLY_CALLED, call)
    for identity, call in current_calls.items():
        if identity not in after:
            yield _change(NO_LONGER_CALLED, call)


def failed_calls(decision: Decision) -> Iterator[tuple[str, str]]:
    """Yield `(webhook, error)` of each call that failed."""
    for call in decision.webhooks:
        kind, _, text = call.answer.partition(": ")
        if kind == FAILED:
            yield call.webhook, text


def failed_webhooks(decision: Decision) -> Iterator[tuple[str, str]]:
    """Yield name and failure policy of each webhook with a failed call, once."""
    failed = (call for call in decision.webhooks if call.answer.startswith(f"{FAILED}: "))
    yield from dict.fromkeys((call.webhook, call.failure_policy) for call in failed)


def _identity(call: WebhookCall) -> tuple[str, str, str]:
    return call.phase, without_suffix(call.configuration), call.webhook


def _change(change: str, call: WebhookCall) -> CallChange:
    return CallChange(
        change=change,
        phase=call.phase,
        configuration=call.configuration,
        webhook=call.webhook,
        failure_policy=call.failure_policy,
        timeout_seconds=call.timeout_seconds,
        side_effects=call.side_effects,
        answer=call.answer.partition(": ")[0] or NOT_ASKED,
    )

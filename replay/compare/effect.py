"""What differs between the sets besides verdicts: mutations with their effect on validation, and the webhooks that are called."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from replay.admission.decision import Decision, WebhookCall
from replay.compare.outcome import Outcome, OutcomeKind
from replay.json import JSON
from replay.manifests.static_rule import without_suffix

CAUSED = "caused"
HEALED = "healed"


class MutationConsequence(NamedTuple):
    """Requests that are denied, or no longer denied, because of a mutation.

    `effect` is `caused` or `healed`. `mutators` are the policies whose mutation differs from the baseline's. `policy`
    is the denying policy. `follows` marks consequences, as in `CellKey`.
    """

    effect: str
    outcome: OutcomeKind
    mutators: tuple[str, ...]
    policy: str
    follows: bool = False


def chains(outcome: Outcome) -> Iterator[tuple[MutationConsequence, str]]:
    """Yield the chains of one request, one for each denying policy, with the message of its denial."""
    candidate = outcome.candidate
    mutators = tuple(policy for policy, _ in mutation_causes(outcome.current, candidate))
    for effect, denials in ((CAUSED, candidate.caused_by_mutation), (HEALED, candidate.healed_by_mutation)):
        # Built in reverse, so that the first denial of each policy stays.
        messages = {denial.policy: denial.message for denial in reversed(denials)}
        for policy, message in messages.items():
            yield MutationConsequence(effect, outcome.outcome, mutators, policy), message


def mutation_causes(current: Decision, candidate: Decision) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return `(policy, patch shape)` of each mutation that differs between the sets, in the server's order."""
    entries = [entry for entry in candidate.mutated if entry not in current.mutated]
    entries += [entry for entry in current.mutated if entry not in candidate.mutated]
    shapes: dict[str, dict[str, None]] = {}
    for entry in entries or candidate.mutated:
        shapes.setdefault(entry.policy, {}).update(dict.fromkeys(patch_shape(entry.patch)))
    return tuple([(policy, tuple(shape)) for policy, shape in shapes.items()])


def patch_shape(patch: Iterable[JSON]) -> tuple[str, ...]:
    """Return a patch without its values. List indices are `*`, and each operation occurs once."""
    lines = []
    for operation in patch:
        parts = str(operation.get("path", "")).split("/")
        path = "/".join(["*" if part.isdigit() or part == "-" else part for part in parts])
        lines.append(f"{operation.get('op')} {path}")
    return tuple(dict.fromkeys(lines))


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

"""What a mutation does to validation: a denial that it causes, or one that it heals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from replay.admission.decision import Decision, Denial
from replay.compare.outcome import Outcome, OutcomeKind
from replay.kube.attributes import JSON

CAUSED = "caused"
HEALED = "healed"


class Chain(NamedTuple):
    """Requests that meet a denial, or escape it, because of a mutation.

    `effect` is `caused` or `healed`; `mutators` are the policies that mutate otherwise than in the set in force, `policy` is
    the one that denies or would deny.
    """

    effect: str
    outcome: OutcomeKind
    mutators: tuple[str, ...]
    policy: str


def with_mutation_effects(mutated: Decision, plain: Decision) -> Decision:
    """The decision of a set that mutates, compared with what its validating policies say of the object as recorded.

    Where either is undetermined about a policy, nothing is said of it, nor of webhooks: what those would say of another
    object is not known.
    """
    webhooks = {(each.configuration, each.webhook) for each in mutated.webhooks}
    caused = tuple(each for each in _without(mutated.denials, plain) if (each.policy, each.binding) not in webhooks)
    healed = _without(plain.denials, mutated)
    if not caused and not healed:
        return mutated
    return replace(mutated, caused_by_mutation=caused, healed_by_mutation=healed)


def chains(outcome: Outcome) -> Iterator[tuple[Chain, str]]:
    """The chains of one request, each with the message of the denial; each policy once."""
    candidate = outcome.candidate
    if not candidate.caused_by_mutation and not candidate.healed_by_mutation:
        return
    mutators = tuple(policy for policy, _ in mutation_causes(outcome.current, candidate))
    for effect, denials in ((CAUSED, candidate.caused_by_mutation), (HEALED, candidate.healed_by_mutation)):
        messages = {denial.policy: denial.message for denial in reversed(denials)}
        for policy, message in messages.items():
            yield Chain(effect, outcome.outcome, mutators, policy), message


def mutation_causes(current: Decision, candidate: Decision) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """`(policy, patch shape)` of each that mutates otherwise in one set than in the other, in the server's order."""
    entries = [entry for entry in candidate.mutated if entry not in current.mutated]
    entries += [entry for entry in current.mutated if entry not in candidate.mutated]
    found: dict[str, dict[str, None]] = {}
    for entry in entries or candidate.mutated:
        found.setdefault(entry.policy, {}).update(dict.fromkeys(patch_shape(entry.patch)))
    return tuple((policy, tuple(shape)) for policy, shape in found.items())


def patch_shape(patch: Iterable[JSON]) -> tuple[str, ...]:
    """A patch without its values, list indices as `*`, each operation once and in order of appearance."""
    lines = []
    for operation in patch:
        path = "/".join(
            "*" if part.isdigit() or part == "-" else part for part in str(operation.get("path", "")).split("/")
        )
        lines.append(f"{operation.get('op')} {path}")
    return tuple(dict.fromkeys(lines))


def _without(denials: Iterable[Denial], other: Decision) -> tuple[Denial, ...]:
    """The denials whose policy certainly does not deny in the other decision."""
    there = {(each.policy, each.binding) for each in other.denials}
    there |= {(each.policy, each.binding) for each in other.undetermined}
    return tuple(each for each in denials if (each.policy, each.binding) not in there)

"""Mutations that differ between the sets, and their effect on validation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from replay.admission.decision import Decision
from replay.compare.outcome import Outcome, OutcomeKind
from replay.json import JSON

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
    if not candidate.caused_by_mutation and not candidate.healed_by_mutation:
        return
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
    return tuple((policy, tuple(shape)) for policy, shape in shapes.items())


def patch_shape(patch: Iterable[JSON]) -> tuple[str, ...]:
    """Return a patch without its values. List indices are `*`, and each operation occurs once."""
    lines = []
    for operation in patch:
        parts = str(operation.get("path", "")).split("/")
        path = "/".join(["*" if part.isdigit() or part == "-" else part for part in parts])
        lines.append(f"{operation.get('op')} {path}")
    return tuple(dict.fromkeys(lines))

"""Effect of a mutation on validation: a denial that it causes or prevents."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from replay.admission.decision import Decision, Denial


def with_mutation_effects(mutated: Decision, plain: Decision) -> Decision:
    """Compare the decision about a mutated object with the decision about the recorded one.

    A policy that is undetermined in either is left out.
    """
    caused, healed = _without(mutated.denials, plain), _without(plain.denials, mutated)
    return replace(mutated, caused_by_mutation=caused, healed_by_mutation=healed) if caused or healed else mutated


def _without(denials: Iterable[Denial], other: Decision) -> tuple[Denial, ...]:
    """The denials whose policy certainly does not deny in the other decision."""
    there = {(each.policy, each.binding) for each in other.denials}
    there |= {(each.policy, each.binding) for each in other.undetermined}
    return tuple(each for each in denials if (each.policy, each.binding) not in there)

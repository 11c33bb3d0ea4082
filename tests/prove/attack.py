"""Many claims about edits of one policy attacked at once: each random request is decided for all of them together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from replay.kube.discovery import Discovery, builtin_discovery
from replay.prove.claim import Comparison
from replay.prove.context import context_of
from replay.prove.prover import Prover
from replay.prove.request import SymbolicRequest
from replay.prove.search.hunt import DecidedRequest, decided
from replay.prove.unit import BoundPolicy

_MOST_ROUNDS = 8


@dataclass(frozen=True, slots=True)
class Claimed:
    """What is claimed of an edit of a policy."""

    name: str
    candidate: BoundPolicy
    result: Comparison


@dataclass(frozen=True, slots=True)
class Refuted:
    """A claim, and a request that shows it to be wrong."""

    claim: Claimed
    request: SymbolicRequest


def attacked(
    prover: Prover, original: BoundPolicy, claims: Sequence[Claimed], count: int, seed: str
) -> tuple[int, list[Refuted]]:
    """How many requests were decided for all claims, about `count`, and the claims that one of them refutes."""
    refuted: dict[str, Refuted] = {}
    tried = 0
    for request, levels in _requests(prover, original, claims, count, seed):
        tried += 1
        current = levels[0]
        for claim, candidate in zip(claims, levels[1:], strict=True):
            if current is None or candidate is None or current == candidate or claim.name in refuted:
                continue
            excluded = {Comparison.SAME, Comparison.LOOSER if candidate > current else Comparison.STRICTER}
            if claim.result in excluded:
                refuted[claim.name] = Refuted(claim, request)
    return tried, list(refuted.values())


def _requests(
    prover: Prover,
    original: BoundPolicy,
    claims: Sequence[Claimed],
    count: int,
    seed: str,
    discovery: Discovery | None = None,
) -> Iterator[DecidedRequest]:
    units = [original, *(claim.candidate for claim in claims)]
    context = context_of(
        units, [(unit,) for unit in units], discovery or builtin_discovery(), prover.skeletons, prover.settings.version
    )
    left = count
    for index in range(_MOST_ROUNDS):
        for found in decided(context, left, f"{seed} {index}"):
            yield found
            left -= 1
        if left <= 0:
            return

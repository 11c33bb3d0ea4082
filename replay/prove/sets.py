"""Proofs about two whole sets: each policy that changed, and those of other kinds that are only named."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from replay.kube.admissionregistration import ManifestSet
from replay.prove.claim import Proof, Result
from replay.prove.mutating.proof import prove_mutating
from replay.prove.prover import Prover
from replay.prove.unit import KIND, pairs_of

MUTATING_KIND = "MutatingAdmissionPolicy"


@dataclass(frozen=True, slots=True)
class PolicyProof:
    """The claim about one policy; `new_name` is set where it has another name in the candidate."""

    kind: str
    name: str
    proof: Proof
    new_name: str = ""
    is_added: bool = False
    is_removed: bool = False
    is_changed: bool = True


def prove_sets(prover: Prover, current: ManifestSet, candidate: ManifestSet) -> Iterator[PolicyProof]:
    """A claim for each validating policy, and for each mutating one that changed, by kind and name."""
    for pair in pairs_of(current, candidate):
        if pair.current == pair.candidate:
            yield PolicyProof(KIND, pair.name, Proof(Result.SAME), is_changed=False)
            continue
        proof = prover.prove(pair)
        yield PolicyProof(
            KIND, pair.name, proof, pair.new_name, is_added=pair.current is None, is_removed=pair.candidate is None
        )
    yield from (PolicyProof(MUTATING_KIND, *each) for each in prove_mutating(prover, current, candidate))

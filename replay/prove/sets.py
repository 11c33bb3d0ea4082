"""Proofs about two sets: each changed policy, and for each kind what all policies decide together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from replay.cellib.version import KubernetesVersion
from replay.kube.admissionregistration import ManifestSet
from replay.kube.gvk import GroupVersionKind
from replay.prove.claim import Comparison, Proof
from replay.prove.context import kinds_of
from replay.prove.mutating import prove_mutating
from replay.prove.prover import Prover, proving
from replay.prove.unit import KIND, PolicyPair, pairs_of

MUTATING_KIND = "MutatingAdmissionPolicy"
_MOST_KINDS = 20


class PolicyProof(Struct, frozen=True):
    """Claim about one policy. `new_name` is set if it has another name in the candidate."""

    kind: str
    name: str
    proof: Proof
    new_name: str = ""
    is_added: bool = False
    is_removed: bool = False
    is_changed: bool = True


class KindProof(Struct, frozen=True):
    """Claim about the requests of one kind, decided by all validating policies of a set together."""

    kind: GroupVersionKind
    proof: Proof


class SetProof(Struct, frozen=True):
    """Claims about two sets: policy by policy, and by kind for kinds that a changed policy matches."""

    policies: tuple[PolicyProof, ...]
    kinds: tuple[KindProof, ...]


def prove_sets(current: ManifestSet, candidate: ManifestSet, version: KubernetesVersion) -> SetProof:
    """Return all claims about two sets."""
    with proving(version) as prover:
        policies = tuple(prove_policies(prover, current, candidate))
        return SetProof(policies, tuple(prove_kinds(prover, current, candidate, policies)))


def prove_policies(prover: Prover, current: ManifestSet, candidate: ManifestSet) -> Iterator[PolicyProof]:
    """Yield a claim for each validating policy, and for each changed mutating policy, by kind and name."""
    for pair in pairs_of(current, candidate):
        if not pair.is_changed:
            yield PolicyProof(KIND, pair.name, Proof(Comparison.SAME), is_changed=False)
            continue
        proof = prover.prove(pair)
        yield PolicyProof(
            KIND, pair.name, proof, pair.new_name, is_added=pair.current is None, is_removed=pair.candidate is None
        )
    yield from (PolicyProof(MUTATING_KIND, *each) for each in prove_mutating(prover, current, candidate))


def prove_kinds(
    prover: Prover, current: ManifestSet, candidate: ManifestSet, proofs: Sequence[PolicyProof]
) -> Iterator[KindProof]:
    """Yield a claim for each kind that a changed validating policy matches. `proofs` are the claims about the policies.

    For more than `_MOST_KINDS` kinds no formulas are built. Requests and the claims about policies must suffice.
    """
    pairs = pairs_of(current, candidate)
    proofs_by_name = {each.name: each.proof for each in proofs if each.kind == KIND}
    kinds_by_name = {pair.name: kinds_of(pair.sides.units, prover.discovery) for pair in pairs}
    kinds = dict.fromkeys(kind for pair in pairs if pair.is_changed for kind in kinds_by_name[pair.name])
    for kind in kinds:
        here = [pair for pair in pairs if kind in kinds_by_name[pair.name]]
        sides = PolicyPair(
            f"{kind.kind} {kind.group}",
            tuple(pair.current for pair in here if pair.current is not None),
            tuple(pair.candidate for pair in here if pair.candidate is not None),
            kind,
        )
        claims = [proofs_by_name[pair.name] for pair in here if pair.is_changed]
        yield KindProof(kind, prover.prove_sides(sides, claims, by_trying=len(kinds) > _MOST_KINDS))

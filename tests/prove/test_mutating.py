"""Claims about mutating policies."""

from __future__ import annotations

from msgspec.structs import replace

from replay.kube.admissionregistration import (
    ManifestSet,
    MatchResources,
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding,
    Mutation,
)
from replay.prove.claim import Comparison
from replay.prove.prover import Prover, Settings
from replay.prove.sets import prove_mutating
from tests.prove.policies import DEPLOYMENTS

TEAM = "Object{metadata: Object.metadata{labels: {'team': 'a'}}}"


def _set(expression: str) -> ManifestSet:
    policy = MutatingAdmissionPolicy(
        name="team.static.k8s.io",
        static=True,
        match_constraints=MatchResources(resource_rules=(replace(DEPLOYMENTS, operations=("CREATE",)),)),
        mutations=(Mutation("ApplyConfiguration", expression),),
    )
    binding = MutatingAdmissionPolicyBinding(name="team.static.k8s.io", static=True, policy_name=policy.name)
    return ManifestSet((policy, binding))


def _result(one: str, other: str) -> tuple[Comparison, bool]:
    prover = Prover(Settings(tries=60, attacks=60))
    [(_, proof)] = prove_mutating(prover, _set(one), _set(other))
    return proof.result, bool(proof.witnesses and proof.witnesses[0].patches)


def test_another_patch_is_shown() -> None:
    assert _result(TEAM, TEAM.replace("'a'", "'b'")) == (Comparison.BOTH, True)


def test_the_same_program_makes_the_same_patch() -> None:
    one = f"has(object.metadata.labels) && has(object.spec) ? Object{{}} : {TEAM}"
    other = f"has(object.spec) && has(object.metadata.labels) ? Object{{}} : {TEAM}"
    assert _result(one, other) == (Comparison.SAME, False)


def test_what_trying_does_not_show_is_not_known() -> None:
    assert _result(TEAM, TEAM.replace("'a'", "'' + 'a'")) == (Comparison.UNKNOWN, False)

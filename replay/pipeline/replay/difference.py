"""Comparison of a candidate with an earlier one that differs from it only in validating policies.

The differing policies are evaluated first, and alone.

INVARIANT: if the differing policies decide alike, so do both candidates. Denials, warnings and annotations of one
policy depend on no other one, and the order of the others is the same. An undetermined decision never counts as alike,
because it decides which failures of others are certain.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

from msgspec import Struct

from replay.admission.alike import AlikeResults
from replay.admission.chain import Chain
from replay.admission.decision import Decision
from replay.admission.effects import ADMITTED, UNCHANGED, Admitted
from replay.admission.validating.plugin import ValidatingAdmission
from replay.cellib.version import KubernetesVersion
from replay.kube.admissionregistration import ManifestSet, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding
from replay.kube.attributes import Attributes, Missing
from replay.kube.lister import Lister
from replay.pipeline.replay.kept_input import KeptRequest
from replay.pipeline.replay.request_key import RequestKeys
from replay.reconstruct.cluster import Cluster
from replay.world.decide import MutatedRequest, decide_again

MOST_KEYS = 32768
"""Number of requests whose comparison is remembered."""
_Name = tuple[str, bool]
"""The name of a policy, and whether it is static."""


class Difference(Struct, frozen=True):
    """Two candidates beside the baseline.

    `differing_policies` has only the differing policies: none, those of the earlier candidate, those of the later one. `all_policies`
    has the baseline and both candidates. `is_in_order` says that both candidates have policies of the same names in the
    same order.
    """

    differing_policies: Chain
    all_policies: Chain
    is_in_order: bool
    keys: RequestKeys
    known: AlikeResults[bool]
    """Whether both candidates decide alike, by key."""

    def decisions(self, mutated: MutatedRequest, lister: Lister) -> list[Decision]:
        """Return the decisions of the baseline, the earlier candidate and the later one about a request."""
        admitted = [(current, candidate, candidate) for current, candidate in mutated.admitted]
        return decide_again(self.all_policies, MutatedRequest(mutated.request, admitted), lister)

    def is_alike(self, kept: KeptRequest, cluster: Cluster) -> bool:
        """Return whether both candidates certainly decide a request alike. Raise `msgspec.MsgspecError` as its parts do."""
        key = self.keys.key(kept, cluster)
        if key is None:
            return self._decides_alike(kept.mutated, cluster.at(kept.mutated.request.record))
        alike = self.known.get(key)
        if alike is None:
            alike = self._decides_alike(kept.mutated, cluster.at(kept.mutated.request.record))
            self.known.remember(key, alike)
        return alike

    def _decides_alike(self, mutated: MutatedRequest, lister: Lister) -> bool:
        questions = zip(mutated.admitted, mutated.request.questions, strict=True)
        return all(self._is_alike(admitted, *question, lister) for admitted, question in questions)

    def _is_alike(
        self,
        admitted: Sequence[Admitted],
        original: Attributes | Missing,
        attributes: Attributes,
        lister: Lister,
    ) -> bool:
        current, candidate = admitted
        # A refused request does not reach the validating policies.
        if candidate.is_refused:
            return True
        own = _object_alone(candidate)
        _, earlier, later = self.differing_policies.decide_again(
            (_object_alone(current), own, own), original, attributes, lister
        )
        if earlier is ADMITTED:
            return later is ADMITTED
        return self.is_in_order and earlier == later and not earlier.undetermined


def _object_alone(admitted: Admitted) -> Admitted:
    """Return the result of the mutating phase, without its effects."""
    return Admitted(carried=admitted.carried) if admitted.carried != () else UNCHANGED


def difference_of(
    current: ManifestSet,
    earlier: ManifestSet,
    candidate: ManifestSet,
    chain_of: Callable[[Sequence[ManifestSet]], Chain],
    version: KubernetesVersion,
) -> Difference:
    """Return two candidates beside the baseline. `chain_of` compiles sets, `version` is the candidates' server."""
    before, after = _policies(earlier), _policies(candidate)
    differing = {name for name in {**before, **after} if before.get(name) != after.get(name)}
    alone = [
        _only(manifests, names) for manifests, names in ((current, set()), (earlier, differing), (candidate, differing))
    ]
    chain = chain_of(alone)
    is_laid_over = any(each.objects or each.removed for each in alone)
    policies = None if is_laid_over else ValidatingAdmission(alone, version, chain.context.discovery)
    return Difference(
        chain,
        chain_of((current, earlier, candidate)),
        list(before) == list(after),
        RequestKeys(policies),
        AlikeResults(MOST_KEYS),
    )


def _policies(manifests: ManifestSet) -> dict[_Name, tuple[object, ...]]:
    """The validating policies of a set in their order, each with its bindings."""
    return {
        (policy.name, policy.static): (policy, *(each for each in bindings if each.static is policy.static))
        for policy, bindings in manifests.bound_policies(ValidatingAdmissionPolicy)
    }


def _only(manifests: ManifestSet, names: Container[_Name]) -> ManifestSet:
    """Return a set with nothing but some validating policies. Its objects are the parameters of policies."""
    policies = (each for each in manifests.of(ValidatingAdmissionPolicy) if (each.name, each.static) in names)
    bindings = manifests.of(ValidatingAdmissionPolicyBinding)
    bound = (each for each in bindings if (each.policy_name, each.static) in names)
    return ManifestSet((*policies, *bound), objects=manifests.objects, removed=manifests.removed)

"""Comparison of a candidate with an earlier one that differs from it only in validating policies.

The differing policies are evaluated first, and alone.

INVARIANT: if the differing policies decide alike, so do both candidates. Denials, warnings and annotations of one
policy depend on no other one, and the order of the others is the same. An undetermined decision never counts as alike,
because it decides which failures of others are certain.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

from msgspec import Struct

from replay.admission.admitted import UNCHANGED, Admitted
from replay.admission.chain import Chain
from replay.admission.decision import Decision
from replay.admission.effects import ADMITTED
from replay.kube.admissionregistration import ManifestSet, ValidatingAdmissionPolicyBinding
from replay.kube.attributes import Attributes, Missing
from replay.kube.lister import Lister
from replay.world.decide import MutatedRequest, decide_again

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

    def decisions(self, mutated: MutatedRequest, lister: Lister) -> list[Decision] | None:
        """Return the decisions of the baseline, the earlier candidate and the later one about a request.

        None if both candidates decide alike.
        """
        if self.is_alike(mutated, lister):
            return None
        admitted = [(current, candidate, candidate) for current, candidate in mutated.admitted]
        return decide_again(self.all_policies, MutatedRequest(mutated.request, admitted), lister)

    def is_alike(self, mutated: MutatedRequest, lister: Lister) -> bool:
        """Return whether both candidates certainly decide a request alike."""
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
) -> Difference:
    """Return two candidates beside the baseline. `chain_of` compiles sets."""
    before, after = _policies(earlier), _policies(candidate)
    differing = {name for name in {**before, **after} if before.get(name) != after.get(name)}
    alone = [
        _only(manifests, names) for manifests, names in ((current, set()), (earlier, differing), (candidate, differing))
    ]
    return Difference(chain_of(alone), chain_of((current, earlier, candidate)), list(before) == list(after))


def _policies(manifests: ManifestSet) -> dict[_Name, tuple[object, ...]]:
    """The validating policies of a set in their order, each with its bindings."""
    bindings: dict[_Name, list[ValidatingAdmissionPolicyBinding]] = {}
    for each in manifests.validating_bindings:
        bindings.setdefault((each.policy_name, each.static), []).append(each)
    return {
        (each.name, each.static): (each, *bindings.get((each.name, each.static), ()))
        for each in manifests.validating_policies
    }


def _only(manifests: ManifestSet, names: Container[_Name]) -> ManifestSet:
    """Return a set with nothing but some validating policies. Its objects are the parameters of policies."""
    return ManifestSet(
        validating_policies=tuple(each for each in manifests.validating_policies if (each.name, each.static) in names),
        validating_bindings=tuple(
            each for each in manifests.validating_bindings if (each.policy_name, each.static) in names
        ),
        objects=manifests.objects,
        removed=manifests.removed,
    )

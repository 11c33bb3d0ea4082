"""The two plugins that evaluate policies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from replay.admission.conversion import Object
from replay.admission.decision import Decision
from replay.admission.explain.policy import MutatingPolicyWatch, ValidatingPolicyWatch
from replay.admission.mutating.plugin import MutatingAdmission, MutatingRequest, PolicyPlugin
from replay.admission.ordered.plugin import Asking, CompiledPlugin, Context, RequestValidator, Unit, digest_of
from replay.admission.reads import PolicyReads, policy_reads
from replay.admission.validating.plugin import Plans, ValidatingAdmission
from replay.cellib.version import KubernetesVersion
from replay.kube.admissionregistration import (
    MUTATING_POLICY,
    VALIDATING_POLICY,
    ManifestSet,
    MutatingAdmissionPolicy,
    Policy,
    ValidatingAdmissionPolicy,
)
from replay.kube.gvk import split_api_version


class _PolicyPlugin:
    """The part of a plugin that reads sets: the policies of a kind, which names the plugin too, with their bindings."""

    kind: type[Policy]
    name: str
    mutates: bool
    is_visible_in_log = False
    differs_by_minor = True

    def units(self, manifests: ManifestSet) -> Iterator[Unit]:
        """Yield a unit for each policy with its bindings."""
        for policy, bindings in manifests.bound_policies(self.kind):
            if policy.match_constraints is not None:
                digest = digest_of("mutating" if self.mutates else "validating", repr(policy), repr(list(bindings)))
                yield Unit(policy.name, digest, policy.match_constraints)

    def names(self, manifests: ManifestSet) -> Iterator[str]:
        """Return the names of the policies."""
        return (policy.name for policy in manifests.of(self.kind))

    def reads(self, manifests: ManifestSet, version: KubernetesVersion) -> Iterator[PolicyReads]:
        """Return the footprints of the bound policies."""
        return policy_reads(manifests.bound_policies(self.kind), version)

    def looked_up(self, manifests: ManifestSet) -> Iterator[tuple[str, str]]:
        """Yield the kinds of the policies' parameters."""
        for policy in manifests.of(self.kind):
            if policy.param_kind is not None:
                yield split_api_version(policy.param_kind.api_version)[0], policy.param_kind.kind


class MutatingAdmissionPolicyPlugin(_PolicyPlugin):
    """MutatingAdmissionPolicy (`k8s.io/apiserver/pkg/admission/plugin/policy/mutating`)."""

    kind, name = MutatingAdmissionPolicy, MUTATING_POLICY
    mutates = True

    def compiled(self, sets: Sequence[ManifestSet], context: Context) -> CompiledPlugin:
        """Return the policies compiled for several sets."""
        return _Mutating(sets, context)


class _Mutating:
    """The mutating policies of several sets."""

    def __init__(self, sets: Sequence[ManifestSet], context: Context) -> None:
        self.admits = any(each.of(MutatingAdmissionPolicy) for each in sets)
        self.validates = False
        self._admission = MutatingAdmission(
            sets, context.version, context.discovery, context.patchers, context.authorizer
        )

    def admitters(self, asking: Asking) -> Sequence[PolicyPlugin | None] | None:
        """Return, for each set, the policies that may match."""
        first = asking.sides[0]
        if asking.is_shared:
            hooks = self._admission.plans(first.original, first.lister)
            if hooks is None:
                return None
            shared = MutatingRequest(self._admission, first.original, first.lister, asking.changes)
            return [PolicyPlugin(each, shared) if each else None for each in hooks]
        return [self._admitter(index, asking) for index in range(len(asking.sides))]

    def _admitter(self, index: int, asking: Asking) -> PolicyPlugin | None:
        side = asking.sides[index]
        hooks = self._admission.plans(side.original, side.lister)
        if hooks is None or not hooks[index]:
            return None
        request = MutatingRequest(self._admission, side.original, side.lister, asking.changes)
        return PolicyPlugin(hooks[index], request)

    def validator(self, asking: Asking) -> RequestValidator | None:
        """Return None: the plugin has no validating phase."""
        del asking
        return None

    def admitter_watch(self, index: int, manifests: ManifestSet, asking: Asking) -> MutatingPolicyWatch:
        """Return the observed policies of one set."""
        del manifests
        side = asking.sides[index]
        return MutatingPolicyWatch(self._admission, index, side.original, side.lister)

    def validator_watch(self, index: int, manifests: ManifestSet, asking: Asking) -> None:
        """Return None: the plugin has no validating phase."""
        del index, manifests, asking


class ValidatingAdmissionPolicyPlugin(_PolicyPlugin):
    """ValidatingAdmissionPolicy (`k8s.io/apiserver/pkg/admission/plugin/policy/validating`)."""

    kind, name = ValidatingAdmissionPolicy, VALIDATING_POLICY
    mutates = False

    def compiled(self, sets: Sequence[ManifestSet], context: Context) -> CompiledPlugin:
        """Return the policies compiled for several sets."""
        return _Validating(sets, context)


class _Validating:
    """The validating policies of several sets."""

    def __init__(self, sets: Sequence[ManifestSet], context: Context) -> None:
        self.admits = False
        self.validates = any(each.of(ValidatingAdmissionPolicy) for each in sets)
        self._admission = ValidatingAdmission(sets, context.version, context.discovery, context.authorizer)

    def admitters(self, asking: Asking) -> None:
        """Return None: the plugin has no mutating phase."""
        del asking

    def admitter_watch(self, index: int, manifests: ManifestSet, asking: Asking) -> None:
        """Return None: the plugin has no mutating phase."""
        del index, manifests, asking

    def validator(self, asking: Asking) -> RequestValidator | None:
        """Return the validating step of the policies that may match.

        All sets share it if they see the same request.
        """
        first = asking.sides[0]
        if asking.is_shared:
            plans = self._admission.plans(first.attributes, first.lister)
            return None if plans is None else partial(self._decided, plans)
        by_side = [self._admission.plans(side.attributes, side.lister) for side in asking.sides]
        return partial(self._decided_separately, by_side) if any(by_side) else None

    def _decided(
        self, plans: Plans, objects: Sequence[Object], asking: Asking, live: Sequence[bool]
    ) -> Sequence[Decision]:
        """Return each set's decision. Sets that are not live are decided too, because they share evaluations."""
        del live
        side, admission = asking.sides[0], self._admission
        if len(set(map(id, objects))) > 1:
            return admission.decide_each(plans, objects, side.attributes, side.lister)
        same = objects[0] is side.attributes.object
        attributes = side.attributes if same else side.attributes.with_object(objects[0])
        return admission.decide_by(plans, attributes, side.lister)

    def _decided_separately(
        self, by_side: Sequence[Plans | None], objects: Sequence[Object], asking: Asking, live: Sequence[bool]
    ) -> Sequence[Decision]:
        """Return the decisions of sets whose cluster objects differ from the first set's."""
        del live
        decisions = []
        for index, (side, plans) in enumerate(zip(asking.sides, by_side, strict=True)):
            # The baseline's object is decided too, because the effects of mutations are found by comparison.
            pair = [objects[0], objects[index]]
            own = None if plans is None else (plans[index], plans[index])
            decisions.append(self._admission.decide_each(own, pair, side.attributes, side.lister)[1])
        return decisions

    def validator_watch(self, index: int, manifests: ManifestSet, asking: Asking) -> ValidatingPolicyWatch:
        """Return the observed policies of one set."""
        del manifests, asking
        return ValidatingPolicyWatch(self._admission, index)

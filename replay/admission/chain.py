"""All four admission plugins in the server's order, for several manifest sets at once.

Mutating policies and webhooks first, twice if something changed the object and someone wants to see it again
(`admission.reinvoker`); then validating policies and webhooks on the object that is left. The first plugin that refuses ends
the request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from replay.admission.change import Changes
from replay.admission.decision import Decision, Denial, Mutated, Undetermined, Verdict
from replay.admission.mutating.invocation import Planned
from replay.admission.mutating.mutator import Object
from replay.admission.mutating.plugin import MutatingAdmission, PolicyPlugin
from replay.admission.validated_object import reference_object, validated_object
from replay.admission.validating.plugin import ValidatingAdmission
from replay.admission.webhook.plugin import Backends, MutatingWebhookPlugin, WebhookEffects, validate
from replay.admission.webhook.webhooks import WebhookAdmission, WebhookHook
from replay.cellib.version import KubernetesVersion
from replay.errors import UNFORESEEN
from replay.kube.admissionregistration import ManifestSet
from replay.kube.attributes import Attributes, Missing
from replay.kube.authorizer import Authorizer
from replay.kube.discovery import Discovery
from replay.kube.lister import Lister
from replay.kube.rbac import RBACAuthorizer
from replay.kube.schema import Schemas

_NO_BACKENDS: Backends = {}


@dataclass(slots=True)
class _Mutation:
    """What the mutating phase of one set came to; `object` is what is left of the object."""

    object: Object
    denials: list[Denial] = field(default_factory=list)
    undetermined: list[Undetermined] = field(default_factory=list)
    mutated: list[Mutated] = field(default_factory=list)
    webhooks: WebhookEffects = field(default_factory=WebhookEffects)

    def did_nothing(self, before: Object) -> bool:
        """Whether the object is what it was, and nothing was said about it."""
        said = self.denials or self.undetermined or self.mutated
        return self.object is before and not said and self.webhooks.is_empty


class Chain:
    """The plugins of several manifest sets; the first set is the one that was in force when the log was written."""

    def __init__(
        self,
        sets: Sequence[ManifestSet],
        version: KubernetesVersion,
        discovery: Discovery,
        schemas: Schemas,
        *,
        authorizer: Callable[[Lister], Authorizer | Missing] = RBACAuthorizer,
    ) -> None:
        """`schemas` include the custom kinds of the cluster; `authorizer` answers for the instant of a lister."""
        self._sets = len(sets)
        self.validating = ValidatingAdmission(sets, version, discovery, authorizer)
        self.mutating = MutatingAdmission(sets, version, discovery, schemas, authorizer)
        self.mutating_webhooks = WebhookAdmission(sets, "mutating", version, discovery, authorizer)
        self.validating_webhooks = WebhookAdmission(sets, "validating", version, discovery, authorizer)

    def decide(
        self,
        before: Attributes | Missing,
        attributes: Attributes,
        lister: Lister,
        backends: Backends = _NO_BACKENDS,
    ) -> list[Decision]:
        """What each set decides, in the order of the sets.

        `before` are the attributes with which the mutating phase begins, `attributes` those of the validating phase as it
        was at the time: what a set mutates otherwise than the first one is carried over to them. `backends` answer for
        webhooks by name; webhooks without one are named in the decision and change nothing. A request whose objects are of
        a form that nobody foresaw is undetermined in all sets.
        """
        try:
            return self._decide(before, attributes, lister, backends)
        except UNFORESEEN as error:
            reason = (
                f"the request cannot be decided, its objects are not of the form that their kind has: {_told(error)}"
            )
            return [Decision(Verdict.UNDETERMINED, undetermined=(Undetermined("", "", reason),))] * self._sets

    def _decide(
        self, before: Attributes | Missing, attributes: Attributes, lister: Lister, backends: Backends
    ) -> list[Decision]:
        if isinstance(before, Missing):
            before = attributes.with_object(before)
        hooks = self.mutating.candidates(before, lister)
        mutating = self.mutating_webhooks.candidates(before)
        validating = self.validating_webhooks.candidates(attributes)
        if hooks is None and not any(mutating) and not any(validating):
            return self.validating.decide(attributes, lister)
        request = _Request(self, before, attributes, lister, backends)
        mutations = [request.mutate(hooks[index] if hooks else (), webhooks) for index, webhooks in enumerate(mutating)]
        seen = _seen(before, mutations, attributes, request.changes)
        decisions = self._validate(seen, attributes, lister, request.changes)
        return [
            request.combine(mutation, decision, webhooks, value)
            for mutation, decision, webhooks, value in zip(mutations, decisions, validating, seen, strict=True)
        ]

    def validated(
        self,
        before: Attributes | Missing,
        attributes: Attributes,
        lister: Lister,
        backends: Backends = _NO_BACKENDS,
    ) -> list[Attributes]:
        """What the validating phase of each set is told, in the order of the sets; arguments as for `decide`."""
        if isinstance(before, Missing):
            before = attributes.with_object(before)
        hooks = self.mutating.candidates(before, lister)
        mutating = self.mutating_webhooks.candidates(before)
        if hooks is None and not any(mutating):
            return [attributes] * len(mutating)
        request = _Request(self, before, attributes, lister, backends)
        mutations = [request.mutate(hooks[index] if hooks else (), webhooks) for index, webhooks in enumerate(mutating)]
        return [attributes.with_object(value) for value in _seen(before, mutations, attributes, request.changes)]

    def _validate(
        self, objects: Sequence[Object], attributes: Attributes, lister: Lister, changes: Changes
    ) -> list[Decision]:
        """The decisions of the validating policies, all sets at once where they see the same object."""
        if all(value is objects[0] for value in objects):
            seen = attributes if objects[0] is attributes.object else attributes.with_object(objects[0])
            return self.validating.decide(seen, lister)
        return self.validating.decide_each(objects, attributes, lister, changes)


class _Request:
    """One request on its way through the chain."""

    def __init__(
        self, chain: Chain, before: Attributes, attributes: Attributes, lister: Lister, backends: Backends
    ) -> None:
        self._chain = chain
        self._before = before
        self._attributes = attributes
        self._lister = lister
        self._backends = backends
        self._policies = chain.mutating.request(before, lister)
        self.changes = self._policies.changes

    def mutate(self, hooks: tuple[Planned, ...], webhooks: Sequence[WebhookHook]) -> _Mutation:
        """The mutating phase of one set: policies, then webhooks, and both once more if anything changed."""
        mutation = _Mutation(self._before.object)
        policies = PolicyPlugin(hooks, self._policies) if hooks else None
        plugin = None
        if webhooks:
            admission, patchers = self._chain.mutating_webhooks, self._chain.mutating.patchers
            plugin = MutatingWebhookPlugin(admission, webhooks, patchers, self._lister, self._backends)
        for reinvoke in (False, True):
            again = policies is not None and _admit_policies(policies, mutation, reinvoke=reinvoke)
            if plugin is not None and not mutation.denials:
                attributes = self._before.with_object(mutation.object)
                mutation.object, changed = plugin.admit(attributes, mutation.webhooks, reinvoke=reinvoke)
                mutation.denials += mutation.webhooks.denials
                again = again or changed
            if mutation.denials or not again:
                break
        return mutation

    def combine(
        self, mutation: _Mutation, decision: Decision, webhooks: Sequence[WebhookHook], value: Object
    ) -> Decision:
        """The decision of both phases, with the validating webhooks asked; a plugin that refuses ends the request."""
        if not webhooks and mutation.did_nothing(self._before.object):
            return decision
        early = mutation.webhooks
        if mutation.denials:
            return _refused(mutation)
        late = WebhookEffects()
        if webhooks and not decision.denials:
            attributes = self._attributes.with_object(value)
            late = validate(self._chain.validating_webhooks, webhooks, attributes, self._lister, self._backends)
        undetermined = (*mutation.undetermined, *early.undetermined, *decision.undetermined, *late.undetermined)
        denials = (*decision.denials, *late.denials)
        return Decision(
            verdict=_verdict(undetermined, denials),
            denials=denials,
            warnings=tuple(dict.fromkeys((*early.warnings, *decision.warnings, *late.warnings))),
            audit_annotations={**early.audit_annotations, **decision.audit_annotations, **late.audit_annotations},
            patch=self.changes(self._before.object, mutation.object),
            undetermined=tuple(dict.fromkeys(undetermined)),
            mutated=(*mutation.mutated, *early.mutated),
            webhooks=(*early.calls, *late.calls),
            caused_by_mutation=decision.caused_by_mutation,
            healed_by_mutation=decision.healed_by_mutation,
        )


def _seen(before: Attributes, mutations: Sequence[_Mutation], attributes: Attributes, changes: Changes) -> list[Object]:
    """The object that each set validates; the first set is the one of the time."""
    reference = reference_object(before.object, mutations[0].object, attributes.object, changes)
    return [validated_object(reference, each.object, attributes.object, changes) for each in mutations]


def _admit_policies(policies: PolicyPlugin, mutation: _Mutation, *, reinvoke: bool) -> bool:
    """One pass of the policies; whether all plugins are to run once more."""
    result = policies.admit(mutation.object, reinvoke=reinvoke)
    mutation.object = result.object
    mutation.denials += result.denials
    mutation.mutated += result.mutated
    mutation.undetermined += [each for each in result.undetermined if each not in mutation.undetermined]
    return result.should_reinvoke


def _refused(mutation: _Mutation) -> Decision:
    """The decision of a mutating phase that ends the request."""
    webhooks = mutation.webhooks
    undetermined = (*mutation.undetermined, *webhooks.undetermined)
    return Decision(
        verdict=_verdict(undetermined, mutation.denials),
        denials=tuple(mutation.denials),
        warnings=tuple(dict.fromkeys(webhooks.warnings)),
        audit_annotations=webhooks.audit_annotations,
        undetermined=tuple(dict.fromkeys(undetermined)),
        mutated=(*mutation.mutated, *webhooks.mutated),
        webhooks=tuple(webhooks.calls),
    )


def _told(error: Exception) -> str:
    """An error of Python in one line."""
    return " ".join(f"{type(error).__name__} {error}".split())[:200]


def _verdict(undetermined: Sequence[Undetermined], denials: Sequence[Denial]) -> Verdict:
    if undetermined:
        return Verdict.UNDETERMINED
    return Verdict.DENIED if denials else Verdict.ADMITTED

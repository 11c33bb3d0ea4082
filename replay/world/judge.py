"""The decisions of the candidate: about a request as the log has it, and about the same request on another object."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

from msgspec import Struct

from replay.admission.chain import Decider
from replay.admission.conversion import Object
from replay.admission.decision import Decision, Verdict
from replay.admission.place import Place
from replay.admission.webhook.plugin import Backends
from replay.json import JSON
from replay.kube.attributes import Attributes, Missing
from replay.kube.gvk import GroupVersionKind
from replay.kube.lister import Lister
from replay.kube.schema import Schemas
from replay.matching.coarse import Classed
from replay.reconstruct.record.known import Known
from replay.reconstruct.request import ReplayRequest
from replay.world.result import Cause, answered
from replay.world.state import known_of
from replay.world.validation import PatchRules, breaks_metadata, breaks_rules, breaks_schema, may_break

ADMITTED = Decision(Verdict.ADMITTED)
"""Decision about a request that nothing evaluates."""


class Judged(NamedTuple):
    """A decision of the candidate, and the object that its validating phase was shown."""

    decision: Decision
    object: Object


class Judge(Struct, frozen=True, dict=True):
    """`chain` holds the current and the candidate set, `alone` no policies and the candidate's.

    `decide` are the decisions of `chain` about a request of the log, `decide_alone` are those of `alone`, `asks` tells whether a policy or webhook of the candidate may match
    a request, by its class alone, `heeds` whether one that may reads some places of its objects.

    INVARIANT: whoever wants a decision comes by `decide` or `decide_alone`, and whoever wants an object asks for `backends` first: so kept walks
    know what they depend on.
    """

    chain: Decider
    alone: Callable[[], Decider]
    decide: Callable[[ReplayRequest, Lister], Sequence[Decision]]
    decide_alone: Callable[[ReplayRequest, Lister], Sequence[Decision]]
    backends: Callable[[ReplayRequest], Backends]
    schemas: Schemas
    asks: Callable[[Classed], bool]
    heeds: Callable[[Classed, frozenset[Place]], bool]
    consults: Callable[[Classed], bool]
    """Whether a policy of the candidate that may match a request asks authorizers, or for parameters."""
    shown: Callable[[ReplayRequest, Decision], Decision]
    """Redacts a decision."""
    with_quotas: Callable[[ReplayRequest, Decision], Decision]
    """A decision with what the candidate's quotas say of the request: they follow the candidate's own objects."""

    def new_object(self, request: ReplayRequest, lister: Lister) -> Object:
        """The object that the candidate's validating phase is shown for a request of the log."""
        shown_attributes = self.chain.validated(
            request.before_mutation, request.attributes, lister, self.backends(request)
        )
        return shown_attributes[1].object

    @cached_property
    def rules(self) -> PatchRules:
        """Which patches leave every valid object valid."""
        return PatchRules(self.schemas)

    def leaves_invalid(
        self, request: ReplayRequest, patch: Sequence[JSON], mutated: Callable[[], Known | Missing]
    ) -> bool:
        """Whether what a decision's mutations leave of a request's object, which was valid, is no valid object."""
        if not may_break(patch):
            return False
        kind, unmutated = request.attributes.kind, request.before_mutation
        if not isinstance(unmutated, Attributes) or self.rules.leaves_valid(kind, patch):
            return False
        if breaks_metadata(patch):
            return True
        after, original = mutated(), known_of(unmutated.object)
        if isinstance(after, Missing) or isinstance(original, Missing):
            return False
        return breaks_rules(self.schemas.for_kind(kind), after, original, patch)

    def breaks_definition(
        self, kind: GroupVersionKind | None, new: Known | Missing, old: Known | Missing, lister: Lister
    ) -> bool:
        """Whether a custom object is not what its definition says, as a lister shows that."""
        if kind is None or not self.schemas.is_custom(kind):
            return False
        return breaks_schema(self.schemas.seen_by(lister).for_kind(kind), new, old)

    def failed_by_definition(self, request: ReplayRequest, old: Known | Missing, lister: Lister) -> bool:
        """Whether a request failed for the definition that a lister shows: nothing was served, or what it wrote was invalid.

        Nobody else answers 404 without a `Status` (`http.NotFound`; `customresource_handler.go` of apiextensions-apiserver).
        """
        cause, attributes = answered(request.record).cause, request.attributes
        if cause != Cause.INVALID:
            return cause == Cause.ABSENT and not request.record.status_message
        return self.breaks_definition(attributes.kind, known_of(attributes.object), old, lister)

    def elsewhere(self, request: ReplayRequest, lister: Lister) -> Judged:
        """The candidate about a request that was made for another object: no mutator has touched it yet."""
        decision = self.decision_elsewhere(request, lister)
        if not decision.patch and not decision.undetermined:
            return Judged(decision, request.attributes.object)
        return Judged(decision, self.object_elsewhere(request, lister))

    def decision_elsewhere(self, request: ReplayRequest, lister: Lister) -> Decision:
        """The decision alone."""
        if not self.asks(request.record):
            return ADMITTED
        return self.shown(request, self.with_quotas(request, self.decide_alone(request, lister)[1]))

    def object_elsewhere(self, request: ReplayRequest, lister: Lister) -> Object:
        """The object that the validating phase is shown."""
        arguments = (request.before_mutation, request.attributes, lister, self.backends(request))
        return self.alone().validated(*arguments)[1].object

"""Decisions of the candidate: about the log's requests, and about the same requests on other objects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

from msgspec import Struct

from replay.admission.chain import Decider
from replay.admission.conversion import Object
from replay.admission.decision import Decision, Verdict
from replay.admission.inputs import Place
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
from replay.world.state import known_or_missing
from replay.world.validation import PatchRules, breaks_metadata, breaks_rules, breaks_schema, may_break

ADMITTED = Decision(Verdict.ADMITTED)
"""Decision about a request that no policy evaluates."""


class JudgedRequest(NamedTuple):
    """A decision of the candidate, and the object that its validating phase sees."""

    decision: Decision
    object: Object


class Judge(Struct, frozen=True, dict=True):
    """Decides requests for the candidate.

    `chain` holds baseline and candidate. `candidate_chain` holds an empty baseline and the candidate. `decide` and `decide_candidate`
    are their decisions. `asks` returns whether a candidate policy or webhook may match a request of this class. `reads_places`
    returns whether one that may match reads any of some places.

    INVARIANT: decisions come only through `decide` or `decide_candidate`, and `backends` is called before any mutated
    object. Kept walks record their dependencies there.
    """

    chain: Decider
    candidate_chain: Callable[[], Decider]
    decide: Callable[[ReplayRequest, Lister], Sequence[Decision]]
    decide_candidate: Callable[[ReplayRequest, Lister], Sequence[Decision]]
    backends: Callable[[ReplayRequest], Backends]
    schemas: Schemas
    may_match: Callable[[Classed], bool]
    reads_places: Callable[[Classed, frozenset[Place]], bool]
    consults: Callable[[Classed], bool]
    """Returns whether a candidate policy that may match the request calls the authorizer or uses parameters."""
    redacted: Callable[[ReplayRequest, Decision], Decision]
    """Redacts secrets in a decision."""
    with_quotas: Callable[[ReplayRequest, Decision], Decision]
    """Adds the refusals of the candidate's quotas to a decision. Quotas count the candidate's own objects."""

    def new_object(self, request: ReplayRequest, lister: Lister) -> Object:
        """Return the object that the candidate's validating phase sees for a request of the log."""
        shown_attributes = self.chain.validated(
            request.before_mutation, request.attributes, lister, self.backends(request)
        )
        return shown_attributes[1].object

    @cached_property
    def rules(self) -> PatchRules:
        """Rules that say which patches keep every valid object valid."""
        return PatchRules(self.schemas)

    def leaves_invalid(
        self, request: ReplayRequest, patch: Sequence[JSON], mutated: Callable[[], Known | Missing]
    ) -> bool:
        """Return whether the mutations of a decision make the request's valid object invalid.

        `mutated` computes the mutated object. It is called only if the patch may break a rule.
        """
        # The cheap checks come first. Only the last one computes the mutated object.
        if not may_break(patch):
            return False
        kind, unmutated = request.attributes.kind, request.before_mutation
        if not isinstance(unmutated, Attributes) or self.rules.leaves_valid(kind, patch):
            return False
        if breaks_metadata(patch):
            return True
        after, original = mutated(), known_or_missing(unmutated.object)
        if isinstance(after, Missing) or isinstance(original, Missing):
            return False
        return breaks_rules(self.schemas.for_kind(kind), after, original, patch)

    def breaks_definition(
        self, kind: GroupVersionKind | None, new: Known | Missing, old: Known | Missing, lister: Lister
    ) -> bool:
        """Return whether a custom object violates its definition, as the lister shows that definition."""
        if kind is None or not self.schemas.is_custom(kind):
            return False
        return breaks_schema(self.schemas.seen_by(lister).for_kind(kind), new, old)

    def failed_by_definition(self, request: ReplayRequest, old: Known | Missing, lister: Lister) -> bool:
        """Return whether a request failed because of the definition that the lister shows.

        Either the resource was not served, or its object was invalid. Only an unserved resource gives a 404 without a
        `Status` (`http.NotFound`; `customresource_handler.go` of apiextensions-apiserver).
        """
        cause, attributes = answered(request.record).cause, request.attributes
        if cause != Cause.INVALID:
            return cause == Cause.ABSENT and not request.record.status_message
        return self.breaks_definition(attributes.kind, known_or_missing(attributes.object), old, lister)

    def judge_adapted(self, request: ReplayRequest, lister: Lister) -> JudgedRequest:
        """Return the candidate's decision and object for a request on another object.

        No mutator has changed that object yet.
        """
        decision = self.decide_adapted(request, lister)
        # Without a mutation the validating phase sees the object of the request. An undetermined decision may mutate
        # it.
        if not decision.patch and not decision.undetermined:
            return JudgedRequest(decision, request.attributes.object)
        return JudgedRequest(decision, self.adapted_object(request, lister))

    def decide_adapted(self, request: ReplayRequest, lister: Lister) -> Decision:
        """Return only the candidate's decision for a request on another object."""
        if not self.may_match(request.record):
            return ADMITTED
        return self.redacted(request, self.with_quotas(request, self.decide_candidate(request, lister)[1]))

    def adapted_object(self, request: ReplayRequest, lister: Lister) -> Object:
        """Return the object that the validating phase sees for a request on another object."""
        arguments = (request.before_mutation, request.attributes, lister, self.backends(request))
        return self.candidate_chain().validated(*arguments)[1].object

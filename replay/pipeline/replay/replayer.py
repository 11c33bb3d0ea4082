"""The stages of one part of the log: records, attributes, decisions of both sets, outcomes.

A part holds the whole history of its objects. So parts are independent and can run in any process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

from msgspec import Struct, field

from replay.admission.decision import Decision, Undetermined, Verdict
from replay.audit.answer import observe
from replay.audit.event import RequestRecord
from replay.audit.format.admission_review import REVIEW
from replay.audit.place import LogPosition
from replay.compare.fidelity import Fidelity
from replay.compare.outcome import MUTATIONS, Outcome, OutcomeKind, outcome_kind
from replay.compare.subject import OWNER_LABEL, Owners, owner, owner_of, subject, workload
from replay.compare.summary import OutcomeFinding, Summary, finding
from replay.identity import IdentityMap
from replay.json import JSON
from replay.kcp.binding import NO_WORKSPACE, DecidedIn
from replay.kube.attributes import Basis, Operation
from replay.kube.gvk import ObjectRef
from replay.kube.lister import Lister
from replay.kube.redact import SECRETS
from replay.kube.schema import Schemas
from replay.matching.coarse import CoarseClass
from replay.pipeline.replay.divergence import Divergence
from replay.pipeline.replay.kept_input import KeptBlocks
from replay.pipeline.replay.redaction import redacted_decisions, redactor_of
from replay.reconstruct.cluster import Cluster
from replay.reconstruct.reached import progress, reached_mutation
from replay.reconstruct.reconstructor import Reconstructor
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.request import Reached, ReplayRequest
from replay.report.outcome_line import outcome_line
from replay.world.decide import OPEN, REFUSED_BY_AUTHORIZERS, Gate, MutatedRequest, with_logged_denial
from replay.world.result import UNKNOWN, Cause, IsolatedEnd, RequestEnd, answered
from replay.world.server.answer import denied, may_refuse
from replay.world.validation import PatchRules, may_break, touches_metadata

NOT_REACHED = Decision(Verdict.NOT_REACHED)
ADMITTED = Decision(Verdict.ADMITTED)
UNREAD: Mapping[str, Basis | None] = dict.fromkeys(("object", "oldObject", "namespaceObject"), Basis.UNREAD)
_OPERATIONS = {"create": Operation.CREATE, "delete": Operation.DELETE, "deletecollection": Operation.DELETE}

_STORING = frozenset({OutcomeKind.NEWLY_DENIED, OutcomeKind.NEWLY_ADMITTED, OutcomeKind.UNDETERMINED, *MUTATIONS})
"""The outcomes after which the candidate's API server may store something else."""

WorkspacesOf = Callable[[RequestRecord], DecidedIn]
"""A function that returns the workspaces in which a request is decided."""


def outside_kcp(record: RequestRecord) -> DecidedIn:
    """Return the place of a request outside kcp."""
    del record
    return NO_WORKSPACE


Decide = Callable[[ReplayRequest, Lister], Sequence[Decision]]
"""A function that returns the decisions of the baseline and of the candidate, in this order."""
Keep = Callable[[ReplayRequest, Lister], tuple[Sequence[Decision], MutatedRequest | None]]
"""A `Decide` that also returns the input of `DecideAgain`, or None if it is not known."""
DecideAgain = Callable[[MutatedRequest, Lister], Sequence[Decision]]
"""A `Decide` for a request whose result of the mutating phases is known."""
DecideDifference = Callable[[MutatedRequest, Lister], Sequence[Decision]]
"""The same, with the decision of an earlier candidate in second place."""


class Pending(Struct, frozen=True, array_like=True):
    """A finding without a known cause yet."""

    place: LogPosition
    finding: OutcomeFinding


class Line(NamedTuple):
    """A line of `--outcomes` that lacks the end of its request.

    `result` is the end of the request taken alone. `root` marks a finding, and a request that ends differently by
    itself.
    """

    place: LogPosition
    line: bytes
    result: RequestEnd
    root: bool


class ClassOutcomes(Struct):
    """The results for the requests of one class."""

    summary: Summary = field(default_factory=Summary)
    fidelity: Fidelity = field(default_factory=Fidelity)
    findings: list[Pending] = field(default_factory=list)
    divergence: Divergence = field(default_factory=Divergence)


class PartOutcomes(Struct):
    """The results of one part, in log order within each object.

    `lines` are those of `--outcomes`. `mutated` are the requests that reached the validating phase, if they are kept.
    `settled` then has the results of all others.
    """

    classes: dict[CoarseClass, ClassOutcomes] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)
    settled: dict[CoarseClass, ClassOutcomes] = field(default_factory=dict)
    kept_requests: dict[CoarseClass, KeptBlocks] = field(default_factory=dict)

    def outcomes_for(self, record: RequestRecord, *, is_settled: bool = False) -> ClassOutcomes:
        """Return the results of a record's class."""
        requests = CoarseClass(record.verb, record.api_group, record.resource, record.subresource)
        results = self.settled if is_settled else self.classes
        outcomes = results.get(requests)
        if outcomes is None:
            outcomes = results[requests] = ClassOutcomes()
        return outcomes

    def keep(self, record: RequestRecord, mutated: MutatedRequest | None) -> None:
        """Keep a request that reached the validating phase. None stands for one that cannot be kept."""
        requests = CoarseClass(record.verb, record.api_group, record.resource, record.subresource)
        if requests not in self.kept_requests:
            self.kept_requests[requests] = KeptBlocks()
        self.kept_requests[requests].add(mutated)


class Replayer(Struct, frozen=True, dict=True):
    """The inputs for deciding the requests of any part.

    `policies` are the baseline's policies, whose decisions can be compared with the log. `mutating_policies` are those
    of both sets. `with_lines` keeps a line of `--outcomes` for each request.
    """

    cluster: Cluster
    reconstructor: Reconstructor
    decide: Decide
    mutate: Decide
    """The decisions of the mutating phase alone."""
    owners: Owners
    policies: frozenset[str]
    mutating_policies: frozenset[str]
    schemas: Schemas
    with_lines: bool = False
    redact: bool = True
    gate: Gate = OPEN
    owner_label: str = OWNER_LABEL
    workspaces_of: WorkspacesOf = outside_kcp
    alike: frozenset[str] = frozenset()
    """The policies and plugins that decide about equal requests alike in both sets."""
    keep: Keep | None = None
    """A `decide` that also keeps the request for later. None keeps nothing."""

    def replay(self, objects: Iterable[Sequence[RequestRecord]]) -> PartOutcomes:
        """Replay the records of some objects, each with its whole history in order.

        The steps of a request are: read, rebuild, decide, and then compare, redact and emit.
        """
        part = PartOutcomes()
        for records in objects:
            for request in self.reconstructor.requests(records):
                decisions, outcomes = self._decided(request, part)
                self._match(request, decisions[0], outcomes)
                self._count(request, decisions, outcomes, part)
        return part

    def replay_again(self, mutated_requests: Iterable[MutatedRequest], decide: DecideAgain) -> PartOutcomes:
        """Return the outcomes of kept requests, decided from the result of their mutating phases."""
        part = PartOutcomes()
        for mutated in mutated_requests:
            request = mutated.request
            decisions = as_far_as_reached(request, decide(mutated, self.cluster.at(request.record)))
            outcomes = part.outcomes_for(request.record)
            self._match(request, decisions[0], outcomes)
            self._count(request, decisions, outcomes, part)
        return part

    def replay_difference(
        self, mutated_requests: Iterable[MutatedRequest], decide: DecideDifference, alike: frozenset[str]
    ) -> tuple[PartOutcomes, PartOutcomes]:
        """Replay requests that an earlier candidate decides otherwise, with this candidate and with that one.

        `alike` are the policies and plugins that decide alike in the baseline and the earlier candidate. The match with
        the log is left out, because the baseline is the same.
        """
        part, earlier_part = PartOutcomes(), PartOutcomes()
        for mutated in mutated_requests:
            request = mutated.request
            decisions = decide(mutated, self.cluster.at(request.record))
            current, earlier, candidate = as_far_as_reached(request, decisions)
            earlier_outcomes = earlier_part.outcomes_for(request.record)
            self._count(request, (current, earlier), earlier_outcomes, earlier_part, alike)
            self._count(request, (current, candidate), part.outcomes_for(request.record), part)
        return part, earlier_part

    def pass_over(self, records: Iterable[RequestRecord], part: PartOutcomes) -> None:
        """Count requests that no policy of either set can match. No body is read, only how far they got.

        SQL counts those that succeeded. They are among `records` only if lines are wanted.
        """
        for record in records:
            exchange = Exchange(record, self.cluster.discovery)
            if 200 <= record.code < 300:
                outcome = self._unread(record, exchange, ADMITTED, self._gated(record, ADMITTED))
                part.lines.append(_line(LogPosition(record.seq, 0), outcome, record))
                continue
            progress_ = progress(exchange)
            failed = progress_ is not None and progress_.reached is Reached.FAILED_BEFORE
            decision = NOT_REACHED if failed else ADMITTED
            outcomes = part.outcomes_for(record, is_settled=self.keep is not None)
            if progress_ is not None and failed:
                outcomes.summary.not_reached[progress_.reason] += 1
            outcome = self._unread(record, exchange, decision, self._gated(record, decision))
            outcomes.summary.count(outcome)
            if self.with_lines:
                part.lines.append(_line(LogPosition(record.seq, 0), outcome, record))

    def _gated(self, record: RequestRecord, decision: Decision) -> Decision:
        return ADMITTED if record.seq in self.gate.newly_allowed else self.gate.candidate(record.seq, decision)

    def unread_line(self, record: RequestRecord) -> Line:
        """Return the line of a request outside admission."""
        outcome = self._unread(record, Exchange(record, self.cluster.discovery), ADMITTED, ADMITTED)
        return _line(LogPosition(record.seq, 0), outcome, record)

    def _unread(self, record: RequestRecord, exchange: Exchange, current: Decision, candidate: Decision) -> Outcome:
        kind = exchange.kind
        return Outcome(
            seq=record.seq,
            item=0,
            audit_id=record.audit_id,
            stage_time=record.stage_time,
            user=record.user.username,
            operation=_OPERATIONS.get(record.verb, Operation.UPDATE) if not exchange.is_connect else Operation.CONNECT,
            resource=exchange.resource,
            subresource=record.subresource,
            kind=kind.kind if kind else "",
            namespace=record.namespace,
            name=record.name,
            outcome=OutcomeKind.UNCHANGED,
            basis=UNREAD,
            current=current,
            candidate=candidate,
            decided_in=self.workspaces_of(record),
        )

    def _decided(self, request: ReplayRequest, part: PartOutcomes) -> tuple[Sequence[Decision], ClassOutcomes]:
        """Return both sets' decisions about a request, as far as it got, and the results to which they count."""
        record = request.record
        if self.keep is None:
            return self.decisions(request), part.outcomes_for(record)
        if request.reached is Reached.FAILED_BEFORE:
            return self._mutations_alone(request), part.outcomes_for(record, is_settled=True)
        decisions, mutated = self.keep(request, self.cluster.at(record))
        part.keep(record, mutated)
        return as_far_as_reached(request, decisions), part.outcomes_for(record)

    def _match(self, request: ReplayRequest, decision: Decision, outcomes: ClassOutcomes) -> None:
        """Compare the baseline's decision about a request with the log."""
        record = request.record
        if request.reached is Reached.FAILED_BEFORE or record.response_kind == REVIEW:
            return  # a review has no decisions of policies
        outcomes.fidelity.record(
            record.seq,
            record.audit_id,
            observe(record),
            decision,
            self.policies,
            lambda text: redactor_of(request, redact=self.redact).text(text),
            in_any_order=bool(record.workspace),
        )

    def _count(
        self,
        request: ReplayRequest,
        decisions: Sequence[Decision],
        outcomes: ClassOutcomes,
        part: PartOutcomes,
        alike: frozenset[str] | None = None,
    ) -> None:
        """Compare both sets' decisions about a request with each other, and count the outcome.

        `alike` replaces that of this replayer.
        """
        record, attributes = request.record, request.attributes
        if request.reached is Reached.FAILED_BEFORE:
            outcomes.summary.not_reached[request.reached_reason] += 1
        # Only the comparison of both sets, and not that with the log, may take over what the log shows.
        current, candidate = decisions
        alike = self.alike if alike is None else alike
        if current.undetermined:
            current, candidate = with_logged_denial(record, decisions, alike)
        if record.seq in self.gate.refused:
            candidate = REFUSED_BY_AUTHORIZERS
        outcome = self._outcome(request, current, candidate)
        place = LogPosition(record.seq, request.item)
        outcomes.summary.count(outcome)
        if outcome.outcome is not OutcomeKind.UNCHANGED:
            pending = Pending(place, finding(outcome))
            outcomes.findings.append(pending)
            if outcome.outcome in MUTATIONS:
                key = pending.finding.key
                group = (key.outcome, key.policies, key.shapes)
                redactor = redactor_of(request, redact=self.redact)
                outcomes.summary.changes.offer(group, outcome, request.before_mutation, redactor)
        if self.diverges(request, outcome.outcome, (current, candidate)):
            ends = self.ends(request, outcome.outcome, (current, candidate))
            about = stored_subject(record, subject(attributes))
            outcomes.divergence.add_finding(record.seq, about, record.audit_id, ends)
        if self.with_lines:
            part.lines.append(_line(place, outcome, record, alike))

    def diverges(self, request: ReplayRequest, kind: OutcomeKind, decisions: tuple[Decision, Decision]) -> bool:
        """Return whether the candidate's API server may store something else after a request, or refuse it otherwise.

        API validation comes before the validating phase. If the candidate's mutations make the object invalid, that
        comes before its denial, although both sets deny the request.
        """
        if kind in _STORING:
            return True
        current, candidate = decisions
        if not (current.denials and candidate.denials) or current.patch == candidate.patch:
            return False
        is_valid = self._rules.leaves_valid(request.attributes.kind, candidate.patch)
        return not is_valid and may_break(candidate.patch) and not candidate.denials[0].is_of_mutation

    def ends(
        self, request: ReplayRequest, kind: OutcomeKind, decisions: tuple[Decision, Decision]
    ) -> IsolatedEnd | None:
        """Return how a finding ends taken alone, or None if only the object can tell."""
        current, candidate = decisions
        log, patch = answered(request.record), candidate.patch
        if kind is OutcomeKind.UNDETERMINED:
            is_open = candidate.verdict is Verdict.UNDETERMINED and not (current.denials or candidate.denials)
            return IsolatedEnd(UNKNOWN) if is_open and log.cause == Cause.SUCCEEDS else None
        is_invalid = log.cause == Cause.INVALID and request.reached is Reached.FAILED_BEFORE
        if kind in MUTATIONS and is_invalid and not current.patch:  # the baseline's mutations did not make it invalid
            return IsolatedEnd(log)
        is_mutated = (
            kind in MUTATIONS and log.cause == Cause.SUCCEEDS and not touches_metadata((*current.patch, *patch))
        )
        if kind is not OutcomeKind.NEWLY_DENIED and not is_mutated:
            return None
        # The mutated object may be invalid, which only its content shows.
        if not self._rules.leaves_valid(request.attributes.kind, patch) and may_break(patch):
            return None
        if is_mutated:
            return IsolatedEnd(log, _paths(current.patch, patch))
        return IsolatedEnd(denied(candidate))

    @cached_property
    def _rules(self) -> PatchRules:
        return PatchRules(self.schemas)

    def decisions(self, request: ReplayRequest) -> list[Decision]:
        """Return both sets' decisions about a request, as far as it got."""
        if request.record.seq in self.gate.newly_allowed:  # it never reached admission in the log
            return [NOT_REACHED, self.decide(request, self.cluster.at(request.record))[1]]
        if request.reached is Reached.FAILED_BEFORE:
            return self._mutations_alone(request)
        decisions = self.decide(request, self.cluster.at(request.record))
        return list(decisions) if request.reached is Reached.VALIDATION else as_far_as_reached(request, decisions)

    def _mutations_alone(self, request: ReplayRequest) -> list[Decision]:
        """Return the decisions about a request that failed between the phases: its mutations."""
        if not self.mutating_policies or not reached_mutation(request.record):
            return [NOT_REACHED, NOT_REACHED]
        decisions = self.mutate(request, self.cluster.at(request.record))
        return [_up_to_mutation(decision, self.mutating_policies) for decision in decisions]

    def _outcome(self, request: ReplayRequest, current: Decision, candidate: Decision) -> Outcome:
        record, attributes = request.record, request.attributes
        # Policies are not evaluated for a request that the authorizers deny.
        kind = OutcomeKind.UNCHANGED if candidate is REFUSED_BY_AUTHORIZERS else outcome_kind(current, candidate)
        is_found = kind is not OutcomeKind.UNCHANGED
        # Redaction takes time, so decisions that are not shown are left as they are.
        is_told = self.with_lines or is_found or current.webhooks or candidate.webhooks
        if is_told or current.patch != candidate.patch or attributes.resource.resource == SECRETS:
            current, candidate = redacted_decisions(redactor_of(request, redact=self.redact), current, candidate)
        return Outcome(
            seq=record.seq,
            item=request.item,
            audit_id=record.audit_id,
            stage_time=record.stage_time,
            user=attributes.user_info.username,
            operation=attributes.operation,
            resource=attributes.resource,
            subresource=attributes.subresource,
            kind=attributes.kind.kind,
            namespace=attributes.namespace,
            name=attributes.name,
            outcome=kind,
            basis=request.basis,
            current=current,
            candidate=candidate,
            workload=workload(attributes, self.owners) if is_found else "",
            owner=self._owner(request) if is_found else "",
            decided_in=self.workspaces_of(record) if record.workspace else NO_WORKSPACE,
        )

    def _owner(self, request: ReplayRequest) -> str:
        """Return the owner of a request's namespace, looked up if the attributes lack it."""
        attributes = request.attributes
        if attributes.namespace_object is None:
            return owner(attributes.namespace, self.owner_label, self.cluster.at(request.record))
        return owner_of(attributes.namespace_object, self.owner_label)


def stored_subject(record: RequestRecord, about: ObjectRef) -> ObjectRef:
    """Return the subject as the store names it. A generated name counts only after the creation."""
    is_nameless = record.verb == "create" and not record.name and not 200 <= record.code < 300
    return about._replace(name="") if is_nameless else about


@lru_cache(maxsize=1024)
def _shared(paths: tuple[str, ...]) -> tuple[str, ...]:
    """Return equal paths as one object. Most objects are mutated in the same places."""
    return paths


def _paths(*patches: Sequence[JSON]) -> tuple[str, ...]:
    """Return the JSON pointers that patches touch."""
    return _shared(tuple(dict.fromkeys([str(operation["path"]) for patch in patches for operation in patch])))


def _line(place: LogPosition, outcome: Outcome, record: RequestRecord, alike: frozenset[str] = frozenset()) -> Line:
    end = isolated_end(outcome, record, alike)
    is_root = outcome.outcome is not OutcomeKind.UNCHANGED or end.cause != answered(record).cause
    return Line(place, outcome_line(outcome), end, is_root)


def isolated_end(outcome: Outcome, record: RequestRecord, alike: frozenset[str] = frozenset()) -> RequestEnd:
    """Return how a request ends if no earlier one ends differently.

    `alike` are the policies and plugins that decide about equal requests alike in both sets.
    """
    if outcome.outcome is OutcomeKind.NEWLY_DENIED:
        return denied(outcome.candidate)
    log = answered(record)
    if log.cause == Cause.FORBIDDEN and outcome.candidate.verdict is not outcome.current.verdict:
        return _let_in(outcome.candidate)
    if outcome.outcome is OutcomeKind.UNCHANGED and log.cause == Cause.DENIED and outcome.candidate.denials:
        # What is open is open in both sets, so that the same denial is the first.
        is_same = outcome.candidate == outcome.current
        is_alike = is_same and all(each.policy in alike for each in outcome.candidate.undetermined)
        return log if is_alike else denied(outcome.candidate)  # perhaps by another policy
    if outcome.outcome is OutcomeKind.UNDETERMINED:
        # If only the baseline is undetermined, the log shows the end.
        is_told = outcome.candidate.verdict is Verdict.ADMITTED and log.cause in (Cause.SUCCEEDS, Cause.EXISTS)
        return log if is_told else UNKNOWN
    if outcome.outcome is OutcomeKind.NEWLY_ADMITTED:
        return RequestEnd(Cause.SUCCEEDS, 0, certain=False)
    return log


def _let_in(candidate: Decision) -> RequestEnd:
    """Return the end of a request that only the candidate's authorizers allow."""
    if candidate.denials:
        return denied(candidate)
    if may_refuse(candidate):
        return UNKNOWN
    return RequestEnd(Cause.SUCCEEDS, 0, certain=False)


def as_far_as_reached(request: ReplayRequest, decisions: Sequence[Decision]) -> list[Decision]:
    """Return the decisions about a request that may not have reached the policies.

    Admission is then the answer either way. Anything else is undetermined. Equal decisions stay one object.
    """
    # A review without a validating phase is still known to be denied by the baseline, because policies run before
    # webhooks.
    if request.reached is not Reached.UNKNOWN or (
        request.record.response_kind == REVIEW and decisions[0].verdict is Verdict.DENIED
    ):
        return list(decisions)
    decisions_made: IdentityMap[Decision, Decision] = IdentityMap()
    for decision in decisions:
        if decision not in decisions_made:
            decisions_made[decision] = _if_reached(decision, request.reached_reason)
    return [decisions_made[decision] for decision in decisions]


def _up_to_mutation(decision: Decision, mutating_policies: frozenset[str]) -> Decision:
    """Return the mutations of a decision, for a request that failed after the mutating phase.

    It is `NOT_REACHED` if a mutating policy is undetermined.
    """
    if not decision.patch or any(entry.policy in mutating_policies for entry in decision.undetermined):
        return NOT_REACHED
    return Decision(Verdict.NOT_REACHED, patch=decision.patch, mutated=decision.mutated)


def _if_reached(decision: Decision, reason: str) -> Decision:
    effects = (decision.denials, decision.warnings, decision.audit_annotations, decision.patch, decision.undetermined)
    if not any(effects):
        return decision
    acting = dict.fromkeys((each.policy, each.binding) for each in decision.denials)
    acting.update(dict.fromkeys((each.policy, each.binding) for each in decision.mutated))
    reason = f"whether the request reached the policies is not known: {reason}"
    # If there are only warnings or annotations, no policy is named.
    unknown = tuple(Undetermined(policy, binding, reason) for policy, binding in acting or {("", ""): None})
    return Decision(Verdict.UNDETERMINED, undetermined=decision.undetermined or unknown, webhooks=decision.webhooks)

"""Decisions about one request. Its operation (create or update) may be unknown.

A request reaches admission in one set only if the authorizers of the sets differ (`Gate`).
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from replay.admission.chain import Chain, Decider, attributes_of
from replay.admission.decision import Decision, Denial, Undetermined, Verdict
from replay.admission.effects import Admitted
from replay.admission.ordered.plugin import Side
from replay.admission.webhook.plugin import Backends
from replay.audit.answer import VALIDATION_FAILURE, Observed, ObservedDenial, observe
from replay.audit.event import RequestRecord
from replay.kube.attributes import Attributes
from replay.kube.lister import Lister
from replay.reconstruct.request import ReplayRequest

OPEN_OPERATION = "the log does not show whether the request created or updated the object"


class MutatedRequest(NamedTuple):
    """A request, and for each of its `questions` the mutating result of each set."""

    request: ReplayRequest
    admitted: Sequence[Sequence[Admitted]]


class RequestBySet(NamedTuple):
    """A request in each set: what the set is shown, what it validates, and what it decides."""

    sides: Sequence[Side]
    attributes: Sequence[Attributes]
    decisions: Sequence[Decision]


def decide(chain: Decider, request: ReplayRequest, lister: Lister, backends: Backends | None = None) -> list[Decision]:
    """Return each set's decision. If it depends on an unknown operation, it is undetermined."""
    if request.alternative is None:
        return chain.decide(request.before_mutation, request.attributes, lister, backends or {})
    return _common([chain.decide(*question, lister, backends or {}) for question in request.questions])


def decide_and_keep(
    chain: Chain, request: ReplayRequest, lister: Lister
) -> tuple[list[Decision], MutatedRequest | None]:
    """Return the decisions, and the inputs of `decide_again`, None if they are unknown."""
    made = [chain.decided(*question, lister) for question in request.questions]
    admitted = [each.admitted for each in made if each.admitted is not None]
    mutated = MutatedRequest(request, admitted) if len(admitted) == len(made) else None
    return _common([each.decisions for each in made]), mutated


def decide_by_set(chain: Chain, request: ReplayRequest, lister: Lister) -> RequestBySet:
    """Return a request in each set. Its mutating phases run once."""
    decisions, mutated = decide_and_keep(chain, request, lister)
    asking = chain.asking(*request.questions[0], lister, {})
    shown = (
        [side.attributes for side in asking.sides] if mutated is None else attributes_of(mutated.admitted[0], asking)
    )
    return RequestBySet(asking.sides, shown, decisions)


def decide_again(chain: Chain, mutated: MutatedRequest, lister: Lister) -> list[Decision]:
    """Return each set's decision about a request, from the results of its mutating phases."""
    questions = zip(mutated.admitted, mutated.request.questions, strict=True)
    return _common([chain.decide_again(admitted, *question, lister) for admitted, question in questions])


def with_logged_denial(
    record: RequestRecord, decisions: Sequence[Decision], alike: Container[str]
) -> tuple[Decision, Decision]:
    """Return both decisions, with the denial in the log where the baseline leaves open whether its policy denies.

    The candidate denies too if it leaves open the same, and the policy is among those that decide `alike` in both sets:
    whatever the missing input is, both see it. The policy's audit annotations are those of the log.
    """
    current, candidate = decisions
    if not current.undetermined or current.denials or candidate.denials or not record.status_message:
        return current, candidate
    observed = observe(record)
    shown = observed.denial or observed.refusal
    entry = next((each for each in current.undetermined if shown is not None and _is_by(each, shown)), None)
    if shown is None or entry is None:
        return current, candidate
    denial = Denial(shown.policy, shown.binding, None, shown.message, record.status_reason, record.code)
    is_alike = entry.policy in alike and entry in candidate.undetermined and current.patch == candidate.patch
    denying = _denied(current, entry, denial, observed)
    if current is candidate:
        return denying, denying
    return denying, _denied(candidate, entry, denial, observed) if is_alike else candidate


def _is_by(entry: Undetermined, denial: ObservedDenial) -> bool:
    """Return whether an entry is about the policy of a denial. An entry without a binding is about all of them."""
    return entry.policy == denial.policy and entry.binding in ("", denial.binding)


def _denied(decision: Decision, entry: Undetermined, denial: Denial, observed: Observed) -> Decision:
    """Return a decision in which one open policy denies, with the audit annotations that the policy wrote into the log."""
    others = tuple(each for each in decision.undetermined if each != entry)
    verdict = decision.verdict if others else Verdict.DENIED
    own = {key: text for key, text in observed.policy_annotations.items() if key.startswith(f"{entry.policy}/")}
    # The failures of all policies are one annotation. It is the policy's own if it names no other policy.
    if all(failure.get("policy") == entry.policy for failure in observed.failures):
        own |= {key: text for key, text in observed.annotations.items() if key == VALIDATION_FAILURE}
    annotations = {**own, **decision.audit_annotations}
    return replace(decision, verdict=verdict, denials=(denial,), undetermined=others, audit_annotations=annotations)


def _common(decisions: Sequence[list[Decision]]) -> list[Decision]:
    """Return the common part of each set's decisions about the possible operations."""
    if len(decisions) == 1:
        return decisions[0]
    return [common_decision(one, other) for one, other in zip(*decisions, strict=True)]


def common_decision(one: Decision, other: Decision) -> Decision:
    """Return the common part of two possible decisions."""
    if one == other:
        return one
    denials = tuple(denial for denial in one.denials if denial in other.denials)
    acting = dict.fromkeys(
        (each.policy, each.binding) for each in (*one.denials, *other.denials) if each not in denials
    )
    acting |= dict.fromkeys((each.policy, each.binding) for each in (*one.mutated, *other.mutated))
    gaps = (*one.undetermined, *other.undetermined)
    # The decisions differ in something that belongs to no policy, so the result is open nevertheless.
    if not acting and not gaps:
        acting[("", "")] = None
    open_ones = (Undetermined(policy, binding, OPEN_OPERATION) for policy, binding in acting)
    return Decision(
        Verdict.UNDETERMINED,
        denials=denials,
        warnings=tuple(warning for warning in one.warnings if warning in other.warnings),
        audit_annotations={
            key: text for key, text in one.audit_annotations.items() if other.audit_annotations.get(key) == text
        },
        undetermined=tuple(dict.fromkeys((*gaps, *open_ones))),
        webhooks=tuple(call for call in one.webhooks if call in other.webhooks),
    )


class Gate(Struct, frozen=True):
    """Writes by sequence number: those that the candidate's authorizers refuse, and those that only they allow."""

    refused: frozenset[int] = frozenset()
    newly_allowed: frozenset[int] = frozenset()
    unknown: frozenset[int] = frozenset()
    """Allowed requests for which the candidate's authorization is unknown."""

    def candidate(self, seq: int, decision: Decision) -> Decision:
        """Return the candidate's decision about a request, given the decision of its policies."""
        return REFUSED_BY_AUTHORIZERS if seq in self.refused else decision


OPEN = Gate()
REFUSED_BY_AUTHORIZERS = Decision(Verdict.NOT_REACHED)
"""Decision of admission about a request that the authorizers refuse."""

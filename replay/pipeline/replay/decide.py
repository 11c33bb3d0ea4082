"""Decisions about one request. Its operation (create or update) may be unknown."""

from __future__ import annotations

from replay.admission.chain import Decider
from replay.admission.decision import Decision, Undetermined, Verdict
from replay.admission.webhook.plugin import Backends
from replay.kube.lister import Lister
from replay.reconstruct.request import ReplayRequest

OPEN_OPERATION = "whether the object existed, so that it was updated and not created, is not known"


def decide(chain: Decider, request: ReplayRequest, lister: Lister, backends: Backends | None = None) -> list[Decision]:
    """Return each set's decision. If it depends on an unknown operation, it is undetermined."""
    backends_by_name = backends or {}
    decisions = chain.decide(request.before_mutation, request.attributes, lister, backends_by_name)
    if request.otherwise is None:
        return decisions
    other_original, attributes = request.otherwise
    others = chain.decide(other_original, attributes, lister, backends_by_name)
    return [either(one, other) for one, other in zip(decisions, others, strict=True)]


def either(one: Decision, other: Decision) -> Decision:
    """Return the common part of two possible decisions."""
    if one == other:
        return one
    denials = tuple(denial for denial in one.denials if denial in other.denials)
    acting = dict.fromkeys(
        (each.policy, each.binding) for each in (*one.denials, *other.denials) if each not in denials
    )
    acting |= dict.fromkeys((each.policy, each.binding) for each in (*one.mutated, *other.mutated))
    gaps = (*one.undetermined, *other.undetermined)
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

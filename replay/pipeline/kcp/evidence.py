"""The set that was in force, as the event itself shows by its denial and its annotations of policies."""

from __future__ import annotations

import orjson
from msgspec.structs import replace

from replay.admission.decision import Decision, Undetermined, Verdict
from replay.admission.webhook.plugin import Backends
from replay.audit.answer import VALIDATION_FAILURE
from replay.kube.attributes import Missing
from replay.kube.lister import Lister
from replay.pipeline.kcp.chain import ShardChain
from replay.pipeline.replay.decide import decide
from replay.pipeline.replay.presence import agreement_with_event
from replay.reconstruct.request import ReplayRequest

_OTHERS = "the event does not match the known policies of the workspace, and the log lacks events of that workspace"
_PARAMETERS = "the event does not match the known parameters, so the log lacks a write to them"
_CHANGING = "another request changed policies of the workspace at the same time, and the event does not show which were in force"


def in_force(chain: ShardChain, request: ReplayRequest, lister: Lister, backends: Backends) -> list[Decision]:
    """Return both sets' decisions about a logged request.

    A policy takes seconds to be in force, so the event chooses among possible sets. What it leaves open is
    undetermined.
    """
    if request.otherwise is not None:
        return decide(chain, request, lister, backends)
    decisions = chain.alternatives(request.before_mutation, request.attributes, lister, backends)
    own = chain.policy_workspace(request.attributes, lister)
    is_followed = isinstance(own, Missing) or chain.is_followed(own)
    reading = chain.reading_parameters(request.attributes, lister)
    if len(decisions) == 1 and is_followed and not reading:
        return decisions[0]
    shown = [_shows(chain, request, each[0]) for each in decisions]
    if not any(shown):
        if not is_followed:
            return chain.undetermined(_OTHERS)
        if any(_shows(chain, request, each[0], apart=reading) for each in decisions):
            return chain.undetermined(_PARAMETERS)
    agreeing = [each for each, how in zip(decisions, shown, strict=True) if how == max(shown)]
    if all(each == agreeing[0] for each in agreeing[1:]):
        return agreeing[0]
    return [_open([each[side] for each in agreeing]) for side in range(len(agreeing[0]))]


def _shows(chain: ShardChain, request: ReplayRequest, decision: Decision, apart: frozenset[str] = frozenset()) -> int:
    """Return how well the event matches a set's decision: 2 fully, 1 as far as known, 0 not.

    Policies in `apart` are ignored.
    """
    comparable = _without(decision, apart) if apart else decision
    return agreement_with_event(request.record, comparable, chain.policies - apart)


def _without(decision: Decision, policies: frozenset[str]) -> Decision:
    """Return a decision without the denials and failures of some policies."""
    annotations = dict(decision.audit_annotations)
    failures = annotations.pop(VALIDATION_FAILURE, None)
    other_failures = [each for each in orjson.loads(failures or "[]") if each.get("policy") not in policies]
    other_annotations = (
        {**annotations, VALIDATION_FAILURE: orjson.dumps(other_failures).decode()} if other_failures else annotations
    )
    denials = tuple(each for each in decision.denials if each.policy not in policies)
    return replace(decision, denials=denials, audit_annotations=other_annotations)


def _open(decisions: list[Decision]) -> Decision:
    """Return the common part of several possible decisions."""
    if all(each == decisions[0] for each in decisions[1:]):
        return decisions[0]
    return Decision(Verdict.UNDETERMINED, undetermined=(Undetermined("", "", _CHANGING),))

"""`replay explain` as a function: one request through the chain, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from replay.admission.decision import Decision
from replay.admission.explain.request import Explainer
from replay.audit.ingest import Progress
from replay.audit.observed import observe
from replay.errors import UNFORESEEN, ReplayError
from replay.pipeline.authorization.run import authorization_inputs, authorized_request
from replay.pipeline.forensic.past import decided, past_job, requests_of
from replay.pipeline.log import opened, repeats, require_known
from replay.pipeline.manifests import Manifests, manifests_of
from replay.pipeline.options import Options
from replay.pipeline.replay.job import Job
from replay.pipeline.replay.redaction import redactor_of
from replay.pipeline.scenario import Scenario
from replay.reconstruct.record.exchange import CONNECT_SUBRESOURCES
from replay.reconstruct.request import Reached, ReplayRequest
from replay.report.conceal import Concealer
from replay.report.explain_report import Explained, SetExplanation

_VERBS = frozenset({"create", "update", "patch", "delete", "deletecollection"})
CURRENT, CANDIDATE = "current", "candidate"
_DEFAULT = Options()


def explain(
    scenario: Scenario, audit_id: str, progress: Progress, *, item: int = 0, options: Options = _DEFAULT
) -> Explained:
    """Explain a request; `item` counts the objects of a `deletecollection`. Raises ReplayError for an unknown auditID.

    Of the options count those of authorization, and `redact`.
    """
    manifests = manifests_of(scenario)
    authorizers = authorization_inputs(manifests, options)
    with opened(scenario, progress) as store:
        require_known(store, "audit_id", audit_id)
        job = replace(past_job(store, manifests), authorizers=authorizers)
        requests = list(requests_of(store, job, [audit_id]))
        others = repeats(store, audit_id)
        record = requests[0].record if requests else None
        authorized = authorized_request(store, authorizers, job, record) if authorizers and record else ()
    if not requests:
        raise ReplayError(f"nothing can be told of the request with the auditID `{audit_id}`")
    if not 0 <= item < len(requests):
        raise ReplayError(f"the request is about {len(requests)} objects: --item is 0 to {len(requests) - 1}")
    request = _asked(requests[item])
    return Explained(
        log=scenario.name,
        request=request,
        item=item,
        items=len(requests),
        observed=observe(request.record),
        repeats=others,
        sets=_sets(job, manifests, request),
        concealer=Concealer(redactor_of(request, redact=options.redact)),
        authorized=tuple(zip((CURRENT, CANDIDATE), authorized, strict=False)),
    )


def _asked(request: ReplayRequest) -> ReplayRequest:
    """The request, which came to nobody if admission is not asked about its verb."""
    verb = request.record.verb
    if verb in _VERBS or request.record.subresource in CONNECT_SUBRESOURCES:
        return request
    return replace(request, reached=Reached.FAILED_BEFORE, reached_reason=f"admission is not asked about `{verb}`")


def _sets(job: Job, manifests: Manifests, request: ReplayRequest) -> tuple[SetExplanation, ...]:
    """The sets that were given, with what they decide and why."""
    decisions = decided(job, request)
    given = zip((CURRENT, CANDIDATE), (manifests.current, manifests.candidate), decisions, strict=True)
    verdicts = tuple(SetExplanation(name, decision) for name, each, decision in given if each is not None)
    if request.reached is Reached.FAILED_BEFORE:
        return verdicts
    try:
        return _step_by_step(job, manifests, request, decisions)
    except UNFORESEEN:  # the decisions say that the objects cannot be used
        return verdicts


def _step_by_step(
    job: Job, manifests: Manifests, request: ReplayRequest, decisions: Sequence[Decision]
) -> tuple[SetExplanation, ...]:
    given = [(CURRENT, manifests.current), (CANDIDATE, manifests.candidate)]
    backends = job.webhooks.backends(request)
    lister, before = job.cluster.at(request.record), request.before_mutation
    asking = job.chain.asking(before, request.attributes, lister, backends)
    explainer = Explainer(job.chain, asking)
    seen = job.chain.validated(before, request.attributes, lister, backends)
    explained = []
    for index, (name, each) in enumerate(given):
        if each is not None:
            mutating = explainer.mutating(index, each)
            validating = explainer.validating(index, each, seen[index], mutating.refused, decisions[index])
            webhooks = (*mutating.webhooks, *validating.webhooks)
            explained.append(SetExplanation(name, decisions[index], mutating.passes, validating.policies, webhooks))
    return tuple(explained)

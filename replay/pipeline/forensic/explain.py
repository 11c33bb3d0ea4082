"""`replay explain` as a function: explains one request in the order of the chain, step by step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

from msgspec.structs import replace

from replay.admission.decision import Decision
from replay.admission.explain.request import explained_request
from replay.audit.answer import observe
from replay.audit.ingest import Progress
from replay.compare.subject import owner, workload
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
from replay.report.explain_report import Concealer, Explained, SetExplanation

_VERBS = frozenset({"create", "update", "patch", "delete", "deletecollection"})
CURRENT, CANDIDATE = "current", "candidate"
_DEFAULT = Options()


def explain(
    scenario: Scenario, audit_id: str, progress: Progress, *, item: int = 0, options: Options = _DEFAULT
) -> Explained:
    """Explain a request. `item` counts the objects of a `deletecollection`. Raise ReplayError for an unknown auditID.

    Of the options only those about authorization, `redact` and the kcp workspaces of the request have an effect.
    """
    manifests = manifests_of(scenario)
    authorizers = authorization_inputs(manifests, options)
    with opened(scenario, progress) as store:
        require_known(store, "audit_id", audit_id)
        job = replace(past_job(store, manifests), authorizers=authorizers)
        requests = list(_within_workspaces(options.focus.workspaces, requests_of(store, job, [audit_id]), job))
        others = repeats(store, audit_id)
        record = requests[0].record if requests else None
        authorized = authorized_request(store, authorizers, job, record) if authorizers and record else ()
    if not requests:
        raise ReplayError(f"the log has too little about the request with the auditID `{audit_id}`")
    if not 0 <= item < len(requests):
        raise ReplayError(f"the request is about {len(requests)} objects: --item is 0 to {len(requests) - 1}")
    request = _unless_ignored(requests[item])
    attributes = request.attributes
    return Explained(
        log=scenario.name,
        request=request,
        item=item,
        items=len(requests),
        observed=observe(request.record),
        repeats=others,
        sets=_sets(job, manifests, request),
        concealer=Concealer(redactor_of(request, redact=options.redact)),
        workload=workload(attributes, job.owners),
        owner=owner(attributes.namespace, options.owner_label, job.cluster.at(request.record)),
        decided_in=job.server.workspaces_of(request.record),
        authorized=tuple(zip((CURRENT, CANDIDATE), authorized, strict=False)),
    )


def _within_workspaces(patterns: Sequence[str], requests: Iterable[ReplayRequest], job: Job) -> Iterator[ReplayRequest]:
    """Yield the requests. Raise ReplayError for one outside of the kcp workspaces that the patterns select."""
    for request in requests:
        path = job.server.workspaces_of(request.record).workspace
        if patterns and not any(fnmatchcase(path, pattern) for pattern in patterns):
            where = f"is to the workspace {path}" if path else "is to no workspace of kcp"
            raise ReplayError(f"the request {where}", path="--workspace")
        yield request


def _unless_ignored(request: ReplayRequest) -> ReplayRequest:
    """Return the request, marked as not reached if admission ignores its verb."""
    verb = request.record.verb
    if verb in _VERBS or request.record.subresource in CONNECT_SUBRESOURCES:
        return request
    return replace(request, reached=Reached.FAILED_BEFORE, reached_reason=f"admission does not run for `{verb}`")


def _sets(job: Job, manifests: Manifests, request: ReplayRequest) -> tuple[SetExplanation, ...]:
    """Return the given sets with their decisions and explanations."""
    decisions = decided(job, request)
    sets_by_name = zip((CURRENT, CANDIDATE), (manifests.current, manifests.candidate), decisions, strict=True)
    verdicts = tuple(SetExplanation(name, decision) for name, each, decision in sets_by_name if each is not None)
    if request.reached is Reached.FAILED_BEFORE:
        return verdicts
    try:
        return _step_by_step(job, manifests, request, decisions)
    except UNFORESEEN:  # the decisions already report the unusable objects
        return verdicts


def _step_by_step(
    job: Job, manifests: Manifests, request: ReplayRequest, decisions: Sequence[Decision]
) -> tuple[SetExplanation, ...]:
    chain, lister, sets = job.server.chain_at(request, job.cluster.at(request.record))
    asking = chain.asking(request.before_mutation, request.attributes, lister, job.webhooks.backends(request))
    explanations = []
    given = manifests.current, manifests.candidate
    for index, (name, each) in enumerate(zip((CURRENT, CANDIDATE), sets, strict=True)):
        if given[index] is not None:
            explained = explained_request(chain, asking, index, each)
            parts = explained.passes, explained.policies, explained.webhooks
            explanations.append(SetExplanation(name, decisions[index], *parts))
    return tuple(explanations)

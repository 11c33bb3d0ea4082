"""Past authorizer decisions.

`replay lookup` shows them by decision, reason, authorizer and binding, a weekly report only the refusals. RefusedRequests
requests are in the log; unused bindings come from a replay of the baseline.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase

from msgspec import Struct

from replay.audit.ingest import Progress
from replay.audit.period import Period
from replay.audit.store import Store
from replay.compare.authorization import AlikeRequests, AuthorizationLookup, resource_label
from replay.compare.weekly import Refusals, RefusedRequests
from replay.errors import ReplayError
from replay.kube.authorizer import AuthorizationAttributes
from replay.pipeline.authorization.replay import AuthorizationReplay, AuthorizedRequest, read_questions
from replay.pipeline.authorization.run import authorization_inputs, chains_of, replay_authorization
from replay.pipeline.forensic.past import past_job
from replay.pipeline.log import store_of
from replay.pipeline.manifests import Manifests, manifests_of
from replay.pipeline.options import Options
from replay.pipeline.scenario import Scenario


class AuthorizationQuestion(Struct, frozen=True):
    """Search criteria. `*` is a wildcard in texts, None matches everything."""

    decision: str | None = None
    reason: str | None = None
    authorizer: str | None = None
    binding: str | None = None
    user: str | None = None
    namespace: str | None = None


def look_up_authorization(
    scenario: Scenario, question: AuthorizationQuestion, options: Options, progress: Progress
) -> AuthorizationLookup:
    """Find requests. Raise ReplayError if an authorizer is named and no set defines one."""
    manifests = manifests_of(scenario)
    inputs = authorization_inputs(manifests, options)
    if question.authorizer is not None and inputs is None:
        raise ReplayError(
            "the log does not name the authorizer: give --current with authorization.yaml", path="--authorizer"
        )
    lookup = AuthorizationLookup(scenario.name)
    with store_of(scenario, progress) as store:
        questions = read_questions(store)
        decided_by: Callable[[AuthorizedRequest], str] = _no_workspace
        if inputs is not None:
            chains = chains_of(store, inputs, past_job(store, manifests), questions.values())
            decided_by = AuthorizationReplay(store, chains, questions).decided_by
        for request in _requests(store):
            attributes = questions[request.question]
            if not _is_wanted(question, request, attributes):
                continue
            authorizer = decided_by(request)
            if question.authorizer is None or fnmatchcase(authorizer, question.authorizer):
                found_here = _alike_requests(request, attributes, authorizer)
                lookup.requests[found_here] += 1
                lookup.first.setdefault(found_here, request.audit_id)
    return lookup


def _no_workspace(request: AuthorizedRequest) -> str:
    del request
    return ""


def _requests(store: Store) -> Iterator[AuthorizedRequest]:
    rows = map(AuthorizedRequest._make, store.query("authorization_requests", within=True).iter_rows())
    return (request for request in rows if request.reached)


def _is_wanted(
    question: AuthorizationQuestion, request: AuthorizedRequest, attributes: AuthorizationAttributes
) -> bool:
    reason = request.reason or ""
    pairs = (
        (question.decision, request.decision or "error"),
        (question.reason, reason),
        (question.user, attributes.user.username),
        (question.namespace, attributes.namespace),
    )
    if any(pattern is not None and not fnmatchcase(value, pattern) for pattern, value in pairs):
        return False
    return question.binding is None or fnmatchcase(_binding(reason), question.binding)


def _binding(reason: str) -> str:
    """Return the binding that a reason names, empty if none: `RBAC: allowed by ClusterRoleBinding "name" of ...`."""
    parts = reason.split('"')
    return parts[1] if reason.startswith("RBAC: allowed by ") and len(parts) > 2 else ""


def _alike_requests(request: AuthorizedRequest, attributes: AuthorizationAttributes, authorizer: str) -> AlikeRequests:
    return AlikeRequests(
        request.decision or "error",
        request.reason or "",
        authorizer,
        attributes.user.username,
        attributes.verb,
        resource_label(attributes),
        attributes.namespace,
    )


def refusals(store: Store, periods: Sequence[Period], manifests: Manifests, options: Options) -> Refusals:
    """Return the refusals of the last period, with those of the one before if given.

    Unused bindings are included if the baseline has authorizers.
    """
    counts = [_counted(store, each) for each in periods]
    inputs = authorization_inputs(manifests, options)
    unused: tuple[str, ...] = ()
    if inputs is not None:
        unused = replay_authorization(store, inputs, past_job(store, manifests)).summary.unused
    return Refusals(counts[-1], counts[0] if len(counts) > 1 else None, unused)


def _counted(store: Store, period: Period) -> Counter[RefusedRequests]:
    rows = store.query("forbidden", start=period.start, end=period.end).iter_rows()
    return Counter({RefusedRequests(user, verb, target): count for user, verb, target, count in rows})

"""Questions about permissions: what a set decides about new requests, what authorizers decided, and what nobody needed.

`replay can-i` asks a set. `replay lookup` shows past decisions by decision, reason, authorizer and binding, a weekly
report only the refusals. Refused requests are in the log; unused bindings come from a replay of the baseline. Unused
permissions are the rules of each binding that no request of a period needed, by the RBAC of their time. For one user,
this gives the smallest Role that would have sufficed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import tzinfo
from fnmatch import fnmatchcase
from pathlib import Path

import orjson
import yaml
from msgspec import Struct

from replay.audit.event import CREATED
from replay.audit.ingest import Progress
from replay.audit.period import Period
from replay.audit.store import Store
from replay.authorization.case import AccessQuestion, AttributesError, answer_line, attributes_from_case, attributes_of
from replay.authorization.chain import AuthorizerChain
from replay.authorization.chains import Chains, sides, webhook_names
from replay.authorization.configuration import AuthorizationConfiguration
from replay.authorization.manifest import NOTHING, dangling_bindings, load_authorization
from replay.authorization.trace import Authorization
from replay.cellib.version import NEWEST, KubernetesVersion
from replay.compare.authorization import AlikeRequests, AuthorizationLookup, resource_label
from replay.compare.permission_need import BY_RBAC, PermissionNeeds, UnusedQuestion, named_grants, with_bindings
from replay.compare.permission_use import PermissionUses, objects_of
from replay.compare.weekly import Refusals, RefusedRequests
from replay.errors import AuditLogError, ReplayError
from replay.kube.authorizer import AuthorizationAttributes
from replay.kube.discovery import Discovery
from replay.kube.rbac import RBAC_KINDS
from replay.on_demand import pl
from replay.pipeline.authorization.replay import AuthorizationReplay, AuthorizedRequest, read_questions
from replay.pipeline.authorization.run import authorization_inputs, chains_of, named_answers, replay_authorization
from replay.pipeline.forensic.past import past_job
from replay.pipeline.log import store_of
from replay.pipeline.manifests import Manifests, manifests_of
from replay.pipeline.options import Options, microseconds, period
from replay.pipeline.scenario import Scenario
from replay.reconstruct.cluster import Cluster
from replay.reconstruct.snapshot import numbered_lines, read_snapshot

_END = 2**62


class AuthorizationScenario(Struct, frozen=True):
    """The set and the cluster that decide."""

    current: Path | None
    cluster: Path | None
    webhooks: tuple[str, ...] = ()
    version: str = str(NEWEST)
    default: AuthorizationConfiguration | None = None


class Oracle(Struct, frozen=True):
    """Authorizer chain of a set, resources of its cluster, and warnings about its RBAC."""

    chain: AuthorizerChain
    discovery: Discovery
    warnings: tuple[str, ...]


def load_oracle(scenario: AuthorizationScenario) -> Oracle:
    """Load the set and the cluster. Raise ReplayError if there is neither, or if they are unusable."""
    version = KubernetesVersion.parse(scenario.version)
    manifests = load_authorization(scenario.current, version) if scenario.current is not None else NOTHING
    if scenario.current is not None and not scenario.current.exists():
        raise ReplayError("no such file or directory", path=str(scenario.current))
    if manifests.unseen:
        raise ReplayError(f"{manifests.unseen}: put it there, under its name")
    if manifests.is_empty and scenario.current is not None and not scenario.current.is_dir():
        raise ReplayError("neither an AuthorizationConfiguration nor RBAC objects", path=str(scenario.current))
    if manifests.is_empty and scenario.cluster is None:
        raise ReplayError("no set: give --current with authorization.yaml or rbac/, or --cluster", path="--current")
    cluster = Cluster(read_snapshot(scenario.cluster) if scenario.cluster is not None else [])
    side = sides((manifests, NOTHING), scenario.default)[0] if scenario.default else sides((manifests, NOTHING))[0]
    answers = named_answers(scenario.webhooks, webhook_names([side.configuration]))
    chains = Chains(cluster, [side], answers, (version,), log_start=_END)
    role_keys = [key[1:] for kind in RBAC_KINDS for key in cluster.keys(kind)]
    warnings = dangling_bindings(manifests.rbac or (), role_keys) if manifests.rbac else ()
    chain = chains.at(_END, _END, chains.state_of(_END, _END, with_graph=True))[0]
    return Oracle(chain, cluster.discovery, tuple(warnings))


def answer_cases(oracle: Oracle, cases: Path, out: Path) -> int:
    """Write one line for each case, in order, and return their number.

    Raise ReplayError with file and line for an invalid case.
    """
    lines = list(_answers(oracle, cases))
    out.write_bytes(b"".join(lines))
    return len(lines)


def _answers(oracle: Oracle, cases: Path) -> Iterator[bytes]:
    lines_of_answers: dict[bytes, bytes] = {}
    for number, line in numbered_lines(cases):
        if line not in lines_of_answers:
            attributes = _attributes(cases, number, line)
            value = answer_line(attributes, oracle.chain.decide(attributes))
            lines_of_answers[line] = orjson.dumps(value, default=str) + b"\n"
        yield lines_of_answers[line]


def _attributes(path: Path, number: int, line: bytes) -> AuthorizationAttributes:
    """Return the attributes of a case: the line's object itself, or its field `attributes`."""
    try:
        value = orjson.loads(line)
        return attributes_from_case(value["attributes"] if isinstance(value, dict) and "attributes" in value else value)
    except (orjson.JSONDecodeError, AttributesError) as error:
        raise ReplayError(f"no case: {error}", path=str(path), line=number) from error


def ask(oracle: Oracle, question: AccessQuestion) -> tuple[AuthorizationAttributes, Authorization]:
    """Return the attributes that the server would see, and the decision.

    Raise ReplayError for an unusable question.
    """
    attributes = attributes_of(question, oracle.discovery)
    return attributes, oracle.chain.decide(attributes)


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


_REFUSED = (401, 403)


def unused_permissions(
    scenario: Scenario, question: UnusedQuestion, progress: Progress, zone: tzinfo
) -> PermissionUses:
    """Return the permissions that a scenario's bindings give and its log needed.

    Raise ReplayError for unusable input.
    """
    manifests = manifests_of(scenario)
    with store_of(scenario, progress) as store:
        start, end = period(store, question.since, question.until, zone)
        asked_period = Period(microseconds(start), microseconds(end) + 1)
        return permission_uses(store, manifests, asked_period, question, scenario.name)


def permission_uses(
    store: Store, manifests: Manifests, within: Period, question: UnusedQuestion, log: str
) -> PermissionUses:
    """Return the permissions that each binding gives and the period needed.

    Raise ReplayError if no RBAC objects are known or none is selected, and AuditLogError for a period without
    requests.
    """
    if manifests.is_shard:
        raise ReplayError(
            "workspaces of kcp have their own RBAC, and the log does not record enough of it", path="--unused"
        )
    job = past_job(store, manifests)
    chains = Chains(job.cluster, sides(manifests.authorization)[:1], log_start=job.log_start)
    objects = chains.objects_at(within.end)
    if not any(obj["kind"].endswith("Binding") for obj in objects):
        raise ReplayError("nothing is known of roles and bindings: give a snapshot of the cluster", path="--cluster")
    frame = _allowed(store, within)
    if frame.is_empty():
        raise AuditLogError("RBAC allowed no request of the period", path=log)
    needs = PermissionNeeds(chains, dict(named_grants(objects)))
    questions = read_questions(store)
    for asked, rbac, created, reason, requests, first, last in _equal_questions(frame, chains).iter_rows():
        needs.count(questions[asked], rbac, (created, reason), (requests, first, last))
    uses = PermissionUses(log, within, len(frame), unexplained=needs.unexplained)
    uses.reviews = _reviews(store, within)
    return with_bindings(uses, objects, needs.uses, question)


def _allowed(store: Store, within: Period) -> pl.DataFrame:
    """Return the requests that RBAC allowed. Without authorization annotations, the response codes decide."""
    frame = store.query("authorization_requests", within=True)
    frame = frame.filter(pl.col("stage_time").is_between(within.start, within.end, closed="left"))
    if frame["decision"].is_not_null().any():
        return frame.filter((pl.col("decision") == "allow") & pl.col("reason").str.starts_with(BY_RBAC))
    return frame.filter(~pl.col("code").is_in(_REFUSED))


def _equal_questions(frame: pl.DataFrame, chains: Chains) -> pl.DataFrame:
    """Return groups of equal questions with equal RBAC: their number, and their first and last time."""
    states = frame.with_columns(
        rbac=chains.rbac_states(frame["received"], frame["stage_time"]), created=pl.col("code") == CREATED
    )
    times = (pl.len(), pl.col("stage_time").min().alias("first"), pl.col("stage_time").max().alias("last"))
    return states.group_by("question", "rbac", "created", "reason", maintain_order=True).agg(*times)


def _reviews(store: Store, within: Period) -> int:
    """Return how many access reviews other servers sent."""
    row = store.sql(
        "select count(*) from request where api_group = 'authorization.k8s.io' and "
        "resource in ('subjectaccessreviews', 'localsubjectaccessreviews') and "
        "epoch_us(stage_time) >= $start and epoch_us(stage_time) < $end",
        start=within.start,
        end=within.end,
    ).row(0)
    return int(row[0])


_HEADER = (
    "# What `{user}` was allowed to do in the log, and no more. What it does less often than the log is long is not in it:\n"
    "# look at a period that covers upgrades, failures and the end of a month before anything is taken away.\n"
)


def least_privilege(store: Store, user: str) -> str:
    """Return Role, ClusterRole and bindings as YAML.

    Raise ReplayError if the log has no allowed request of the user.
    """
    questions = {number: each for number, each in read_questions(store).items() if each.user.username == user}
    requests = map(AuthorizedRequest._make, store.query("authorization_requests", within=True).iter_rows())
    allowed = {each.question for each in requests if each.decision == "allow" and each.question in questions}
    if not allowed:
        raise ReplayError(f"the log has no request of `{user}` that was allowed", path="--user")
    objects = list(objects_of(user, [questions[number] for number in allowed]))
    return _HEADER.format(user=user) + yaml.safe_dump_all(objects, sort_keys=False, explicit_start=True)

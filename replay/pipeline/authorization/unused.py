"""Unused permissions: the rules of each binding that the requests of a period needed, by the RBAC of their time.

For one user, this gives the smallest Role that would have sufficed.
"""

from __future__ import annotations

from datetime import tzinfo

import yaml

from replay.audit.event import CREATED
from replay.audit.ingest import Progress
from replay.audit.period import Period
from replay.audit.store import Store
from replay.authorization.chains import Chains, sides
from replay.compare.permission_need import BY_RBAC, PermissionNeeds, UnusedQuestion, named_grants, with_bindings
from replay.compare.permission_use import PermissionUses, objects_of
from replay.errors import AuditLogError, ReplayError
from replay.on_demand import pl
from replay.pipeline.authorization.replay import AuthorizedRequest, read_questions
from replay.pipeline.forensic.past import past_job
from replay.pipeline.log import store_of
from replay.pipeline.manifests import Manifests, manifests_of
from replay.pipeline.period import microseconds, period
from replay.pipeline.scenario import Scenario

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

"""Preparation of the workers' job from a store and the loaded manifests."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import orjson
from msgspec.structs import replace

from replay.admission.chain import Chain
from replay.admission.ordered.registry import counts_requests, criteria_of, without_books
from replay.audit.event import RequestRecord
from replay.audit.place import LOOKUPS
from replay.audit.store import Store
from replay.json import JSON
from replay.kube.discovery import builtin_discovery
from replay.kube.gvk import GroupResource, ObjectRef
from replay.kube.plugin import PRIORITY_CLASS
from replay.kube.rbac import RBAC_GROUP
from replay.matching.coarse import Predicate, both, coarse_predicate
from replay.matching.rules import EquivalentResourceMapper, excluded_from_all
from replay.pipeline.manifests import Manifests
from replay.pipeline.options import Options
from replay.pipeline.replay.distinct_set import distinct_sets
from replay.pipeline.replay.job import Job
from replay.pipeline.replay.webhook import NO_WEBHOOK_ANSWERS, WebhookAnswers
from replay.pipeline.shard import prepare
from replay.reconstruct.cluster import key_of
from replay.reconstruct.collection import WithUnseenDeletions, listed_objects, unseen_deletions
from replay.reconstruct.history.clock import BEFORE
from replay.reconstruct.history.collection_deletion import CollectionDeletions
from replay.reconstruct.reconstructor import MOST_TRUSTED, clock_error
from replay.reconstruct.server.default_class import ShownClass
from replay.reconstruct.snapshot import revisions_of
from replay.reconstruct.trust import Break, Continuity, Trust
from replay.world.ledger import DecidedRequests, entries_of, ledger_of


def job_of(  # noqa: PLR0913 - what a job is made of
    store: Store,
    manifests: Manifests,
    options: Options,
    spool: Path,
    webhooks: WebhookAnswers = NO_WEBHOOK_ANSWERS,
    *,
    with_plugins: bool = False,
) -> Job:
    """Return the job that replays a store's requests; workers put results into `spool`.

    `with_plugins` runs built-in plugins even if they do not differ.
    """
    job = job_without_history(store, manifests, options, spool, webhooks, with_plugins=with_plugins)
    return with_history(store, job)


def with_history(store: Store, job: Job, *, is_gated: bool = False) -> Job:
    """Return the job with the log's facts about the cluster: lookups, revision times, owners.

    If `is_gated`, the ledger is added later by `with_ledger`, once the authorizers' gate is known.
    """
    job, lookups = looked_up(store, job, {*LOOKUPS, *job.server.looked_up(store)})
    ready = replace(
        job,
        lookups=lookups,
        log_start=first_request_time(store),
        revisions=revisions(store, job),
        deletions=tuple(store.answer("collection_deletions")),
        owners={(row[0], row[1], row[2]): (row[3], row[4]) for row in store.answer("owners")},
    )
    ready = replace(ready, classes=_shown_classes(store, ready))
    return ready if is_gated else with_ledger(store, ready)


def with_ledger(store: Store, job: Job) -> Job:
    """Return the job with the answers of stateful plugins. The gate of the job must be known.

    Most requests that no other plugin or policy can match are then not read at all. Those with an answer and those that
    failed are still read.
    """
    if not counts_requests(job.distinct_sets) or not isinstance(job.server.chain, Chain):
        return job
    ledger = ledger_of(
        job.server.chain,
        job.distinct_sets,
        job.cluster,
        job.request_adapter,
        begin=job.log_start,
        gate=job.gate,
        is_whole=job.trust.is_complete,
    )
    entries = {} if ledger is None else entries_of(store, ledger, job.reconstructor, job.cluster)
    decided = DecidedRequests() if ledger is None else ledger.decided
    mapper = EquivalentResourceMapper(job.cluster.discovery)
    others = coarse_predicate(criteria_of(map(without_books, job.distinct_sets)), mapper, excluded=job.excluded)
    told = orjson.dumps(sorted({seq for seq, _ in entries})).decode()
    sql = f"({others.sql} or code >= 400 or seq in (select unnest(cast(? as bigint[]))))"
    read = Predicate(sql, (*others.parameters, told))
    return replace(job, entries=entries, decided=decided, predicate=both(job.predicate, read))


def _shown_classes(store: Store, job: Job) -> tuple[ShownClass, ...]:
    """Return the log's default classes.

    Pod bodies are read only if the cluster does not show the default PriorityClass.
    """
    rows = store.answer("default_classes")
    earliest = job.log_start - job.clock_error
    if not job.cluster.is_settled(PRIORITY_CLASS, earliest):
        rows = [*rows, *store.answer("default_priority")]
    return tuple((row[0], row[1], row[2], row[3]) for row in rows)


def first_request_time(store: Store) -> int:
    """Return when the first request was received, in microseconds; 0 without requests."""
    ((first, *_),) = store.answer("log_facts")
    return int(first or 0)


def looked_up(
    store: Store, job: Job, resources: Collection[str]
) -> tuple[Job, Mapping[ObjectRef, list[RequestRecord]]]:
    """Return the job and the writes to some resources.

    The job's snapshot also gets the RBAC objects that only collection deletions show.
    """
    lookups = store.lookups(resources)
    collections = store.collections(RBAC_GROUP) if job.server.reads_rbac else []
    if not collections:
        return job, lookups
    keys = {_rbac_key(obj) for obj in job.snapshot if key_of(obj)[0] == RBAC_GROUP} | set(lookups)
    unseen = unseen_deletions(collections, keys, builtin_discovery())
    # Objects of a kind that the snapshot lacks are left out. With them the snapshot would count as complete for the
    # kind.
    kinds = {key_of(obj)[1] for obj in job.snapshot}
    objects = [obj for obj in listed_objects(collections, keys, builtin_discovery()) if key_of(obj)[1] in kinds]
    return replace(job, snapshot=(*job.snapshot, *objects)), WithUnseenDeletions(lookups, unseen)


def _rbac_key(obj: JSON) -> ObjectRef:
    group, kind, namespace, name = key_of(obj)
    return ObjectRef(group, f"{kind.lower()}s", namespace, name)


def revisions(store: Store, job: Job) -> tuple[tuple[int, int, int], ...]:
    """Return times of the snapshot's revisions, as samples of the revision clock."""
    answers = store.answer("revisions", wanted=revisions_of(job.snapshot), error=job.clock_error)
    return tuple((r, BEFORE if start is None else start, end) for r, start, end in answers)


def job_without_history(  # noqa: PLR0913 - what a job is made of
    store: Store,
    manifests: Manifests,
    options: Options,
    spool: Path,
    webhooks: WebhookAnswers = NO_WEBHOOK_ANSWERS,
    *,
    with_plugins: bool = False,
) -> Job:
    """Return the job before the log's facts are known: enough to find kept results."""
    error = clock_error(max((row[3] for row in store.answer("log_clocks")), default=0))
    sets, discovery, workspaces, policy_writes = prepare(store, manifests)
    mapper = EquivalentResourceMapper(discovery)
    distinct = distinct_sets(sets, webhooks.names, with_plugins=with_plugins)
    return Job(
        sets=sets,
        versions=manifests.versions,
        snapshot=manifests.snapshot,
        trust=_trust(store, error),
        predicate=coarse_predicate(criteria_of(distinct), mapper, excluded=excluded_from_all(distinct)),
        spool=spool,
        with_lines=options.outcomes is not None,
        redact=options.redact,
        owner_label=options.owner_label,
        webhooks=webhooks,
        clock_error=error,
        with_plugins=with_plugins,
        policy_writes=policy_writes,
        workspaces=workspaces,
    )


def _trust(store: Store, error: int) -> Trust:
    """Return which histories the log proves to have gaps. No history is trusted if the clocks are too far apart."""
    evidence, broken = Continuity(), list[int]()
    for group, resource, links, breaks, updates in store.answer("continuity"):
        evidence.links[GroupResource(group, resource)] += links
        evidence.breaks[GroupResource(group, resource)] += breaks
        broken += updates or ()
    if broken and (rows := store.answer("collection_deletions")):
        replacements = store.answer("replacements", updates=sorted(broken))
        breaks_in_time = (Break(ObjectRef(*about), start, end) for *about, start, end in replacements)
        evidence.explain(breaks_in_time, CollectionDeletions(rows, error))
    trust = evidence.trust()
    return Trust(trust.distrusted, is_complete=False) if error > MOST_TRUSTED else trust

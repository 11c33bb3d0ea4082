"""From a store and the loaded manifests to the job of the workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from replay.admission.ordered.registry import ALL_ORDERED_PLUGINS, criteria_of
from replay.audit.store import Store
from replay.kube.admissionregistration import ManifestSet
from replay.kube.discovery import Discovery
from replay.kube.gvk import GroupResource
from replay.matching.coarse import coarse_predicate
from replay.matching.equivalence import EquivalentResourceMapper
from replay.pipeline.manifests import Manifests
from replay.pipeline.options import Options
from replay.pipeline.replay.job import Job, without_shared_webhooks
from replay.pipeline.replay.webhook import NOBODY, WebhookAnswers
from replay.reconstruct.cluster import Cluster
from replay.reconstruct.history.clock import BEFORE
from replay.reconstruct.skew import MOST_TRUSTED, clock_error
from replay.reconstruct.snapshot import revisions_of
from replay.reconstruct.trust import Continuity, Trust

RBAC = tuple(
    f"{name}.rbac.authorization.k8s.io" for name in ("roles", "rolebindings", "clusterroles", "clusterrolebindings")
)
LOOKUPS = (
    "limitranges",
    "namespaces",
    "nodes",
    "serviceaccounts",
    "priorityclasses.scheduling.k8s.io",
    "customresourcedefinitions.apiextensions.k8s.io",
)


def _looked_up(sets: Sequence[ManifestSet], discovery: Discovery) -> set[str]:
    """The resources of what the plugins read of the cluster, as `resource.group`."""
    wanted = {kind for each in sets for plugin in ALL_ORDERED_PLUGINS for kind in plugin.looked_up(each)}
    return {
        f"{found.resource.resource}.{found.resource.group}".removesuffix(".")
        for found in discovery
        if (found.kind.group, found.kind.kind) in wanted
    }


def job_of(store: Store, manifests: Manifests, options: Options, spool: Path, webhooks: WebhookAnswers = NOBODY) -> Job:
    """What replaying the requests of a store takes; `spool` is where workers put their results."""
    return with_history(store, job_without_history(store, manifests, options, spool, webhooks))


def with_history(store: Store, job: Job) -> Job:
    """The job with what the log tells of the cluster: what decisions look up, when revisions were stored, who owns what."""
    looked_up = _looked_up(job.sets, Cluster(job.snapshot).discovery)
    return replace(
        job,
        lookups=store.lookups({*LOOKUPS, *RBAC, *looked_up}),
        revisions=revisions(store, job),
        classes=tuple((row[0], row[1], row[2], row[3]) for row in store.answer("default_classes")),
        deletions=tuple(store.answer("collection_deletions")),
        owners={(row[0], row[1], row[2]): (row[3], row[4]) for row in store.answer("owners")},
    )


def revisions(store: Store, job: Job) -> tuple[tuple[int, int, int], ...]:
    """When the revisions of the snapshot were stored, as far as the log tells: samples of the revision clock."""
    found = store.answer("revisions", wanted=revisions_of(job.snapshot), error=job.clock_error)
    return tuple((r, BEFORE if start is None else start, end) for r, start, end in found)


def job_without_history(
    store: Store, manifests: Manifests, options: Options, spool: Path, webhooks: WebhookAnswers = NOBODY
) -> Job:
    """The same before the log is asked what it tells of the cluster: enough to know which results a store keeps."""
    sets = manifests.sets
    mapper = EquivalentResourceMapper(Cluster(manifests.snapshot).discovery)
    asked = without_shared_webhooks(sets, webhooks.names)
    error = clock_error(max((row[3] for row in store.answer("log_clocks")), default=0))
    return Job(
        sets=sets,
        version=manifests.version,
        snapshot=manifests.snapshot,
        trust=_trust(store, error),
        predicate=coarse_predicate(criteria_of(asked), mapper, version=manifests.version),
        spool=spool,
        with_lines=options.outcomes is not None,
        redact=options.redact,
        webhooks=webhooks,
        clock_error=error,
    )


def _trust(store: Store, error: int) -> Trust:
    """Which histories the log itself proves to have gaps; none is whole where clocks are too far apart."""
    found = Continuity()
    for group, resource, links, breaks in store.answer("continuity"):
        found.links[GroupResource(group, resource)] += links
        found.breaks[GroupResource(group, resource)] += breaks
    trust = found.trust()
    return Trust(trust.distrusted, whole=False) if error > MOST_TRUSTED else trust

"""Requests of a log decided once more, one by one: for questions about single requests rather than whole logs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from replay.admission.decision import Decision
from replay.audit.store import Store
from replay.cellib.version import KubernetesVersion
from replay.json import JSON
from replay.kube.admissionregistration import ManifestSet
from replay.manifests.set_loader import load_manifest_set
from replay.pipeline.log import LogSource
from replay.pipeline.replay.job import Job
from replay.pipeline.replay.replayer import NOT_REACHED, as_far_as_reached
from replay.pipeline.replay.webhook import webhook_answers
from replay.pipeline.run import Inputs, Options, job_of
from replay.reconstruct.cluster import Cluster
from replay.reconstruct.request import Reached, ReplayRequest
from replay.reconstruct.snapshot import read_snapshot


@dataclass(frozen=True, slots=True)
class Chosen:
    """An SQL expression over the requests of a store, as parts of it want to be asked."""

    sql: str
    parameters: tuple[str, ...] = ()


@dataclass(frozen=True)
class Manifests:
    """The sets of a source, loaded, and the snapshot; a set that was not given is None."""

    version: KubernetesVersion
    snapshot: tuple[JSON, ...]
    current: ManifestSet | None
    candidate: ManifestSet | None

    @property
    def sets(self) -> tuple[ManifestSet, ManifestSet]:
        """Both sets as the chain wants them: what is not known to have been in force is taken to be empty."""
        current = self.current if self.current is not None else ManifestSet()
        return current, self.candidate if self.candidate is not None else current


def manifests_of(source: LogSource) -> Manifests:
    """Load what a source names; raises ReplayError for what cannot be used."""
    version = KubernetesVersion.parse(source.version)
    snapshot = tuple(read_snapshot(source.cluster)) if source.cluster else ()
    api_objects = Cluster(snapshot).api_objects()

    def loaded(path: Path | None) -> ManifestSet | None:
        return None if path is None else load_manifest_set(path, version=version, api_objects=api_objects)

    return Manifests(version, snapshot, loaded(source.current), loaded(source.candidate))


def past_job(store: Store, manifests: Manifests, sets: tuple[ManifestSet, ManifestSet] | None = None) -> Job:
    """What deciding requests of a store once more takes; `sets` may be less than all that was loaded."""
    replayed = sets or manifests.sets
    inputs = Inputs(replayed, manifests.version, manifests.snapshot, webhook_answers((), replayed))
    return job_of(store, inputs, Options(), store.directory)


def past_requests(
    store: Store, job: Job, chosen: Chosen, parts: Iterable[int] | None = None
) -> Iterator[ReplayRequest]:
    """The requests that an expression selects, rebuilt; by object, not by time. `parts` are all, unless given."""
    for number in range(store.parts) if parts is None else parts:
        for records in store.part(number).objects(chosen):
            yield from job.reconstructor.requests(records)


def requests_of(store: Store, job: Job, audit_ids: Sequence[str]) -> Iterator[ReplayRequest]:
    """The requests of some auditIDs, rebuilt; only the parts that hold them are read."""
    query = "select distinct part from request where audit_id in (select unnest($ids)) order by all"
    parts = [part for (part,) in store.sql(query, ids=list(audit_ids)).iter_rows()]
    chosen = Chosen("audit_id in (select unnest(string_split(?, chr(10))))", ("\n".join(audit_ids),))
    return past_requests(store, job, chosen, parts)


def decided(job: Job, request: ReplayRequest) -> list[Decision]:
    """What both sets decide about a request."""
    if request.reached is Reached.FAILED_BEFORE:
        return [NOT_REACHED, NOT_REACHED]
    lister = job.cluster.at(request.record)
    backends = job.webhooks.backends(request)
    decisions = job.chain.decide(request.before_mutation, request.attributes, lister, backends)
    return as_far_as_reached(request, decisions)

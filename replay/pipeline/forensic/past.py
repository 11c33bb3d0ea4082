"""Decides single requests of a log again, for questions that do not concern the whole log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from replay.admission.decision import Decision
from replay.audit.store import Store
from replay.pipeline.manifests import Manifests
from replay.pipeline.options import Options
from replay.pipeline.replay.job import Job
from replay.pipeline.replay.preparation import job_of
from replay.pipeline.replay.replayer import NOT_REACHED, as_far_as_reached
from replay.pipeline.replay.webhook import webhook_answers
from replay.reconstruct.request import Reached, ReplayRequest


class Chosen(Struct, frozen=True):
    """SQL expression over a store's requests."""

    sql: str
    parameters: tuple[str, ...] = ()


def past_job(store: Store, manifests: Manifests, *, with_plugins: bool = False) -> Job:
    """Return a job that decides requests again; `with_plugins` also runs plugins that both sets share."""
    answers = webhook_answers((), manifests.sets)
    return job_of(store, manifests, Options(), Path(store.temporary), answers, with_plugins=with_plugins)


def past_requests(
    store: Store, job: Job, chosen: Chosen, parts: Iterable[int] | None = None, *, is_full: bool = False
) -> Iterator[ReplayRequest]:
    """Yield the rebuilt requests that an expression selects, grouped by object.

    `parts` are the parts to read, None for all.

    `is_full` also rebuilds objects before mutation that no mutating policy needs.
    """
    reconstructor = replace(job.reconstructor, mutation=True) if is_full else job.reconstructor
    for number in range(store.parts) if parts is None else parts:
        for records in store.part(number).objects(chosen):
            yield from reconstructor.requests(records)


def requests_of(store: Store, job: Job, audit_ids: Sequence[str], *, is_full: bool = False) -> Iterator[ReplayRequest]:
    """Yield the rebuilt requests of some auditIDs; only the parts that hold them are read.

    `is_full` as for `past_requests`.
    """
    query = "select distinct part from request where audit_id in (select unnest($ids)) order by all"
    parts = [part for (part,) in store.sql(query, ids=list(audit_ids)).iter_rows()]
    chosen = Chosen("audit_id in (select unnest(string_split(?, chr(10))))", ("\n".join(audit_ids),))
    return past_requests(store, job, chosen, parts, is_full=is_full)


def decided(job: Job, request: ReplayRequest) -> list[Decision]:
    """Return both sets' decisions about a request."""
    if request.reached is Reached.FAILED_BEFORE:
        return [NOT_REACHED, NOT_REACHED]
    lister = job.cluster.at(request.record)
    return as_far_as_reached(request, job.server.decisions(request, lister))

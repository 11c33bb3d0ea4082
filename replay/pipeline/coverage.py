"""`replay coverage`: the part of a log that can be decided for a manifest set.

It also gives the audit policy that records the rest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import orjson
from msgspec import Struct
from msgspec.structs import replace

from replay.admission.ordered.registry import reads_of
from replay.admission.reads import INPUTS_OF_ANY, PolicyReads
from replay.audit.event import RequestRecord
from replay.audit.ingest import Progress
from replay.audit.part import StorePart
from replay.audit.period import unmatched_by_kind
from replay.compare.audit_policy import audit_policy
from replay.compare.coverage import Coverage, RequestKind, SizeRow, growth
from replay.compare.result import CoverageResult
from replay.json import JSON
from replay.kube.admissionregistration import ManifestSet, MatchResources, Rule, ValidatingAdmissionPolicy
from replay.kube.gvk import GroupResource
from replay.matching.coarse import Predicate
from replay.pipeline.facts import log_facts, set_facts
from replay.pipeline.log import filled
from replay.pipeline.manifests import Manifests, manifests_of
from replay.pipeline.options import Options
from replay.pipeline.project.focus import chosen
from replay.pipeline.replay.distinct_set import distinct_sets
from replay.pipeline.replay.job import Job
from replay.pipeline.replay.preparation import job_of
from replay.pipeline.replay.replayer import as_far_as_reached
from replay.pipeline.replay.workers import prepare_workers, replay_parts
from replay.pipeline.scenario import Scenario
from replay.reconstruct.cluster import Cluster, key_of
from replay.reconstruct.reached import progress as progress_of_record
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.request import Reached, ReplayRequest
from replay.storage.scratch import scratch
from replay.world.decide import decide

_EVERYTHING = MatchResources(resource_rules=(Rule(("*",), ("*",), ("*",), ("*/*",)),))
_ANY_SET = ManifestSet((ValidatingAdmissionPolicy("any policy", static=True, match_constraints=_EVERYTHING),))
"""A policy that reads everything, as any possible policy might."""
_ANY_READS = PolicyReads("any policy", ((_EVERYTHING,),), INPUTS_OF_ANY, managed_fields=True)


class CoverageJob(Struct, frozen=True):
    """The work of one worker: decides every request with the last set, or checks how many attributes are known."""

    job: Job
    by_attributes: bool = False

    def run(self, part: StorePart) -> Coverage:
        """Return the coverage of one part."""
        coverage = Coverage()
        selection = part.selection(self.job.predicate, self.job.within, only_failed=True)
        for records in selection.objects():
            for request in self.job.reconstructor.requests(records):
                self._count(request, coverage)
        for record in selection.others():
            progress = progress_of_record(Exchange(record, self.job.cluster.discovery))
            if progress is not None and progress.reached is Reached.FAILED_BEFORE:
                coverage.not_reached += 1
            else:
                coverage.decided[kind_of(record)] += 1
        return coverage

    def _count(self, request: ReplayRequest, coverage: Coverage) -> None:
        record = request.record
        if request.reached is Reached.FAILED_BEFORE:
            coverage.not_reached += 1
        elif self.by_attributes:
            coverage.count_attributes(kind_of(record), request.attributes)
        else:
            lister = self.job.cluster.at(record)
            decisions = decide(self.job.server.chain, request, lister)
            coverage.count(kind_of(record), as_far_as_reached(request, decisions)[-1])


def focused_selection(job: Job) -> Predicate:
    """Return a job's selection limited to its focus."""
    if job.within is None:
        return job.predicate
    sql = f"({job.predicate.sql} or not coalesce({job.within.sql}, false))"
    return Predicate(sql, (*job.predicate.parameters, *job.within.parameters))


def kind_of(record: RequestRecord) -> RequestKind:
    """Return the kind of a record."""
    name = str(GroupResource(record.api_group, record.resource))
    resource = f"{name}/{record.subresource}" if record.subresource else name
    return RequestKind(resource, record.verb, record.level)


def coverage(scenario: Scenario, options: Options, progress: Progress, *, secrets: bool = False) -> CoverageResult:
    """Measure the coverage of a log for the given sets, or without sets for any possible policy.

    `secrets` lets the audit policy record Secrets. Raise ReplayError for unusable input.
    """
    prepare_workers(options)
    manifests = manifests_of(scenario)
    loaded = {path: each for path, each in _sets(scenario, manifests) if each is not None}
    sets_asked = manifests if loaded else replace(manifests, current=_ANY_SET)
    if manifests.current is None and manifests.candidate is not None:
        sets_asked = replace(manifests, current=manifests.candidate)
    with filled(scenario, progress, options.fleet) as (store, ingest), scratch() as spool:
        job = job_of(store, sets_asked, options, spool)
        job = replace(job, within=chosen(store, options.focus))
        work = CoverageJob(job, by_attributes=not loaded)
        coverage = Coverage()
        for part in replay_parts(work, store, options, progress):
            coverage.add(part)
        for group, resource, subresource, verb, level, count in unmatched_by_kind(store, focused_selection(job)):
            name = str(GroupResource(group, resource))
            coverage.decided[RequestKind(f"{name}/{subresource}" if subresource else name, verb, level)] += count
        rows = [SizeRow(*row) for row in store.query("log_sizes").iter_rows()]
        facts = log_facts(scenario, store, ingest, _total(coverage))
    discovery = job.cluster.discovery
    reads = [each for pair in distinct_sets(sets_asked.sets) for each in reads_of(pair, sets_asked.version)]
    logged = {(GroupResource(row.api_group, row.resource), row.subresource) for row in rows if row.admission}
    policy = audit_policy(reads if loaded else [_ANY_READS], discovery, logged, secrets=secrets)
    return CoverageResult(
        facts,
        tuple(set_facts(path, each) for path, each in loaded.items()),
        coverage,
        policy,
        growth(rows, policy, _sizes(manifests.snapshot, job.cluster)),
        options.focus.text,
    )


def _sets(scenario: Scenario, manifests: Manifests) -> tuple[tuple[Path | None, ManifestSet | None], ...]:
    return (scenario.current, manifests.current), (scenario.candidate, manifests.candidate)


def _total(coverage: Coverage) -> int:
    return coverage.decided.total() + coverage.undetermined.total() + coverage.not_reached


def _sizes(snapshot: Sequence[JSON], cluster: Cluster) -> dict[GroupResource, int]:
    """Return the mean size of the snapshot's objects by resource, in bytes."""
    octets: dict[tuple[str, str], list[int]] = defaultdict(list)
    for obj in snapshot:
        octets[key_of(obj)[:2]].append(len(orjson.dumps(obj)))
    return {
        served.resource.group_resource: sum(sizes_of_kind) // len(sizes_of_kind)
        for served in cluster.discovery
        if (sizes_of_kind := octets.get((served.kind.group, served.kind.kind)))
    }

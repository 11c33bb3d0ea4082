"""`replay run` as a function: from logs and manifests to a `RunResult`."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, NamedTuple

import orjson

from replay.audit.reject import EXPLANATIONS, RejectReason, write_rejects
from replay.audit.selection import unread_counts
from replay.audit.store import IngestReport, Store
from replay.cellib.version import KubernetesVersion
from replay.compare.cascade import Place
from replay.compare.fidelity import Fidelity
from replay.compare.outcome import FINDINGS
from replay.compare.result import LogFacts, RunResult, SetFacts
from replay.compare.summary import Summary
from replay.errors import ReplayError
from replay.json import JSON
from replay.kube.admissionregistration import ManifestSet
from replay.kube.discovery import Discovery
from replay.kube.gvk import GroupResource, split_api_version
from replay.manifests.diff import diff_sets
from replay.manifests.set_loader import load_manifest_set
from replay.matching.coarse import CoarseClass, coarse_predicate, of_classes
from replay.matching.equivalence import EquivalentResourceMapper
from replay.pipeline.health import health_notes
from replay.pipeline.replay.job import Job, PartResult, shared_webhooks, without_shared_webhooks
from replay.pipeline.replay.kept import KeptResults, kept_results
from replay.pipeline.replay.merge import class_results, merge, write_lines
from replay.pipeline.replay.totals import NOTHING, ClassResult
from replay.pipeline.replay.webhook import NOBODY, WebhookAnswers, webhook_answers
from replay.pipeline.replay.workers import Progress, prepare_workers, replay_parts
from replay.pipeline.scenario import STDIN, Scenario
from replay.reconstruct.cluster import Cluster
from replay.reconstruct.history.clock import BEFORE
from replay.reconstruct.skew import MOST_TRUSTED, clock_error
from replay.reconstruct.snapshot import read_snapshot, revisions_of
from replay.reconstruct.trust import Continuity, Trust
from replay.report.set_diff import diff_text

FEW_REQUESTS = 1000
"""So many requests are replayed here and now sooner than workers are started for them."""
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


@dataclass(frozen=True, slots=True)
class Options:
    """How a run is done, as opposed to what it is about; `workers` 0 means one for each core."""

    store: Path | None = None
    outcomes: Path | None = None
    rejects: Path | None = None
    redact: bool = True
    workers: int = 0
    version: str = "1.37"
    executor: Executor | None = None
    webhooks: tuple[str, ...] = ()
    """Who answers for webhooks: `NAME=URL` or `NAME=recorded`."""


def run(scenario: Scenario, options: Options, progress: Progress) -> RunResult:
    """Replay a scenario. Raises ReplayError for unusable input; partial results are never shown as whole."""
    if scenario.logs:
        prepare_workers(options)
    version = KubernetesVersion.parse(options.version)
    snapshot = read_snapshot(scenario.cluster) if scenario.cluster else []
    sets = load_sets(scenario, version, snapshot)
    webhooks = webhook_answers(options.webhooks, sets)
    with Store.open(options.store) as store, tempfile.TemporaryDirectory(prefix="replay-") as spool:
        ingest = store.ingest(scenario.logs, progress) if scenario.logs else IngestReport()
        if options.rejects is not None:
            write_rejects(store.rejects(), options.rejects)
        inputs = Inputs(sets, version, tuple(snapshot), webhooks)
        job = _job_without_history(store, inputs, options, Path(spool))
        # All queries come before the results, which for a large log leave them little memory.
        facts = log_facts([Path(log) for log in scenario.logs], store, ingest)
        notes = health_notes(store, job)
        summary, fidelity = _replay(store, job, options, progress)
        facts.admission = summary.requests
    return RunResult(
        facts,
        set_facts(scenario.current, sets[0]),
        set_facts(scenario.candidate, sets[1]),
        summary,
        fidelity,
        changes=tuple(diff_text(diff_sets(*sets))),
        notes=notes,
        shared_webhooks=shared_webhooks(sets, webhooks.names),
    )


def exit_code(result: RunResult) -> int:
    """0 where nothing is newly denied or mutated, else 1 (as `kubectl diff`)."""
    return int(any(result.summary.outcomes[kind] for kind in FINDINGS))


def load_sets(
    scenario: Scenario, version: KubernetesVersion, snapshot: Sequence[JSON]
) -> tuple[ManifestSet, ManifestSet]:
    """The current and the candidate set; API-based policies come from the snapshot where a set has none of its own."""
    api_objects = Cluster(snapshot).api_objects()
    candidate = load_manifest_set(scenario.candidate, version=version, api_objects=api_objects)
    if scenario.current is None:
        return ManifestSet(), candidate
    return load_manifest_set(scenario.current, version=version, api_objects=api_objects), candidate


def _replay(store: Store, job: Job, options: Options, progress: Progress) -> tuple[Summary, Fidelity]:
    """All requests of a store, but for those whose results it keeps."""
    kept = _kept(store, job, options)
    known = kept.read() if kept is not None else {}
    results: list[PartResult] = []
    made: dict[CoarseClass, ClassResult] = {}
    if kept is None:
        unread = unread_counts(store, job.predicate)
        results = _replay_parts(store, with_history(store, job), options, progress)
        made = class_results(results, unread)
    elif changed := [requests for requests in kept.files if requests not in known]:
        job = replace(job, within=of_classes(changed))
        is_few = sum(kept.classes[requests] for requests in changed) < FEW_REQUESTS
        if not is_few:
            prepare_workers(options)
        unread = unread_counts(store, job.predicate, job.within)
        results = _replay_parts(store, with_history(store, job), options, progress, is_few=is_few)
        found = class_results(results, unread)
        made = {requests: found.get(requests, NOTHING) for requests in changed}
        kept.write(made)
    follows: dict[Place, str] = {}
    with _output(options.outcomes) as file:
        merged = merge({**known, **made}, follows)
        if file is not None:
            write_lines(results, follows, file)
    return merged


def _replay_parts(
    store: Store, job: Job, options: Options, progress: Progress, *, is_few: bool = False
) -> list[PartResult]:
    """All parts by workers; few requests here and now, and all at once."""
    store.rest()
    parts = [store.whole()] if is_few else [store.part(number) for number in range(store.parts)]
    return replay_parts(job, parts, options, progress)


def _kept(store: Store, job: Job, options: Options) -> KeptResults | None:
    """What a store keeps of results, if it is kept itself: not where somebody answers for webhooks anew, or lines are wanted."""
    if options.store is None or options.webhooks or options.outcomes is not None:
        return None
    current, candidate = job.asked
    validating = {policy.name for each in job.sets for policy in each.validating_policies}
    base: tuple[str | bytes, ...] = (
        *(f"{entry.name} {file.digest}" for entry in store.segments for file in entry.files),
        str(job.version),
        orjson.dumps([policy.name for policy in current.validating_policies]),
        orjson.dumps(sorted(validating & job.mutators)),
        f"{bool(current.mutating_policies)} {bool(job.mutators)} {job.mutates} {job.redact}",
        orjson.dumps(job.snapshot),
    )
    classes = {CoarseClass(*columns): count for *columns, count in store.answer("admission_classes")}
    return kept_results(
        options.store, base, (current, candidate), classes, EquivalentResourceMapper(Cluster(job.snapshot).discovery)
    )


class Inputs(NamedTuple):
    """What was loaded before the log was read."""

    sets: tuple[ManifestSet, ManifestSet]
    version: KubernetesVersion
    snapshot: tuple[JSON, ...]
    webhooks: WebhookAnswers = NOBODY


def _param_resources(sets: Sequence[ManifestSet], discovery: Discovery) -> set[str]:
    """The resources of parameter objects, as `resource.group`."""
    wanted = {
        (split_api_version(kind.api_version)[0], kind.kind)
        for each in sets
        for policies in (each.validating_policies, each.mutating_policies)
        for kind in (policy.param_kind for policy in policies)
        if kind is not None
    }
    return {
        f"{found.resource.resource}.{found.resource.group}".removesuffix(".")
        for found in discovery
        if (found.kind.group, found.kind.kind) in wanted
    }


def job_of(store: Store, inputs: Inputs, options: Options, spool: Path) -> Job:
    """What replaying the requests of a store takes; `spool` is where workers put their results."""
    return with_history(store, _job_without_history(store, inputs, options, spool))


def with_history(store: Store, job: Job) -> Job:
    """The job with what the log tells of the cluster: what decisions look up, when revisions were stored, who owns what."""
    params = _param_resources(job.sets, Cluster(job.snapshot).discovery)
    revisions = store.answer("revisions", wanted=revisions_of(job.snapshot), error=job.clock_error)
    return replace(
        job,
        lookups=store.lookups({*LOOKUPS, *RBAC, *params}),
        revisions=tuple((r, BEFORE if start is None else start, end) for r, start, end in revisions),
        owners={(row[0], row[1], row[2]): (row[3], row[4]) for row in store.answer("owners")},
    )


def _job_without_history(store: Store, inputs: Inputs, options: Options, spool: Path) -> Job:
    sets, version, snapshot, webhooks = inputs
    mapper = EquivalentResourceMapper(Cluster(snapshot).discovery)
    error = clock_error(max((row[3] for row in store.answer("log_clocks")), default=0))
    return Job(
        sets=sets,
        version=version,
        snapshot=snapshot,
        trust=_trust(store, error),
        predicate=coarse_predicate(without_shared_webhooks(sets, webhooks.names), mapper),
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


def log_facts(logs: Sequence[Path], store: Store, ingest: IngestReport, admission: int = 0) -> LogFacts:
    """What was read, of which admission saw so many requests, if that is known yet."""
    rejects = ingest.rejects
    ((first, last, requests, files),) = store.answer("log_facts")
    return LogFacts(
        names=tuple("standard input" if str(log) == STDIN else log.name for log in logs) or (store.directory.name,),
        files=files,
        octets=sum(file.size for entry in store.segments for file in entry.files),
        events=sum(entry.events for entry in store.segments),
        requests=requests,
        admission=admission,
        first=first or 0,
        last=last or 0,
        duplicates=rejects.counts[RejectReason.DUPLICATE],
        rejects=Counter(
            {EXPLANATIONS[reason]: n for reason, n in rejects.counts.items() if reason != RejectReason.DUPLICATE}
        ),
        reject_examples=tuple(
            f"{reject.file}:{reject.line}: {EXPLANATIONS[reject.reason]}"
            for reason in sorted(rejects.examples)
            for reject in rejects.examples[reason]
        ),
    )


def set_facts(path: Path | None, manifests: ManifestSet) -> SetFacts:
    """A set as a report names it."""
    counts = {
        "validating policies": len(manifests.validating_policies),
        "mutating policies": len(manifests.mutating_policies),
        "webhook configurations": len(manifests.validating_webhooks) + len(manifests.mutating_webhooks),
    }
    kept = tuple((name, count) for name, count in counts.items() if count)
    return SetFacts(path.name if path else "nothing", kept, tuple(sorted(manifests.hashes.items())))


@contextmanager
def _output(path: Path | None) -> Iterator[BinaryIO | None]:
    """The file of `--outcomes`, in its place only when it is whole; a device or a pipe is written to as it is."""
    if path is None:
        yield None
        return
    target = path.resolve()  # a link stays one
    partial = target.with_name(f".{target.name}.partial")
    try:
        if path.exists() and not path.is_file():
            with path.open("wb") as file:
                yield file
            return
        with partial.open("wb") as file:
            yield file
        partial.replace(target)
    except BrokenPipeError:
        raise  # whoever read the pipe has had enough
    except OSError as error:
        raise ReplayError(f"the outcomes cannot be written: {error.strerror}", path=str(path)) from error
    finally:
        partial.unlink(missing_ok=True)

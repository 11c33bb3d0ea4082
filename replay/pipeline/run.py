"""`replay run` as a function: from logs and manifests to a `RunResult`."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import orjson

from replay.admission.ordered.registry import keeps_books, policy_names
from replay.audit.directory.scratch import scratch
from replay.audit.ingest import Progress
from replay.audit.reject import write_rejects
from replay.audit.selection import unread_counts
from replay.audit.store import Store
from replay.compare.authorization import FINDINGS as AUTHORIZATION_FINDINGS
from replay.compare.fidelity import Fidelity
from replay.compare.outcome import FINDINGS
from replay.compare.result import RunResult
from replay.compare.summary import Summary
from replay.compare.world_facts import WorldFacts
from replay.errors import ReplayError
from replay.manifests.diff import diff_sets
from replay.matching.coarse import CoarseClass, may_select, of_classes
from replay.matching.equivalence import EquivalentResourceMapper
from replay.pipeline.authorization.run import (
    Authorized,
    authorization_changes,
    authorization_inputs,
    replay_authorization,
)
from replay.pipeline.facts import log_facts, set_facts
from replay.pipeline.health import health_notes
from replay.pipeline.log import filled
from replay.pipeline.manifests import manifests_of
from replay.pipeline.options import Options
from replay.pipeline.replay.job import Job, PartResult, shared_webhooks
from replay.pipeline.replay.kept import KeptResults, kept_results
from replay.pipeline.replay.merge import class_results, merge, write_lines
from replay.pipeline.replay.opening import assumptions
from replay.pipeline.replay.preparation import job_without_history, with_history
from replay.pipeline.replay.totals import NOTHING, ClassResult
from replay.pipeline.replay.webhook import webhook_answers
from replay.pipeline.replay.workers import Crew, Whole, prepare_workers
from replay.pipeline.replay.world import world_of
from replay.pipeline.scenario import Scenario
from replay.pipeline.testing.save import save_cases
from replay.pipeline.whole_file import whole_file
from replay.reconstruct.cluster import Cluster
from replay.report.set_diff import diff_text

FEW_REQUESTS = 1000
"""So many requests are replayed here and now sooner than workers are started for them."""


def run(scenario: Scenario, options: Options, progress: Progress) -> RunResult:
    """Replay a scenario. Raises ReplayError for unusable input; partial results are never shown as whole."""
    if not scenario.candidate_paths:
        raise ReplayError(
            "no candidate set: give --candidate, --add with a policy on top of --current, or a directory with audit.* and candidate/",
            path=scenario.logs[0] if scenario.logs else str(scenario.store),
        )
    if scenario.logs:
        prepare_workers(options)
    manifests = manifests_of(scenario)
    authorizers = authorization_inputs(manifests, options)
    own = authorizers.webhooks if authorizers is not None else frozenset()
    webhooks = webhook_answers([each for each in options.webhooks if each.partition("=")[0] not in own], manifests.sets)
    with filled(scenario, progress) as (store, ingest), scratch() as spool:
        if options.rejects is not None:
            write_rejects(store.rejects(), options.rejects, redact=options.redact)
        job = job_without_history(store, manifests, options, spool, webhooks)
        authorized = replay_authorization(store, authorizers, job) if authorizers is not None else None
        job = replace(job, gate=authorized.gate, authorizers=authorizers) if authorized is not None else job
        # All queries come before the results, which for a large log leave them little memory.
        facts = log_facts(scenario, store, ingest)
        notes = (*manifests.hints, *health_notes(store, job), *assumptions(job.asked, Cluster(job.snapshot)))
        kept = _kept(scenario, store, job, options) if authorized is None else None
        summary, fidelity, world = _replay(store, job, options, progress, (kept, authorized))
        facts.admission = summary.requests
        notes = (*notes, *_saved(store, job, summary, scenario, options))
    return RunResult(
        facts,
        set_facts(scenario.current, manifests.sets[0]),
        set_facts(scenario.candidate_paths[-1], manifests.sets[1]),
        summary,
        fidelity,
        world,
        changes=tuple(diff_text([*diff_sets(*manifests.sets), *authorization_changes(manifests, authorizers)])),
        notes=notes,
        shared_webhooks=shared_webhooks(manifests.sets, webhooks.names),
        authorization=authorized.summary if authorized is not None else None,
    )


def _saved(store: Store, job: Job, summary: Summary, scenario: Scenario, options: Options) -> list[str]:
    """The cases of the findings, where they are wanted, and what is to be said of them."""
    if options.save_cases is None:
        return []
    ready = with_history(store, job)
    return save_cases(store, ready, summary, scenario.candidate_paths, options)


def exit_code(result: RunResult) -> int:
    """0 where nothing is newly denied or mutated, forbidden or allowed, else 1 (as `kubectl diff`)."""
    authorization = result.authorization
    changes = authorization is not None and any(authorization.outcomes[kind] for kind in AUTHORIZATION_FINDINGS)
    return int(changes or any(result.summary.outcomes[kind] for kind in FINDINGS))


def _replay(
    store: Store, job: Job, options: Options, progress: Progress, aside: tuple[KeptResults | None, Authorized | None]
) -> tuple[Summary, Fidelity, WorldFacts]:
    """All requests of a store, but for those whose results it keeps; `aside` are those, and what the authorizers say."""
    kept, authorized = aside
    known = kept.read() if kept is not None else {}
    changed = [requests for requests in kept.files if requests not in known] if kept is not None else []
    job = replace(job, within=of_classes(changed)) if changed else job
    results: list[PartResult] = []
    made: dict[CoarseClass, ClassResult] = {}
    with Crew(partial(with_history, store, job), options) as crew:
        if kept is None:
            unread = unread_counts(store, job.predicate)
            results = _replay_parts(store, crew, progress)
            made = class_results(results, unread)
        elif changed:
            is_few = sum(kept.classes[requests] for requests in changed) < FEW_REQUESTS
            if not is_few:
                prepare_workers(options)
            unread = unread_counts(store, job.predicate, job.within)
            results = _replay_parts(store, crew, progress, is_few=is_few)
            found = class_results(results, unread)
            made = {requests: found.get(requests, NOTHING) for requests in changed}
            kept.write(made)
        classes = {**known, **made}
        world = world_of(store, crew, classes.values(), progress)
    with whole_file(options.outcomes, "the outcomes") if options.outcomes else nullcontext() as file:
        summary, fidelity = merge(classes, world)
        if file is not None:
            write_lines(results, world, file, authorized.lines if authorized is not None else None)
    return summary, fidelity, world.facts


def _replay_parts(store: Store, crew: Crew[Job], progress: Progress, *, is_few: bool = False) -> list[PartResult]:
    """All parts by workers; few requests here and now, and all at once."""
    _ = crew.job  # all questions are asked before the store rests
    store.rest()
    parts = [store.whole()] if is_few else [store.part(number) for number in range(store.parts)]
    return crew.run(Whole(), parts, progress)


def _kept(scenario: Scenario, store: Store, job: Job, options: Options) -> KeptResults | None:
    """What a store keeps of results, if it is kept itself.

    Not where somebody answers for webhooks anew, or lines are wanted,
    nor where what is said of a request depends on those before it.
    """
    if scenario.store is None or options.webhooks or options.outcomes is not None or keeps_books(job.asked):
        return None
    current, candidate = job.asked
    validating = {name for each in job.sets for name in policy_names(each, mutating=False)}
    base: tuple[str | bytes, ...] = (
        *(f"{entry.name} {file.path} {file.digest}" for entry in store.segments for file in entry.data),
        str(job.version),
        orjson.dumps(sorted(policy_names(current))),
        orjson.dumps(sorted(validating & job.mutators)),
        f"{bool(policy_names(current, mutating=True))} {bool(job.mutators)} {job.mutates} {job.redact}",
        orjson.dumps(job.snapshot),
        orjson.dumps([each.objects for each in job.sets]),
        orjson.dumps([[each.name for each in manifests.builtin] for manifests in job.sets[:1]]),
    )
    classes = {CoarseClass(*columns): count for *columns, count in store.answer("admission_classes")}
    mapper = EquivalentResourceMapper(Cluster(job.snapshot).discovery)
    selector = partial(may_select, mapper=mapper, version=job.version)
    return kept_results(scenario.store, base, (current, candidate), classes, selector)

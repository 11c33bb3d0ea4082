"""`replay run` as a function: from logs and manifests to a `RunResult`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import orjson
from msgspec.structs import replace

from replay.admission.ordered.registry import counts_requests, policy_names
from replay.audit.directory import kept_beside
from replay.audit.ingest import Progress
from replay.audit.period import unread_counts
from replay.audit.reject import write_rejects
from replay.audit.source import expanded
from replay.audit.store import Store
from replay.cellib.version import KubernetesVersion
from replay.compare.accepted import Acceptance, AcceptanceLedger
from replay.compare.outage import outage_of
from replay.compare.result import RunResult
from replay.compare.summary import Summary
from replay.errors import ReplayError
from replay.kube.admissionregistration import Sets
from replay.matching.coarse import CoarseClass, may_select, of_classes
from replay.matching.rules import EquivalentResourceMapper
from replay.pipeline.authorization.run import (
    AuthorizationInputs,
    Authorized,
    authorization_changes,
    authorization_inputs,
    replay_authorization,
)
from replay.pipeline.facts import (
    api_version_uses,
    health_notes,
    log_facts,
    newly_called_webhooks,
    policies_only_moved,
    set_facts,
    webhooks_not_called,
)
from replay.pipeline.log import filled
from replay.pipeline.manifests import Manifests, manifests_of, set_files, with_provider_answers
from replay.pipeline.options import Options
from replay.pipeline.project.accepted import read_accepted
from replay.pipeline.project.focus import chosen, concerning, concerns, conjunction, named_policies, narrowed
from replay.pipeline.reading_process import AheadReading
from replay.pipeline.replay.distinct_set import shared_webhooks
from replay.pipeline.replay.divergence import Divergence
from replay.pipeline.replay.job import Job, KeptPortion, RunAgain
from replay.pipeline.replay.kept_result import Earlier, KeptClass, KeptResults, RunOutcome, kept_results
from replay.pipeline.replay.kept_walk import KeptWalks
from replay.pipeline.replay.merge import (
    FindingFilter,
    Unread,
    class_results,
    corrected,
    joined,
    kept_classes,
    merge,
    removed_results,
    write_lines,
)
from replay.pipeline.replay.preparation import job_without_history, with_history, with_ledger
from replay.pipeline.replay.spool import NOTHING, ClassResult, PartResult
from replay.pipeline.replay.webhook import NO_WEBHOOK_ANSWERS, WebhookAnswers, webhook_answers
from replay.pipeline.replay.workers import RunPart, WorkerPool, are_forked, forked_workers, prepare_workers
from replay.pipeline.replay.world import World, world_of
from replay.pipeline.scenario import STDIN, Scenario
from replay.pipeline.shard import prepare
from replay.pipeline.verify import cause_of_mismatch
from replay.pipeline.whole_file import whole_file
from replay.reconstruct.cluster import Cluster
from replay.reconstruct.snapshot import decompressed
from replay.report.diff_report import diff_text
from replay.report.trust import matches_log
from replay.storage.location import is_remote
from replay.storage.scratch import scratch
from replay.world.ledger import assumptions
from replay.world.reach import LogAnswers, may_decide_differently

if TYPE_CHECKING:
    from replay.prove.sets import PolicyProof

FEW_REQUESTS = 1000
"""Number of requests below which this process replays them itself."""
PORTION_BYTES = 128 * 1024
"""The bytes of kept requests (some hundred requests) that justify a portion of their own."""


class _Question(NamedTuple):
    """The question of a run before its log is open. `named` are the selected policies, if not all."""

    manifests: Manifests
    named: frozenset[str]
    authorizers: AuthorizationInputs | None
    webhooks: list[str]
    """Answerers for webhooks, from the options."""
    accepted: AcceptanceLedger


def _no_candidate(scenario: Scenario) -> ReplayError:
    """Return the error about a run without a candidate. It names the scenarios below the directory, if there are some."""
    path = scenario.logs[0] if scenario.logs else str(scenario.store or "")
    below = sorted(each.parent for each in Path(path).glob("*/candidate") if any(each.parent.glob("audit.*")))
    if path and below:
        names = ", ".join(map(str, below[:_MOST_SCENARIOS]))
        return ReplayError(f"no candidate set: give one scenario of this directory: {names}", path=path)
    fix = "give the planned manifests with --candidate, --add or --apply, or let `replay init` find them"
    return ReplayError(f"no candidate set: {fix}", path=path)


_MOST_SCENARIOS = 5
"""Maximum number of scenarios that an error names."""


def run(scenario: Scenario, options: Options, progress: Progress, reading: AheadReading | None = None) -> RunResult:
    """Replay a scenario. `reading` is given if its log is already being read.

    Raise ReplayError for unusable input. Partial results are never returned.
    """
    if not scenario.candidate_paths and not scenario.rehearses:
        for log in scenario.logs:
            if not is_remote(log):
                expanded(log)  # report a wrong path first
        raise _no_candidate(scenario)
    if options.save_cases is not None and STDIN in map(str, scenario.apply):
        raise ReplayError("a case names the files of its policies: write the bundle into a file", path="--save-cases")
    if scenario.logs:
        prepare_workers(options)
    files = set_files(scenario)
    # Without a `reading` the store is a kept one, which may have all results. Then nothing is compiled in advance.
    if files is not None and reading is not None and are_forked(options):
        files.compile(scenario.versions)
    with forked_workers(options), kept_beside(scenario.store, "snapshot", decompressed) as decompress:
        question = _question(manifests_of(scenario, files, decompress), options)
        return _answer(question, scenario, options, progress, reading)


def run_sets(
    scenario: Scenario, manifests: Manifests, options: Options, progress: Progress, ask: Callable[[Store], None]
) -> RunResult:
    """Replay the log of a scenario with sets that are not in files.

    `ask` gets the store for further queries. Raise ReplayError as `run` does.
    """
    if scenario.logs:
        prepare_workers(options)
    with forked_workers(options):
        return _answer(_question(manifests, options), scenario, options, progress, None, ask)


def _answer(  # noqa: PLR0913, PLR0917 - what a run is asked, of what, and how it works
    question: _Question,
    scenario: Scenario,
    options: Options,
    progress: Progress,
    reading: AheadReading | None,
    ask: Callable[[Store], None] | None = None,
) -> RunResult:
    """Return the result of a run."""
    manifests = question.manifests
    # Which webhooks a shard has is only known with the log.
    webhooks = NO_WEBHOOK_ANSWERS if manifests.is_shard else webhook_answers(question.webhooks, manifests.sets)
    with filled(scenario, progress, options.fleet, reading) as (store, ingest), scratch() as spool:
        if ask is not None:
            ask(store)
        if options.rejects is not None:
            write_rejects(store.rejects(), options.rejects, redact=options.redact)
        if manifests.is_shard:
            webhooks = webhook_answers(question.webhooks, prepare(store, manifests).sets)
        job, authorized = _job(store, question, options, spool, webhooks)
        facts = log_facts(scenario, store, ingest)
        health = cache(partial(health_notes, store, job))
        store_results = _kept(scenario, store, job, options) if authorized is None else None
        # A run that counts only some findings has an outcome of its own.
        is_whole = not question.named and not question.accepted.entries
        outcome = store_results.read_outcome() if store_results is not None and is_whole else None
        if outcome is None:
            finding_filter = FindingFilter(partial(concerns, question.named), question.accepted.accepts)
            aside = _RunExtras(store_results, authorized, finding_filter, health)
            outcome = _replay(store, job, options, progress, aside)
            if store_results is not None:
                if is_whole:
                    store_results.write_outcome(outcome)
                store_results.forget_oldest()
        summary, fidelity, world = outcome
        cause = ""
        if not matches_log(fidelity) and not manifests.is_shard:
            cause = cause_of_mismatch(store, manifests, options, progress, fidelity.compared[0])
        facts.admission = summary.requests
        uses = api_version_uses(store, scenario.versions)
        outage = outage_of(
            store,
            manifests.sets[1],
            manifests.snapshot,
            scenario.versions.candidate,
            is_shard=manifests.is_shard,
        )
        notes = (
            *options.focus.notes,
            *manifests.hints,
            *health(),
            *assumptions(job.distinct_sets, Cluster(job.snapshot)),
            *webhooks_not_called(store, manifests.sets, Cluster(job.snapshot).discovery),
            *newly_called_webhooks(store, manifests.sets, Cluster(job.snapshot).discovery, asked=webhooks.names),
            *_saved(store, job, summary, scenario, options),
        )
    return RunResult(
        facts,
        set_facts(scenario.baseline, manifests.sets[0]),
        set_facts(next(reversed(scenario.candidate_paths), None), manifests.sets[1]),
        summary,
        fidelity,
        world,
        changes=tuple(diff_text([*manifests.differences(), *authorization_changes(manifests, question.authorizers)])),
        notes=notes,
        shared_webhooks=shared_webhooks(manifests.sets, webhooks.names),
        authorization=authorized.summary if authorized is not None else None,
        proofs=_proofs(manifests.sets, scenario.versions.candidate) if options.prove else (),
        accepted=question.accepted.facts(),
        versions=scenario.versions,
        api_versions=uses,
        outage=outage,
        mismatch_cause=cause,
        has_snapshot=bool(manifests.snapshot),
        moved=policies_only_moved(manifests.sets),
    )


def _question(manifests: Manifests, options: Options) -> _Question:
    """Return the question, with the files that the options name besides the sets. Raise ReplayError."""
    accepted = AcceptanceLedger(str(options.accepted or ""), _accepted(options), options.today)
    named = named_policies(manifests, options.focus.policies)
    manifests = narrowed(manifests, named) if named else manifests
    authorizers = authorization_inputs(manifests, options)
    own = authorizers.webhooks if authorizers is not None else frozenset()
    manifests, others = with_provider_answers(manifests, options.webhooks)
    webhooks = [each for each in others if each.partition("=")[0] not in own]
    return _Question(manifests, named, authorizers, webhooks, accepted)


def _job(
    store: Store, question: _Question, options: Options, spool: Path, webhooks: WebhookAnswers
) -> tuple[Job, Authorized | None]:
    """Return the job for a store, and the authorizers' decisions: refused requests do not reach admission."""
    job = job_without_history(store, question.manifests, options, spool, webhooks)
    job = replace(job, within=conjunction(chosen(store, options.focus), concerning(job, question.named)))
    if question.authorizers is None:
        return job, None
    job = with_history(store, job, is_gated=True)
    authorized = replay_authorization(store, question.authorizers, job)
    job = replace(job, gate=authorized.gate, authorizers=question.authorizers)
    return with_ledger(store, job), authorized


def _proofs(sets: Sets, version: KubernetesVersion) -> tuple[PolicyProof, ...]:
    """Return the claims about each changed policy."""
    from replay.prove.prover import proving  # noqa: PLC0415 - a run that proves nothing does not pay for it
    from replay.prove.sets import prove_policies  # noqa: PLC0415

    with proving(version) as prover:
        return tuple(each for each in prove_policies(prover, *sets) if each.is_changed)


def _accepted(options: Options) -> tuple[Acceptance, ...]:
    """Return the accepted findings. A named file that does not exist yet is empty."""
    return read_accepted(options.accepted) if options.accepted is not None and options.accepted.exists() else ()


def _saved(store: Store, job: Job, summary: Summary, scenario: Scenario, options: Options) -> list[str]:
    """Save the findings' cases if requested, and return notes."""
    if options.save_cases is None:
        return []
    from replay.pipeline.export import save_cases  # noqa: PLC0415 - other runs do not pay for it

    ready = with_history(store, job)
    return save_cases(store, ready, summary, scenario.candidate_paths, options)


class _RunExtras(NamedTuple):
    """Companions of a replay: kept results, authorizers' decisions, the finding filter.

    `health` is read while the workers run.
    """

    results: KeptResults | None
    authorized: Authorized | None
    finding_filter: FindingFilter
    health: Callable[[], object]


def _replay(store: Store, job: Job, options: Options, progress: Progress, aside: _RunExtras) -> RunOutcome:
    """Replay all selected requests of a store, except those with kept results."""
    store_results, authorized, finding_filter, health = aside
    # Classes in `old` have kept results, those in `kept_requests` have kept requests. Those in `to_replay` are replayed.
    old = store_results.read() if store_results is not None else {}
    changed = [requests for requests in store_results.files if requests not in old] if store_results is not None else []
    kept_requests = store_results.read_requests(changed) if store_results is not None else {}
    earlier = store_results.read_earlier(kept_requests) if store_results is not None and kept_requests else None
    to_replay = [requests for requests in changed if requests not in kept_requests]
    if store_results is not None:
        within = conjunction(job.within, of_classes(to_replay)) if to_replay else job.within
        job = replace(
            job, within=within, keeps_requests=bool(store_results.kept_requests), earlier=earlier and earlier.candidate
        )
    results: list[PartResult] = []
    new: dict[CoarseClass, ClassResult] = {}
    has_history, answers = authorized is not None, LogAnswers(store)
    with WorkerPool(store, (lambda: job) if has_history else partial(with_history, store, job), options) as worker_pool:
        world, archive = _kept_world(store_results, worker_pool)
        ask = partial(_ask_for_walks, answers, worker_pool, archive)
        if store_results is None:
            results, unread = _replay_parts(answers, worker_pool, progress, health)
            new = class_results(results, unread)
        if store_results is not None and to_replay:
            is_walked_here = sum(store_results.classes[requests] for requests in to_replay) < FEW_REQUESTS
            if not is_walked_here:
                prepare_workers(options)
            results, unread = _replay_parts(answers, worker_pool, progress, health, is_walked_here=is_walked_here)
            by_class = class_results(results, unread)
            new = {requests: by_class.get(requests, NOTHING) for requests in to_replay}
            store_results.write_requests(kept_classes(results, unread, to_replay))
        if store_results is not None and changed:
            by_difference = _corrected(kept_requests, earlier, ask, worker_pool, progress)
            rest = {requests: each for requests, each in kept_requests.items() if requests not in by_difference}
            new |= by_difference | _decided_again(rest, ask, worker_pool, progress)
            store_results.write(new)
            store_results.write_policies()
        classes = {**old, **new}
        if world is None:
            world = world_of(answers, worker_pool, _beginning(job, classes), progress, archive)
            if store_results is not None and archive is not None:
                store_results.write_world(world, archive.content)
    with whole_file(options.outcomes, "the outcomes") if options.outcomes else nullcontext() as file:
        summary, fidelity = merge(classes, world, finding_filter)
        if file is not None:
            write_lines(results, world, file, authorized.lines if authorized is not None else None)
    return RunOutcome(summary, fidelity, world.facts)


def _kept_world(
    store_results: KeptResults | None, worker_pool: WorkerPool[Job]
) -> tuple[World | None, KeptWalks | None]:
    """Return the kept consequences, else the kept walks."""
    if store_results is None:
        return None, None
    if (world := store_results.read_world()) is not None:
        return world, None
    return None, KeptWalks(store_results.read_walks(), lambda: worker_pool.job)


def _ask_for_walks(answers: LogAnswers, worker_pool: WorkerPool[Job], archive: KeptWalks | None) -> None:
    """Find now what the walks need, because this process would only wait for the workers."""
    answers.ask(worker_pool.job)
    if archive is not None:
        archive.check()


def _beginning(job: Job, classes: Mapping[CoarseClass, ClassResult]) -> Divergence:
    """Return the start of the differences. It is as large as the log, and freed after the walk."""
    differs = may_decide_differently(job)
    return Divergence.combined(result.divergence() for requests, result in classes.items() if differs(requests))


def _replay_parts(
    answers: LogAnswers,
    worker_pool: WorkerPool[Job],
    progress: Progress,
    health: Callable[[], object],
    *,
    is_walked_here: bool = False,
) -> tuple[list[PartResult], Unread]:
    """Return the results of all parts, and the counts of requests that need none. Few requests run in this process."""
    job, store = worker_pool.job, answers.store  # the job queries the store, so it is made before the store rests
    store.rest()
    parts = [store.whole()] if is_walked_here else worker_pool.parts()
    unread = cache(lambda: unread_counts(store, job.predicate, job.within))

    def ask() -> None:
        # All queries come before the results, which for a large log leave them little memory.
        health()
        unread()
        answers.ask(job)
        store.rest()

    results = worker_pool.run(RunPart(), worker_pool.shared(parts), progress, ask)
    return results, unread()


def _corrected(
    kept_requests: Mapping[CoarseClass, KeptClass],
    earlier: Earlier | None,
    ask: Callable[[], object],
    worker_pool: WorkerPool[Job],
    progress: Progress,
) -> dict[CoarseClass, ClassResult]:
    """Return the results of classes, corrected from those of an earlier candidate, where that is possible."""
    if earlier is None:
        return {}
    differing = {requests: each for requests, each in kept_requests.items() if requests in earlier.results}
    results = _run_again(differing, ask, worker_pool, progress, is_by_difference=True)
    added, removed = class_results(results, ()), removed_results(results)
    by_class = {
        requests: corrected(earlier.results[requests], removed.get(requests, NOTHING), added.get(requests, NOTHING))
        for requests in differing
    }
    return {requests: result for requests, result in by_class.items() if result is not None}


def _run_again(
    kept_requests: Mapping[CoarseClass, KeptClass],
    ask: Callable[[], object],
    worker_pool: WorkerPool[Job],
    progress: Progress,
    *,
    is_by_difference: bool = False,
) -> list[PartResult]:
    """Replay kept requests, a portion of them at a time. `ask` is called while the workers run."""
    portions = [KeptPortion(0, [], is_by_difference)]
    for block in (block for each in kept_requests.values() for block in each.blocks):
        if sum(map(len, portions[-1].blocks)) > PORTION_BYTES:
            portions.append(KeptPortion(len(portions), [], is_by_difference))
        portions[-1].blocks.append(block)
    worker_pool.job.compile()
    return worker_pool.run(RunAgain(), portions, progress, ask) if portions[0].blocks else []


def _decided_again(
    kept_requests: Mapping[CoarseClass, KeptClass],
    ask: Callable[[], object],
    worker_pool: WorkerPool[Job],
    progress: Progress,
) -> dict[CoarseClass, ClassResult]:
    """Return the results of classes whose requests are kept as of the validating phase."""
    by_class = class_results(_run_again(kept_requests, ask, worker_pool, progress), ())
    return {requests: joined(each.settled, by_class.get(requests, NOTHING)) for requests, each in kept_requests.items()}


def _kept(scenario: Scenario, store: Store, job: Job, options: Options) -> KeptResults | None:
    """Return a kept store's results.

    Not if webhooks are called, if lines are requested, or if decisions depend on earlier requests.
    """
    if (
        job.workspaces is not None
        or scenario.store is None
        or options.webhooks
        or options.outcomes is not None
        or counts_requests(job.distinct_sets)
    ):
        return None
    current, candidate = job.distinct_sets
    validating = {name for each in job.sets for name in policy_names(each, mutating=False)}
    base: tuple[str | bytes, ...] = (
        *(f"{entry.name} {file.path} {file.digest}" for entry in store.segments for file in entry.data),
        str(job.versions),
        orjson.dumps(sorted(policy_names(current))),
        orjson.dumps(sorted(validating & job.mutators)),
        f"{bool(policy_names(current, mutating=True))} {bool(job.mutators)} {job.mutates} {job.redact}",
        job.owner_label,
        orjson.dumps(job.snapshot),
        repr(job.within),
        repr(job.policy_writes),
        orjson.dumps([[each.objects, each.removed] for each in job.sets]),
        orjson.dumps([[each.name for each in manifests.builtin] for manifests in job.sets[:1]]),
    )
    classes = {CoarseClass(*columns): count for *columns, count in store.answer("admission_classes")}
    mapper = EquivalentResourceMapper(Cluster(job.snapshot).discovery)
    selector = partial(may_select, mapper=mapper, excluded=job.excluded)
    # A kept request lacks the policies in force at its time and the answers of webhooks.
    keeps_requests = not job.policy_writes and job.webhooks == NO_WEBHOOK_ANSWERS
    return kept_results(store.storage, base, (current, candidate), classes, selector, keeps_requests=keeps_requests)

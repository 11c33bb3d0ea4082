"""`replay verify`: replay the set that is said to have been in force, and compare it with the log."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from replay.admission.builtin.pod.service_account import ServiceAccount
from replay.admission.decision import Verdict
from replay.admission.ordered.registry import policy_names
from replay.audit.answer import RefusalPhase, observe, wording_of
from replay.audit.event import RequestRecord
from replay.audit.ingest import Progress
from replay.audit.part import StorePart
from replay.audit.store import Store
from replay.compare.fidelity import Fidelity
from replay.compare.in_force import (
    EngineAgreement,
    Evidence,
    UnknownPolicy,
    another_set,
    evidence_of,
    findings_of,
    mutation_evidence,
    note_unknown_policies,
)
from replay.compare.presence import written_policies
from replay.compare.result import VerifyResult
from replay.compare.tally import Tally
from replay.distribution import install_command
from replay.errors import ReplayError
from replay.kube.admissionregistration import ValidatingAdmissionPolicy
from replay.matching.rules import EquivalentResourceMapper
from replay.pipeline.authorization.run import authorization_inputs, replay_authorization
from replay.pipeline.facts import health_notes, log_facts, set_facts
from replay.pipeline.log import filled
from replay.pipeline.manifests import Manifests, manifests_of
from replay.pipeline.options import Options
from replay.pipeline.project.focus import within
from replay.pipeline.replay.job import Job
from replay.pipeline.replay.preparation import job_of
from replay.pipeline.replay.redaction import redactor_of
from replay.pipeline.replay.replayer import as_far_as_reached
from replay.pipeline.replay.workers import prepare_workers, replay_parts
from replay.pipeline.scenario import Scenario
from replay.reconstruct.reached import FORBIDDEN
from replay.reconstruct.request import Reached, ReplayRequest
from replay.report.render.document import moment
from replay.storage.scratch import scratch

NAMESPACE_DELAY = 2_000_000
"""Microseconds in which a namespace's change may not have reached all API servers."""
WRITES = frozenset({"create", "update", "patch", "delete"})
SAMPLE = 25
"""Sampling rate of the second engine."""
_RANDOM = frozenset({ServiceAccount.name})
"""Plugins whose mutations have random names, which no second evaluation has."""


if TYPE_CHECKING:
    from replay.compare.second_opinion import SecondOpinion


class VerifyPart(Tally):
    """Findings of one part of the log."""

    fidelity: Fidelity = field(default_factory=Fidelity)
    decided: int = 0
    total: int = 0
    evidence: list[Evidence] = field(default_factory=list)
    unknown_policies: dict[str, UnknownPolicy] = field(default_factory=dict)
    opinions: EngineAgreement = field(default_factory=EngineAgreement)


class VerifyJob(Struct, frozen=True, dict=True):
    """The work of one worker."""

    job: Job
    second_opinion: bool = False

    @cached_property
    def _policies(self) -> frozenset[str]:
        return policy_names(self.job.distinct_sets[0])

    @cached_property
    def _mutating(self) -> frozenset[str]:
        return policy_names(self.job.distinct_sets[0], mutating=True) - _RANDOM

    @cached_property
    def _other_engine(self) -> SecondOpinion | None:
        if not self.second_opinion:
            return None
        from replay.compare.second_opinion import SecondOpinion  # noqa: PLC0415 - an engine that may not be there

        mapper = EquivalentResourceMapper(self.job.cluster.discovery)
        return SecondOpinion(self.job.sets[0].of(ValidatingAdmissionPolicy), self.job.version, mapper)

    @cached_property
    def _namespaces(self) -> dict[str, list[RequestRecord]]:
        """Return the writes to each namespace. Only their times matter."""
        lookups = self.job.lookups
        return {
            key.name: [record._replace(request_object=None, response_object=None) for record in lookups[key]]
            for key in lookups
            if key[:2] == ("", "namespaces")
        }

    def run(self, part: StorePart) -> VerifyPart:
        """Compare all requests of a part."""
        result = VerifyPart()
        for records in part.objects(self.job.predicate):
            job = self._job_that_mutates_again if any(map(_is_refused_early, records)) else self.job
            for request in job.reconstructor.requests(records):
                self._compare(job, request, records, result)
        return result

    @cached_property
    def _job_that_mutates_again(self) -> Job:
        """The job in which plugins mutate objects again.

        It is for objects of which a plugin denied a request before mutation.
        """
        return replace(self.job, mutates_again=True)

    def _compare(self, job: Job, request: ReplayRequest, records: Sequence[RequestRecord], part: VerifyPart) -> None:
        record = request.record
        if request.reached is Reached.FAILED_BEFORE:
            return
        lister = job.cluster.at(record)
        decisions = job.server.decisions(request, lister)
        decision = as_far_as_reached(request, decisions)[0]
        part.total += 1
        part.decided += decision.verdict is not Verdict.UNDETERMINED
        observed = observe(record)
        redactor = redactor_of(request, redact=self.job.redact)
        comparison = (record.seq, record.audit_id, observed, decision, self._policies, redactor.text)
        part.fidelity.record(*comparison, in_any_order=bool(record.workspace))
        contention = self._contention(record, records)
        evidence = [*evidence_of(record, observed, decision, self._policies, contention)]
        evidence += mutation_evidence(record, decision, request.attributes.object, self._mutating, redactor.patch)
        part.evidence += (
            each._replace(observed=redactor.text(each.observed), replayed=redactor.text(each.replayed))
            for each in evidence
        )
        note_unknown_policies(part.unknown_policies, record, observed, self._policies)
        # The audit ID chooses, so that every run samples the same requests.
        if self._other_engine is not None and zlib.crc32(record.audit_id.encode()) % SAMPLE == 0:
            part.opinions.add(self._other_engine.ask(record.audit_id, request.attributes, lister))

    def _contention(self, record: RequestRecord, records: Iterable[RequestRecord]) -> str:
        """Return concurrent changes of the object or its namespace."""
        if record.verb in ("update", "patch") and any(
            other is not record and other.verb in WRITES and _overlap(other, record, 0) for other in records
        ):
            return "the request was tried again after a conflict: the annotations are those of its first attempt"
        if any(_overlap(other, record, NAMESPACE_DELAY) for other in self._namespaces.get(record.namespace, ())):
            return "another request changed its namespace at the same time"
        return ""


def _is_refused_early(record: RequestRecord) -> bool:
    """Return whether a built-in plugin refused a request before policies could change it."""
    wording = wording_of(record.status_message, record.resource) if record.code >= FORBIDDEN else None
    return wording is not None and wording.phase is RefusalPhase.BEFORE_MUTATION


def _overlap(other: RequestRecord, record: RequestRecord, delay: int) -> bool:
    return other.received <= record.stage_time and record.received <= other.stage_time + delay


def verify(scenario: Scenario, options: Options, progress: Progress, *, second_opinion: bool = False) -> VerifyResult:
    """Compare a log with the set in force. Raise ReplayError for unusable input."""
    current = _current(scenario)
    if second_opinion and find_spec("celpy") is None:
        raise ReplayError(f"cel-python is not installed: {install_command('second-opinion')}", path="--second-opinion")
    prepare_workers(options)
    manifests = manifests_of(replace(scenario, candidate=None))
    authorizers = authorization_inputs(manifests, options)
    with filled(scenario, progress, options.fleet) as (store, ingest), scratch() as spool:
        says = manifests.sets[0].names_plugins
        job = replace(job_of(store, manifests, options, spool, with_plugins=says), authorizers=authorizers)
        job = within(store, job, options.focus)
        authorized = replay_authorization(store, authorizers, job).summary if authorizers is not None else None
        work = VerifyJob(job, second_opinion)
        whole = _compared_parts(work, store, options, progress)
        facts = log_facts(scenario, store, ingest, whole.total)
        notes = (*options.focus.notes, *health_notes(store, job))
        written = written_policies(store, manifests.sets[0])
    return VerifyResult(
        log=facts,
        current=set_facts(current, manifests.sets[0]),
        fidelity=whole.fidelity,
        decided=whole.decided,
        total=whole.total,
        findings=findings_of(whole.evidence, whole.fidelity.most_failures, written),
        unknown_policies=whole.unknown_policies,
        notes=notes,
        opinions=whole.opinions if second_opinion else None,
        authorization=authorized,
    )


def _compared_parts(work: VerifyJob, store: Store, options: Options, progress: Progress) -> VerifyPart:
    """Return the comparison of all parts of a store."""
    whole = VerifyPart()
    for part in replay_parts(work, store, options, progress):
        whole.add(part)
    whole.fidelity.settle()
    return whole


def cause_of_mismatch(store: Store, manifests: Manifests, options: Options, progress: Progress, reproduced: int) -> str:
    """Return why the baseline reproduces only `reproduced` decisions of the log, in a sentence, or "".

    It replays the log with each set as `replay verify` does, which a run only pays for if its baseline does not match.
    """
    # The candidate comes first: if the sets are swapped, the baseline also looks like a set that was not in force.
    planned = replace(manifests, current=manifests.sets[1], candidate=None)
    by_candidate, compared = _compared(store, planned, options, progress).fidelity.compared
    if by_candidate > reproduced:
        agree = f"{by_candidate:,} of {compared:,} decisions"
        return f"The candidate matches the log better ({agree}): the sets are probably swapped."
    evidence = _compared(store, replace(manifests, candidate=None), options, progress).evidence
    begin, end = another_set(findings_of(evidence).histories)
    if end:
        return f"Another set was probably in force until {moment(end)}."
    return f"Another set was probably in force after {moment(begin)}." if begin else ""


def _compared(store: Store, manifests: Manifests, options: Options, progress: Progress) -> VerifyPart:
    """Return the comparison of the log with the baseline of `manifests`."""
    with scratch() as spool:
        says = manifests.sets[0].names_plugins
        job = within(store, job_of(store, manifests, options, spool, with_plugins=says), options.focus)
        return _compared_parts(VerifyJob(job), store, options, progress)


def _current(scenario: Scenario) -> Path:
    """Return the path of the baseline. Raise ReplayError if it is not given."""
    if scenario.current is None:
        raise ReplayError(
            "no manifest set: give --current with the set that was in force",
            path=scenario.logs[0] if scenario.logs else str(scenario.store or ""),
        )
    return scenario.current

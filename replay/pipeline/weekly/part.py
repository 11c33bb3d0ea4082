"""The effects of single policies on one part of a log, by period: a worker's task for a weekly report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple, Self

from msgspec import Struct, field

from replay.admission.decision import Decision
from replay.audit.answer import Observed, observe
from replay.audit.part import StorePart
from replay.audit.period import Period
from replay.audit.place import LogPosition
from replay.compare.fidelity import Fidelity
from replay.compare.outcome import outcome_kind
from replay.compare.subject import owner, subject, workload
from replay.compare.summary import Gap, with_workspace
from replay.compare.tally import Tally
from replay.compare.weekly import (
    EffectAction,
    EffectCell,
    EffectCounts,
    EffectKey,
    EffectSide,
    PolicyEffect,
    effects_of,
)
from replay.kcp.binding import DecidedIn
from replay.kube.lister import Lister
from replay.matching.coarse import both
from replay.pipeline.replay.divergence import Divergence
from replay.pipeline.replay.job import Job
from replay.pipeline.replay.redaction import redacted_decision, redactor_of
from replay.pipeline.replay.replayer import stored_subject
from replay.pipeline.replay.world import World
from replay.pipeline.weekly.consequence import Enforcement, PeriodSide
from replay.reconstruct.request import Reached, ReplayRequest
from replay.world.decide import with_logged_denial

_WOULD_DENY = frozenset(
    {
        (EffectSide.CANDIDATE, EffectAction.DENY),
        (EffectSide.CURRENT, EffectAction.WARN),
        (EffectSide.CURRENT, EffectAction.AUDIT),
    }
)
"""The effects that promotions consist of."""


def in_workspace(workspace: str, namespace: str) -> str:
    """Return a namespace with its workspace. Cluster-scoped objects have the workspace alone."""
    return " ".join(each for each in (workspace, namespace) if each)


class FileAgreement(Tally):
    """The agreement of the baseline with one log file, and the times of its first and last reproduced decision."""

    fidelity: Fidelity = field(default_factory=Fidelity)
    first: int = 0
    last: int = 0

    def record(
        self,
        request: ReplayRequest,
        observed: Observed,
        decision: Decision,
        policies: frozenset[str],
        shown: Callable[[str], str],
    ) -> None:
        """Compare one request with the log (see `Fidelity.record`)."""
        record, reproduced_before = request.record, self.reproduced
        self.fidelity.record(
            record.seq, record.audit_id, observed, decision, policies, shown, in_any_order=bool(record.workspace)
        )
        if self.reproduced > reproduced_before:
            self._extend_period(record.stage_time, record.stage_time)

    @property
    def reproduced(self) -> int:
        """Return the number of logged decisions that the set reproduces."""
        fidelity = self.fidelity
        return fidelity.denials.reproduced + fidelity.failures.reproduced + fidelity.annotations.reproduced

    def add(self, other: Self) -> None:
        """Merge another part of the log."""
        self.fidelity.add(other.fidelity)
        if other.first:
            self._extend_period(other.first, other.last)

    def _extend_period(self, first: int, last: int) -> None:
        self.first = min(self.first, first) if self.first else first
        self.last = max(self.last, last)


class WeeklyPart(Tally):
    """The counts of one part of the log. Merging is commutative.

    `undecided` counts requests by period and set. `gaps` and `witnesses` are of the last period alone. `divergence` are the
    requests from which each enforced set diverges. `would_deny` keeps the new denials one by one until the consequences
    are known.
    """

    effects: EffectCounts = field(default_factory=EffectCounts)
    would_deny: dict[EffectKey, list[tuple[LogPosition, EffectCell]]] = field(default_factory=dict)
    divergence: dict[PeriodSide, Divergence] = field(default_factory=dict)
    undecided: Counter[tuple[int, EffectSide]] = field(default_factory=Counter)
    gaps: Counter[Gap] = field(default_factory=Counter)
    not_reached: Counter[str] = field(default_factory=Counter)
    witnesses: dict[str, FileAgreement] = field(default_factory=dict)

    def count_new_denials(self, worlds: Mapping[PeriodSide, World], step: int) -> None:
        """Count the new denials, after it is known which of them are consequences."""
        for key, entries in self.would_deny.items():
            world = worlds.get((key.period, key.side), World())
            for place, cell in entries:
                self.effects.count(
                    key._replace(follows=world.causing_request(place) is not None), cell, cell.first // step * step
                )
        self.would_deny.clear()


class EffectOf(NamedTuple):
    """One effect, its side, and whether the baseline denies the request anyway."""

    period: int
    side: EffectSide
    effect: PolicyEffect
    denied: bool


class WeeklyTask(Struct, frozen=True):
    """The task for every part.

    `periods` ends with the period of the report. `step` is that of its time series. `sides` are the given sets,
    parallel to the decisions. `owner_label` is a label of namespaces.
    """

    periods: tuple[Period, ...]
    step: int
    sides: tuple[EffectSide, ...]
    owner_label: str
    enforcement: Enforcement

    def run(self, job: Job, part: StorePart) -> WeeklyPart:
        """Decide the requests of the periods. All others only give the history of their objects."""
        part_figures = WeeklyPart()
        reconstructor = job.replayer.reconstructor
        for records in part.objects(job.predicate if job.within is None else both(job.predicate, job.within)):
            for request in reconstructor.requests(records):
                at = request.record.stage_time
                position = next((i for i, period in enumerate(self.periods) if at in period), -1)
                if position >= 0:
                    self._count(job, request, position, part_figures)
        return part_figures

    def _count(self, job: Job, request: ReplayRequest, position: int, part: WeeklyPart) -> None:
        last = position == len(self.periods) - 1
        replayer, record = job.replayer, request.record
        current, candidate = replayer.decisions(request)
        self._begin(job, request, position, (current, candidate), part)
        if request.reached is Reached.FAILED_BEFORE:
            if last:
                part.not_reached[request.reached_reason] += 1
            return
        lister = replayer.cluster.at(record)
        decisions = {EffectSide.CURRENT: current, EffectSide.CANDIDATE: candidate}
        redactor = redactor_of(request, redact=job.redact)
        # Earlier periods only give numbers to compare with.
        if last and EffectSide.CURRENT in self.sides:
            witness = part.witnesses.setdefault(record.file, FileAgreement())
            witness.record(request, observe(record), current, replayer.policies, redactor.text)
        for side in self.sides:
            decision = redacted_decision(redactor, decisions[side])
            if decision.undetermined:
                part.undecided[position, side] += 1
                if last:
                    own = _home(job.server.workspaces_of(record), side)
                    unknown = decision.undetermined
                    part.gaps.update(
                        {Gap(with_workspace([u.policy], own)[0], u.path, u.reason, u.fix) for u in unknown}
                    )
            for effect in effects_of(decision):
                self._effect(job, request, EffectOf(position, side, effect, bool(current.denials)), part, lister)

    def _effect(self, job: Job, request: ReplayRequest, effect_of: EffectOf, part: WeeklyPart, lister: Lister) -> None:
        attributes, record = request.attributes, request.record
        action, policy, message = effect_of.effect
        resource = str(attributes.resource.group_resource)
        decided_in = job.server.workspaces_of(record)
        workspace, home = decided_in.workspace, _home(decided_in, effect_of.side)
        key = EffectKey(
            period=effect_of.period,
            side=effect_of.side,
            action=action,
            policy=with_workspace([policy], home)[0],
            user=attributes.user_info.username,
            namespace=in_workspace(workspace, attributes.namespace),
            resource=f"{resource}/{attributes.subresource}" if attributes.subresource else resource,
            workload=workload(attributes, job.owners),
            denied=effect_of.denied,
            owner=owner(attributes.namespace, self.owner_label, lister),
            workspace=workspace,
        )
        cell = EffectCell(1, record.stage_time, record.stage_time, record.audit_id, message)
        # Whether it is a consequence is known only after the walks (`count_new_denials`).
        if not effect_of.denied and (effect_of.side, action) in _WOULD_DENY:
            part.would_deny.setdefault(key, []).append((LogPosition(record.seq, request.item), cell))
        else:
            part.effects.count(key, cell, record.stage_time // self.step * self.step)

    def _begin(
        self,
        job: Job,
        request: ReplayRequest,
        position: int,
        decisions: tuple[Decision, Decision],
        part: WeeklyPart,
    ) -> None:
        """Note a request from which an enforced set diverges."""
        record = request.record
        current, candidate = with_logged_denial(record, decisions, job.decided_alike)
        about = stored_subject(record, subject(request.attributes))
        kind = outcome_kind(current, candidate)
        if self.enforcement.candidate and job.replayer.diverges(request, kind, (current, candidate)):
            divergence = part.divergence.setdefault((position, EffectSide.CANDIDATE), Divergence())
            divergence.add_finding(
                record.seq, about, record.audit_id, job.replayer.ends(request, kind, (current, candidate))
            )
        trial = self.enforcement.trial.get(job.server.workspaces_of(record).policies)
        if trial and not current.denials and any(each.policy in trial for each in effects_of(current)):
            divergence = part.divergence.setdefault((position, EffectSide.CURRENT), Divergence())
            divergence.add_finding(record.seq, about, record.audit_id)


def _home(decided_in: DecidedIn, side: EffectSide) -> str:
    """Return the kcp workspace whose policies a set evaluates for a request."""
    return decided_in.planned if side is EffectSide.CANDIDATE else decided_in.policies

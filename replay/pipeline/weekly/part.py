"""The effects of single policies on the requests of one part of a log, by period: what a worker does for a weekly report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from replay.admission.decision import Decision
from replay.audit.observed import Observed, observe
from replay.audit.part import StorePart
from replay.audit.period import Period
from replay.compare.fidelity import Fidelity
from replay.compare.summary import Gap
from replay.compare.weekly.effect import EffectCell, EffectKey, Effects, PolicyEffect, Side, effects_of
from replay.compare.workload import workload
from replay.kube.gvk import GroupVersionKind
from replay.kube.lister import Lister
from replay.pipeline.replay.job import Job
from replay.pipeline.replay.redaction import redacted_decision, redactor_of
from replay.pipeline.replay.replayer import as_far_as_reached
from replay.reconstruct.request import Reached, ReplayRequest

_NAMESPACE = GroupVersionKind("", "v1", "Namespace")


@dataclass(slots=True)
class Witness:
    """Agreement of the current set with one log file, and when its decisions were reproduced first and last."""

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
        """Compare one request with what the log says of it; see `Fidelity.record`."""
        record, kept = request.record, self.reproduced
        self.fidelity.record(record.seq, record.audit_id, observed, decision, policies, shown)
        if self.reproduced > kept:
            self._seen(record.stage_time, record.stage_time)

    @property
    def reproduced(self) -> int:
        """How many decisions of the log the set reproduces."""
        found = self.fidelity
        return found.denials.reproduced + found.failures.reproduced + found.annotations.reproduced

    def add(self, other: Witness) -> None:
        """Merge another part of the log."""
        self.fidelity.add(other.fidelity)
        if other.first:
            self._seen(other.first, other.last)

    def _seen(self, first: int, last: int) -> None:
        self.first = min(self.first, first) if self.first else first
        self.last = max(self.last, last)


@dataclass(slots=True)
class WeeklyPart:
    """What one part of the log has to say; merging is commutative.

    `undecided` counts requests by (period, set), `gaps` and `witnesses` are of the last period alone.
    """

    effects: Effects = field(default_factory=Effects)
    undecided: Counter[tuple[int, Side]] = field(default_factory=Counter)
    gaps: Counter[Gap] = field(default_factory=Counter)
    not_reached: Counter[str] = field(default_factory=Counter)
    witnesses: dict[str, Witness] = field(default_factory=dict)

    def add(self, other: WeeklyPart) -> None:
        """Merge another part of the log."""
        self.effects.add(other.effects)
        self.undecided.update(other.undecided)
        self.gaps.update(other.gaps)
        self.not_reached.update(other.not_reached)
        for file, witness in other.witnesses.items():
            self.witnesses.setdefault(file, Witness()).add(witness)


class EffectOf(NamedTuple):
    """One effect, whose it is, and whether the current set denies the request anyway."""

    period: int
    side: Side
    effect: PolicyEffect
    denied: bool


@dataclass(frozen=True)
class WeeklyJob:
    """The same for every part. `periods` ends with the one that the report is about; `step` is that of its time series.

    `sides` are the sets that were given, parallel to the decisions; `owner_label` is a label of namespaces.
    """

    job: Job
    periods: tuple[Period, ...]
    step: int
    sides: tuple[Side, ...]
    owner_label: str

    def run(self, part: StorePart) -> WeeklyPart:
        """Decide the requests of the periods; the others only tell the history of their objects."""
        found = WeeklyPart()
        reconstructor = self.job.replayer.reconstructor
        for records in part.objects(self.job.predicate):
            for request in reconstructor.requests(records):
                at = request.record.stage_time
                position = next((i for i, period in enumerate(self.periods) if at in period), -1)
                if position >= 0:
                    self._count(request, position, found)
        return found

    def _count(self, request: ReplayRequest, position: int, found: WeeklyPart) -> None:
        last = position == len(self.periods) - 1
        if request.reached is Reached.FAILED_BEFORE:
            if last:
                found.not_reached[request.reached_reason] += 1
            return
        replayer, record = self.job.replayer, request.record
        lister = replayer.cluster.at(record)
        current, candidate = as_far_as_reached(request, replayer.decide(request, lister))
        decisions = {Side.CURRENT: current, Side.CANDIDATE: candidate}
        redactor = redactor_of(request, redact=self.job.redact)
        if last and Side.CURRENT in self.sides:
            witness = found.witnesses.setdefault(record.file, Witness())
            witness.record(request, observe(record), current, replayer.policies, redactor.text)
        for side in self.sides:
            decision = redacted_decision(redactor, decisions[side])
            if decision.undetermined:
                found.undecided[position, side] += 1
                if last:
                    found.gaps.update({Gap(u.policy, u.path, u.reason, u.fix) for u in decision.undetermined})
            for effect in effects_of(decision):
                self._effect(request, EffectOf(position, side, effect, bool(current.denials)), found, lister)

    def _effect(self, request: ReplayRequest, of: EffectOf, found: WeeklyPart, lister: Lister) -> None:
        attributes, record = request.attributes, request.record
        action, policy, message = of.effect
        resource = str(attributes.resource.group_resource)
        key = EffectKey(
            period=of.period,
            side=of.side,
            action=action,
            policy=policy,
            user=attributes.user_info.username,
            namespace=attributes.namespace,
            resource=f"{resource}/{attributes.subresource}" if attributes.subresource else resource,
            workload=workload(attributes, self.job.owners),
            denied=of.denied,
            owner=self._owner(attributes.namespace, lister),
        )
        cell = EffectCell(1, record.stage_time, record.stage_time, record.audit_id, message)
        found.effects.count(key, cell, record.stage_time // self.step * self.step)

    def _owner(self, namespace: str, lister: Lister) -> str:
        """The owner that the namespace's label names, empty where there is none or it is not known."""
        if not (namespace and self.owner_label):
            return ""
        found = lister.get(_NAMESPACE, "", namespace)
        metadata = found.get("metadata") if isinstance(found, dict) else None
        labels = metadata.get("labels") if isinstance(metadata, dict) else None
        value = labels.get(self.owner_label) if isinstance(labels, dict) else None
        return value if isinstance(value, str) else ""

"""The figures of one period, from the log and from the replay.

Pods are evaluated against every Pod Security level, and their resources are counted, by namespace.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from msgspec import Struct, field

from replay.admission.builtin.partial import UnknownInputError, guarded
from replay.admission.builtin.pod.resources import amounts, pod_amounts, raise_to
from replay.admission.builtin.pod_security.pod import Pod
from replay.admission.builtin.pod_security.standard import LATEST, LevelVersion, violations
from replay.admission.builtin.run import MALFORMED
from replay.audit.part import StorePart
from replay.audit.period import Period
from replay.audit.store import Store
from replay.compare.readiness import LEVELS, NamespaceReadiness
from replay.compare.subject import workload
from replay.compare.summary import with_workspace
from replay.compare.weekly import (
    ActionFigures,
    DenialGroup,
    EffectAction,
    EffectSide,
    Figures,
    FigureSource,
    WorkspaceFigures,
)
from replay.json import JSON
from replay.kube.attributes import Attributes, Missing, Operation, PartialObject
from replay.kube.quantity import Quantity
from replay.matching.coarse import Predicate, both
from replay.pipeline.replay.job import Job
from replay.pipeline.weekly.part import WeeklyPart, in_workspace
from replay.pipeline.weekly.promotion import promotions
from replay.pipeline.weekly.scope import ReportScope
from replay.reconstruct.request import Reached, ReplayRequest

_SHOWN = (EffectAction.DENY, EffectAction.WARN, EffectAction.AUDIT, EffectAction.MUTATE, EffectAction.FAILED_OPEN)
_UNTRACED = (EffectAction.WARN, EffectAction.MUTATE)
"""Effects without a trace in the log: warnings and mutations by policies."""


class _Tally(Struct):
    """Counts of one policy and action."""

    requests: int = 0
    first: int = 0
    last: int = 0
    users: set[str] = field(default_factory=set)
    namespaces: set[str] = field(default_factory=set)
    timeline: Counter[int] = field(default_factory=Counter)

    def add(self, user: str, namespace: str, requests: int, first: int, last: int) -> None:
        self.first = min(self.first, first) if self.requests else first
        self.last = max(self.last, last)
        self.requests += requests
        self.users.add(user)
        self.namespaces.add(namespace)


_Tallies = dict[tuple[str, EffectAction], _Tally]


class Slot(NamedTuple):
    """A period, its position in the workers' counts, and the step of its time series."""

    position: int
    period: Period
    step: int


def figures_of(store: Store, scope: ReportScope, part: WeeklyPart, slot: Slot) -> Figures:
    """Return one period in numbers."""
    position, period, step = slot
    parameters = {"start": period.start, "end": period.end}
    rows = store.query("period_decisions", step=step, by_request=scope.is_shard, **parameters).iter_rows()
    logged, denials, by_workspace = _logged(rows, scope)
    names = store.query("period_names", **parameters)
    return Figures(
        period=period,
        step=step,
        steps=dict(store.query("period_requests", step=step, **parameters).iter_rows()),
        actions=tuple(
            sorted(
                [*_figures(logged, FigureSource.LOG), *_figures(_replayed(part, position), FigureSource.REPLAY)],
                key=_order,
            )
        ),
        promotions=promotions(store, scope, part.effects, position, period),
        denials=denials,
        users=frozenset(names["username"].to_list()),
        namespaces=frozenset(names["namespace"].to_list()) - {""},
        workspaces=_workspaces(by_workspace, part, position),
        # Both sets decide the same requests, so their numbers are not added.
        undecided=max((part.undecided[position, side] for side in EffectSide), default=0),
    )


def _logged(
    rows: Iterable[tuple[Any, ...]], scope: ReportScope
) -> tuple[_Tallies, frozenset[DenialGroup], dict[str, Counter[EffectAction]]]:
    """Return what the log itself shows: counts, denials, and counts by workspace."""
    tallies: _Tallies = {}
    denials: set[DenialGroup] = set()
    workspaces: dict[str, Counter[EffectAction]] = {}
    for action, bare, start, user, name, _, request, requests, first, last in rows:
        place = scope.place(request)
        if action not in _SHOWN or place is None:
            continue
        workspace, policy_workspace = place
        (policy,), namespace = with_workspace([bare], policy_workspace), in_workspace(workspace, name)
        if workspace:
            workspaces.setdefault(workspace, Counter())[EffectAction(action)] += requests
        tally = tallies.setdefault((policy or "", EffectAction(action)), _Tally())
        tally.add(user, namespace if name else "", requests, first, last)
        tally.timeline[start] += requests
        if action == EffectAction.DENY:
            denials.add(DenialGroup(policy or "", user, namespace))
    return tallies, frozenset(denials), workspaces


def _workspaces(
    logged: Mapping[str, Counter[EffectAction]], part: WeeklyPart, position: int
) -> tuple[WorkspaceFigures, ...]:
    """Return the effects on each workspace, and the candidate's new denials; most first."""
    actions_by_path = {path: Counter(actions) for path, actions in logged.items()}
    planned: Counter[str] = Counter()
    undecided: Counter[str] = Counter()
    for key, cell in part.effects.cells.items():
        if key.period != position or not key.workspace:
            continue
        own = actions_by_path.setdefault(key.workspace, Counter())
        if key.side is EffectSide.CURRENT:
            own[key.action] += cell.count if key.action in _UNTRACED else 0
        else:
            planned[key.workspace] += cell.count if key.action is EffectAction.DENY and key.is_root else 0
            undecided[key.workspace] += cell.count if key.action is EffectAction.UNDETERMINED else 0
    workspaces = [
        # The plus drops actions without a request.
        WorkspaceFigures(path, +actions, planned[path], undecided[path])
        for path, actions in actions_by_path.items()
    ]
    workspaces = [each for each in workspaces if each.actions or each.newly_denied or each.undecided]
    return tuple(
        sorted(workspaces, key=lambda each: (-each.newly_denied, -each.total(EffectAction.DENY), each.workspace))
    )


def _replayed(part: WeeklyPart, position: int) -> _Tallies:
    """Return the baseline's effects without a trace."""
    tallies: _Tallies = {}
    for key, cell in part.effects.cells.items():
        if key.period == position and key.side is EffectSide.CURRENT and key.action in _UNTRACED:
            tally = tallies.setdefault((key.policy, key.action), _Tally())
            # Cluster-scoped objects have the workspace in place of a namespace.
            namespace = key.namespace if key.namespace != key.workspace else ""
            tally.add(key.user, namespace, cell.count, cell.first, cell.last)
    for bucket, count in part.effects.timeline.items():
        if bucket.period == position and bucket.side is EffectSide.CURRENT and bucket.action in _UNTRACED:
            tallies[bucket.policy, bucket.action].timeline[bucket.start] += count
    return tallies


def _figures(tallies: _Tallies, source: FigureSource) -> Iterator[ActionFigures]:
    for (policy, action), tally in tallies.items():
        yield ActionFigures(
            policy=policy,
            action=action,
            source=source,
            requests=tally.requests,
            users=len(tally.users),
            namespaces=len(tally.namespaces - {""}),
            first=tally.first,
            last=tally.last,
            timeline=dict(sorted(tally.timeline.items())),
        )


def _order(figures: ActionFigures) -> tuple[int, int, str]:
    return _SHOWN.index(figures.action), -figures.requests, figures.policy


_PODS = Predicate("(api_group = '' and resource = 'pods' and verb in ('create', 'delete', 'update', 'patch'))", ())
_ENDED = ("Succeeded", "Failed")

ReadinessByNamespace = dict[str, NamespaceReadiness]


class ReadinessJob(Struct, frozen=True):
    """The job of every part: the pods of a period, at the newest standards or those of an older minor version."""

    job: Job
    period: Period

    def run(self, part: StorePart) -> ReadinessByNamespace:
        """Return the pods of one part, by namespace."""
        readiness: ReadinessByNamespace = {}
        within = self.job.within
        for records in part.objects(_PODS if within is None else both(_PODS, within)):
            for request in self.job.reconstructor.requests(records):
                if request.record.stage_time in self.period and request.reached is not Reached.FAILED_BEFORE:
                    self._count(request, readiness)
        return readiness

    def _count(self, request: ReplayRequest, readiness: ReadinessByNamespace) -> None:
        attributes, record = request.attributes, request.record
        succeeded, at = record.code < 400, record.stage_time
        name = f"{attributes.namespace}/{attributes.name}"
        if attributes.operation is Operation.CREATE and not attributes.subresource:
            if not succeeded:
                return
            own = readiness.setdefault(attributes.namespace, NamespaceReadiness())
            own.pods += 1
            pod = _readable(attributes.object)
            try:
                self._hold(pod, attributes, own)
                own.steps.append((at, name, 1, _requested(pod["spec"])))
            except (UnknownInputError, *MALFORMED):
                own.unknown += 1
        elif succeeded and (attributes.operation is Operation.DELETE or _has_ended(attributes)):
            own = readiness.setdefault(attributes.namespace, NamespaceReadiness())
            own.steps.append((at, name, -1, {}))

    def _hold(self, pod: JSON, attributes: Attributes, own: NamespaceReadiness) -> None:
        """Check one pod against each level."""
        for level in LEVELS:
            against = violations(LevelVersion(level, LATEST), self.job.version.minor, Pod(pod["metadata"], pod["spec"]))
            own.denied[level] += bool(against)
            for each in against:
                obstacle = workload(attributes, self.job.owners), each.reason, each.detail
                own.obstacles.setdefault(level, Counter())[obstacle] += 1
        for container in (*(pod["spec"].get("initContainers") or ()), *(pod["spec"].get("containers") or ())):
            for kind in ("requests", "limits"):
                container_amounts = amounts((container.get("resources") or {}).get(kind))
                raise_to(own.most.setdefault(kind, {}), container_amounts)


def _readable(value: object) -> JSON:
    if isinstance(value, Missing):
        return guarded({"metadata": value, "spec": value})
    return guarded(value.value) if isinstance(value, PartialObject) else value


def _requested(spec: JSON) -> dict[str, Quantity]:
    """Return the amounts that a quota would charge."""
    return {
        f"{kind}.{name}": value for kind in ("requests", "limits") for name, value in pod_amounts(spec, kind).items()
    }


def _has_ended(attributes: Attributes) -> bool:
    """Return whether an update reports a pod's end. It is not charged from then on."""
    value = attributes.object.value if isinstance(attributes.object, PartialObject) else attributes.object
    status = value.get("status") if isinstance(value, dict) else None
    return isinstance(status, dict) and status.get("phase") in _ENDED

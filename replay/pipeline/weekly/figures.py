"""The figures of one period, from what the log says and what the replay adds to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from replay.audit.period import Period
from replay.audit.store import Store
from replay.compare.weekly.effect import EffectAction, Side
from replay.compare.weekly.figures import ActionFigures, DenialGroup, Figures, Source
from replay.pipeline.manifests import Manifests
from replay.pipeline.weekly.part import WeeklyPart
from replay.pipeline.weekly.promotion import promotions

_SHOWN = (EffectAction.DENY, EffectAction.WARN, EffectAction.AUDIT, EffectAction.MUTATE, EffectAction.FAILED_OPEN)
_UNTRACED = (EffectAction.WARN, EffectAction.MUTATE)
"""What the server leaves no trace of: warnings, and what mutating policies change."""


@dataclass(slots=True)
class _Tally:
    """One policy and action while they are counted."""

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
    """A period, its place in what the workers counted, and the step of its time series."""

    position: int
    period: Period
    step: int


def figures_of(store: Store, manifests: Manifests, part: WeeklyPart, slot: Slot) -> Figures:
    """One period in numbers."""
    position, period, step = slot
    parameters = {"start": period.start, "end": period.end}
    rows = store.query("period_decisions", step=step, **parameters).iter_rows()
    logged, denials = _logged(rows)
    names = store.query("period_names", **parameters)
    return Figures(
        period=period,
        step=step,
        steps=dict(store.query("period_requests", step=step, **parameters).iter_rows()),
        actions=tuple(
            sorted([*_figures(logged, Source.LOG), *_figures(_replayed(part, position), Source.REPLAY)], key=_order)
        ),
        promotions=promotions(store, manifests, part.effects, position, period),
        denials=denials,
        users=frozenset(names["username"].to_list()),
        namespaces=frozenset(names["namespace"].to_list()) - {""},
        undecided=max((part.undecided[position, side] for side in Side), default=0),
    )


def _logged(rows: Iterable[tuple[Any, ...]]) -> tuple[_Tallies, frozenset[DenialGroup]]:
    """What the log itself tells."""
    tallies: _Tallies = {}
    denials: set[DenialGroup] = set()
    for action, policy, start, user, namespace, _, requests, first, last in rows:
        if action not in _SHOWN:
            continue
        tally = tallies.setdefault((policy or "", EffectAction(action)), _Tally())
        tally.add(user, namespace, requests, first, last)
        tally.timeline[start] += requests
        if action == EffectAction.DENY:
            denials.add(DenialGroup(policy or "", user, namespace))
    return tallies, frozenset(denials)


def _replayed(part: WeeklyPart, position: int) -> _Tallies:
    """What the current set did without leaving a trace."""
    tallies: _Tallies = {}
    for key, cell in part.effects.cells.items():
        if key.period == position and key.side is Side.CURRENT and key.action in _UNTRACED:
            tally = tallies.setdefault((key.policy, key.action), _Tally())
            tally.add(key.user, key.namespace, cell.count, cell.first, cell.last)
    for bucket, count in part.effects.timeline.items():
        if bucket.period == position and bucket.side is Side.CURRENT and bucket.action in _UNTRACED:
            tallies[bucket.policy, bucket.action].timeline[bucket.start] += count
    return tallies


def _figures(tallies: _Tallies, source: Source) -> Iterator[ActionFigures]:
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

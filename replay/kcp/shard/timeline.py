"""A workspace's policies over time: those of the set or snapshot, and those that the log writes.

A policy counts from its write. For some seconds a server may still decide without it, so several sets may be in force
at once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec import Struct

from replay.audit.event import CREATED
from replay.cellib.version import KubernetesVersion
from replay.errors import ManifestError
from replay.json import JSON
from replay.kube.admissionregistration import GROUP, KINDS, ManifestSet
from replay.kube.attributes import Missing
from replay.kube.gvk import GroupVersionKind
from replay.manifests.api_object import defaulted_api_objects
from replay.manifests.manifest_set import manifest_set_from_objects
from replay.reconstruct.cluster import Cluster
from replay.reconstruct.history.derived import instant

_REGISTRATIONS = tuple(GroupVersionKind(GROUP, "v1", kind) for kind in KINDS)
POLICY_DELAY = 5_000_000
"""Longest time in microseconds until a written policy is in force: informers lag, and a source compiles once a second.
"""
MOST_ALTERNATIVES = 64
"""Most sets that may have been in force for which a decision is made. Beyond it the decision is undetermined."""
SECOND = 1_000_000

Name = tuple[str, str]
"""Kind and name of a policy, binding or configuration."""
Objects = Mapping[Name, JSON]


class _Change(NamedTuple):
    """A change of an object: it may be in force from `start`, and certainly from `end` (microseconds).

    `value` is None for a removal.
    """

    start: int
    end: int
    name: Name
    value: JSON | Missing | None


class Sides(NamedTuple):
    """Baseline and candidate set of a workspace, the same object if they are equal."""

    current: ManifestSet
    candidate: ManifestSet


class Planned(Struct, frozen=True):
    """A candidate's changes of a workspace: changed and new objects, and names of removed ones."""

    objects: Objects
    removed: frozenset[Name]
    added: frozenset[Name]
    """The names in `objects` that the baseline lacks.

    They are in force all the time, the others as long as those of the baseline.
    """

    @staticmethod
    def from_objects(current: Objects, candidate: Objects | None) -> Planned:
        """Return the changes of a candidate. A candidate without the workspace leaves it unchanged."""
        if candidate is None:
            return NOTHING_PLANNED
        changed = {name: obj for name, obj in candidate.items() if _content(obj) != _content(current.get(name))}
        return Planned(
            changed, frozenset(current.keys() - candidate.keys()), frozenset(changed.keys() - current.keys())
        )

    @property
    def is_nothing(self) -> bool:
        """Return whether the candidate changes nothing."""
        return not self.objects and not self.removed

    @property
    def replaced(self) -> frozenset[Name]:
        """Return the names of changed and removed objects."""
        return self.removed | self.objects.keys()

    def over(self, current: Objects) -> Objects:
        """Return the candidate's objects while the given objects of the baseline are in force."""
        objects_over = {name: self.objects.get(name, obj) for name, obj in current.items() if name not in self.removed}
        return objects_over | {name: self.objects[name] for name in self.added}


NOTHING_PLANNED = Planned({}, frozenset(), frozenset())


def _content(obj: JSON) -> JSON:
    """Return an object's content without name and kind."""
    return None if obj is None else {key: obj.get(key) for key in ("spec", "webhooks")}


def named(objects: Iterable[JSON]) -> dict[Name, JSON]:
    """Return policies, bindings and configurations by kind and name."""
    return {(obj["kind"], obj["metadata"]["name"]): obj for obj in objects}


class PolicyTimeline:
    """The policies of one workspace at any time."""

    def __init__(
        self, cluster: Cluster, own_objects: Objects | None, planned: Planned, version: KubernetesVersion
    ) -> None:
        """`cluster` holds the workspace's snapshot and log.

        `own_objects` is the set that was in force, None if none was given.
        """
        self._version = version
        self._planned = planned
        self._first: dict[Name, JSON | Missing] = {}
        self._changes: list[_Change] = []
        for kind in _REGISTRATIONS:
            for key in cluster.keys(kind):
                self._follow(cluster, kind, key[3], own_objects)
        for name, obj in (own_objects or {}).items():
            if not cluster.history(GroupVersionKind(GROUP, "v1", name[0]), "", name[1]):
                self._begin(name, obj)
        self._changes.sort(key=lambda change: (change.end, change.start))
        bounds = {at for change in self._changes for at in (change.start, change.end + POLICY_DELAY)}
        self._bounds = sorted(bounds)
        self._at: dict[int, list[Sides] | Missing] = {}
        self._sides_by_bound: dict[int, Sides | Missing] = {}

    def _follow(self, cluster: Cluster, kind: GroupVersionKind, name: str, own_objects: Objects | None) -> None:
        history, key = cluster.history(kind, "", name), (kind.kind, name)
        assert history is not None
        own = None if own_objects is None else own_objects.get(key)
        previous: JSON | None = None
        for place, effect in enumerate(history.effects):
            shown = effect.snapshot if own_objects is None else own
            state = history.after(place)
            value: JSON | Missing | None = (
                shown if effect.snapshot is not None else state if isinstance(state, Missing) else state.value
            )
            is_creation = effect.exchange is not None and effect.exchange.record.code == CREATED
            if place == 0 and effect.snapshot is not None:
                previous = self._begin(key, value)
                continue
            # The log changes an object that existed before. Its state then is that of the given set.
            if place == 0 and not is_creation and effect.exchange is not None:
                previous = self._set_first(key, own)
            stored = self._stored(value)
            # A write of metadata alone changes no decision.
            if isinstance(stored, Missing) or _content(stored) != _content(previous):
                self._changes.append(_Change(effect.start, effect.end, key, stored))
            previous = None if isinstance(stored, Missing) else stored

    def _begin(self, key: Name, value: JSON | Missing | None) -> JSON | None:
        """Set the first state of an object that the log does not write.

        It is in force since its creation, if that time is known.
        """
        created = None if isinstance(value, Missing | None) else value["metadata"].get("creationTimestamp")
        at = instant(created) if created else 0
        if not at:
            return self._set_first(key, value)
        stored = self._stored(value)
        self._changes.append(_Change(at, at + SECOND, key, stored))
        return None if isinstance(stored, Missing) else stored

    def _set_first(self, key: Name, value: JSON | Missing | None) -> JSON | None:
        stored = self._stored(value)
        if stored is not None:
            self._first[key] = stored
        return None if isinstance(stored, Missing) else stored

    def _stored(self, value: JSON | Missing | None) -> JSON | Missing | None:
        """Return an object as the server stores it. `Missing` if no server of this version could store it."""
        if value is None or isinstance(value, Missing):
            return value
        try:
            return next(iter(defaulted_api_objects([value], self._version)), None)
        except ManifestError as error:
            return Missing("", f"a policy cannot be read: {error}")

    def at(self, start: int, end: int) -> list[Sides] | Missing:
        """Return the sets that may have been in force from `start` to `end`, the earliest first."""
        first, last = bisect_right(self._bounds, start), bisect_right(self._bounds, end)
        if first != last:
            return self._alternatives(start, end)
        # No change begins or ends between two bounds, so all requests in between share the sets.
        sides = self._at.get(first)
        if sides is None:
            sides = self._at[first] = self._alternatives(start, end)
        return sides

    def _alternatives(self, start: int, end: int) -> list[Sides] | Missing:
        # The first `settled` changes are certainly in force, those after the first `begun` ones are not.
        settled = sum(change.end + POLICY_DELAY <= start for change in self._changes)
        begun = sum(change.start <= end for change in self._changes)
        if begun - settled >= MOST_ALTERNATIVES:
            return Missing("", "too many policies changed at the same time")
        alternatives: list[Sides] = []
        for count in range(settled, max(settled, begun) + 1):
            sides = self._sides(count)
            if isinstance(sides, Missing):
                return sides
            if not alternatives or sides is not alternatives[-1]:
                alternatives.append(sides)
        return alternatives

    def _sides(self, count: int) -> Sides | Missing:
        """Return the sets after the first `count` changes."""
        sides = self._sides_by_bound.get(count)
        if sides is None:
            sides = self._sides_by_bound[count] = self._sides_at(count)
        return sides

    def _sides_at(self, count: int) -> Sides | Missing:
        objects: dict[Name, JSON | Missing | None] = dict(self._first)
        for change in self._changes[:count]:
            objects[change.name] = change.value
        unknown = next((value for value in objects.values() if isinstance(value, Missing)), None)
        if unknown is not None:
            return unknown
        there = {name: value for name, value in objects.items() if value is not None}
        current = manifest_set_from_objects((), there.values())
        if self._planned.is_nothing:
            return Sides(current, current)
        return Sides(current, manifest_set_from_objects((), self._planned.over(there).values()))

    def everything(self, *, planned: bool) -> list[JSON]:
        """Return all policies that are ever in force in the baseline, or in the candidate if `planned`."""
        written = [change.value for change in self._changes]
        objects = [
            value for value in (*self._first.values(), *written) if value is not None and not isinstance(value, Missing)
        ]
        if not planned:
            return objects
        unreplaced = [obj for obj in objects if (obj["kind"], obj["metadata"]["name"]) not in self._planned.replaced]
        return [*unreplaced, *self._planned.objects.values()]

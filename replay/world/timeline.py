"""Differences of objects that other objects depend on: namespaces by name, owners by UID."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from replay.audit.place import LogPosition
from replay.json import JSON
from replay.reconstruct.history.derived import FINALIZERS, instant
from replay.reconstruct.history.history import COLLECTORS
from replay.reconstruct.record.known import Known, get
from replay.reconstruct.server.deletion import is_being_deleted
from replay.world.result import CausingRequest
from replay.world.state import SAME_BRANCHES, Branch, State

_COLLECTOR = (0, 2_000_000)
"""Least and most time of the garbage collector, in microseconds. What holds a dependent is not modelled."""
_NAMESPACE_CONTROLLER = (5_000_000, 10_000_000)
"""Least and most time of the namespace controller, in microseconds.

It waits at first (`namespaceDeletionGracePeriod` in `pkg/controller/namespace`).
"""


class WorldChange(NamedTuple):
    """The branches of an object that hold after `place`."""

    place: LogPosition
    branches: tuple[Branch, ...]


def branches_at(changes: Sequence[WorldChange], place: LogPosition) -> tuple[Branch, ...]:
    """Return the branches in force for a request at `place`."""
    index = bisect_left(changes, place, key=lambda change: change.place)
    return changes[index - 1].branches if index else SAME_BRANCHES


class Presence(StrEnum):
    """The difference between an object's existence under the candidate and in the log."""

    SAME = "same"
    ABSENT = "absent"
    """The object exists in the log, but not under the candidate."""
    LEFT = "left"
    """The object exists under the candidate, but no longer in the log."""
    OTHER = "other"
    """The object exists in both, with different content."""
    EARLIER = "earlier"
    """The object existed before the log created it, and its controller has acted since."""


class OwnerChange(NamedTuple):
    """The presence of an object that holds after `place`. `template` is its pod template then."""

    place: LogPosition
    presence: Presence
    causing_request: CausingRequest | None
    template: JSON = None


OwnerChanges = Mapping[str, Sequence[OwnerChange]]
"""Changes of owners by UID of the log, in order."""


def presence_at(owners: OwnerChanges, uid: str, place: LogPosition) -> OwnerChange | None:
    """Return how an owner differs at `place`, None if it does not."""
    changes = owners.get(uid)
    if not changes:
        return None
    index = bisect_left(changes, place, key=lambda change: change.place)
    presence = changes[index - 1] if index else None
    return presence if presence is not None and presence.presence is not Presence.SAME else None


def states_after_deletion(branches: tuple[Branch, ...], at: int) -> tuple[Branch, ...]:
    """Return the states after a deletion that a request at this time may find.

    Controllers remove their finalizers after some time, between a least and a most.
    """
    pauses = [pause for branch in branches if (pause := _pause(branch.state)) is not None]
    if not pauses:
        return branches
    since, (least, most) = pauses[0]
    if at > since + most:
        return tuple(branch for branch in branches if _pause(branch.state) is None) or branches
    # Before the least time no controller has removed the object, so the absent branch is not possible yet.
    return branches if at > since + least else tuple(branch for branch in branches if not branch.is_absent)


def _pause(state: State) -> tuple[int, tuple[int, int]] | None:
    """Return the beginning of the time in which only a controller holds a deleted object, and the least and most time.

    None for all other objects.
    """
    if not isinstance(state, Known) or not is_being_deleted(state):
        return None
    held = get(state.value, FINALIZERS) or ()
    since = instant(get(state.value, ("metadata", "deletionTimestamp")))
    if any(name not in COLLECTORS for name in held):
        return None
    if get(state.value, ("kind",)) == "Namespace":
        return since, _NAMESPACE_CONTROLLER
    return (since, _COLLECTOR) if held else None

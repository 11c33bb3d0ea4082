"""Known differences across objects: namespaces by name, owners by UID."""

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
from replay.world.state import SAME, Branch, State

_COLLECTOR = (0, 2_000_000)
"""How long, in microseconds, the garbage collector is taken to need: what holds a dependent is not followed."""
_NAMESPACE_CONTROLLER = (5_000_000, 10_000_000)
"""The same of the namespace controller, which waits at first (`namespaceDeletionGracePeriod` in `pkg/controller/namespace`)."""


class WorldChange(NamedTuple):
    """From a request on an object is in other branches."""

    place: LogPosition
    branches: tuple[Branch, ...]


def branches_at(changes: Sequence[WorldChange], place: LogPosition) -> tuple[Branch, ...]:
    """The branches that a request finds."""
    index = bisect_left(changes, place, key=lambda change: change.place)
    return changes[index - 1].branches if index else SAME


class Presence(StrEnum):
    """How an object that the log holds differs in being there."""

    SAME = "same"
    ABSENT = "absent"
    """It is not there, though it is in the log."""
    LEFT = "left"
    """It is still there, though it is gone in the log."""
    OTHER = "other"
    """It is there with another content."""
    EARLIER = "earlier"
    """It existed before the log's object was created, and its controller has acted since."""


class OwnerChange(NamedTuple):
    """From a request on an object with a uid is there, or is not; `template` is the pod template that it has then."""

    place: LogPosition
    presence: Presence
    causing_request: CausingRequest | None
    template: JSON = None


OwnerChanges = Mapping[str, Sequence[OwnerChange]]
"""By uid of the log, in order."""


def presence_at(owners: OwnerChanges, uid: str, place: LogPosition) -> OwnerChange | None:
    """How an owner differs when a request comes, None if it does not."""
    changes = owners.get(uid)
    if not changes:
        return None
    index = bisect_left(changes, place, key=lambda change: change.place)
    presence = changes[index - 1] if index else None
    return presence if presence is not None and presence.presence is not Presence.SAME else None


def found_later(branches: tuple[Branch, ...], at: int) -> tuple[Branch, ...]:
    """Those of the states after a deletion that a request of an instant may find: controllers take their time, and are done after a while."""
    pauses = [pause for branch in branches if (pause := _pause(branch.state)) is not None]
    if not pauses:
        return branches
    since, (least, most) = pauses[0]
    if at > since + most:
        return tuple(branch for branch in branches if _pause(branch.state) is None) or branches
    return branches if at > since + least else tuple(branch for branch in branches if not branch.is_absent)


def _pause(state: State) -> tuple[int, tuple[int, int]] | None:
    """Since when only a controller holds an object that is being deleted, and how long it takes; None of all others."""
    if not isinstance(state, Known) or not is_being_deleted(state):
        return None
    held = get(state.value, FINALIZERS) or ()
    since = instant(get(state.value, ("metadata", "deletionTimestamp")))
    if any(name not in COLLECTORS for name in held):
        return None
    if get(state.value, ("kind",)) == "Namespace":
        return since, _NAMESPACE_CONTROLLER
    return (since, _COLLECTOR) if held else None

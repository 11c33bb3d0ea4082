"""What is known of the candidate's world across objects: namespaces by name, owners by uid."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from replay.audit.place import LogPosition
from replay.json import JSON
from replay.world.result import Blame
from replay.world.state import SAME, Branch


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
    """It was there before that of the log was created, and its controller has made then what it wants."""


class OwnerChange(NamedTuple):
    """From a request on an object with a uid is there, or is not; `template` is the pod template that it has then."""

    place: LogPosition
    presence: Presence
    blame: Blame | None
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

"""The gaps of a log, by the evidence in the log itself.

An update names the resourceVersion that it replaces. If the log holds an earlier write of the object, but none that
stored this version, a write is missing. A `deletecollection` in between is an exception: it writes objects that
finalizers hold, and its answer lists them as they were before.

A resource with a single such break is not trusted. If more than one link in a thousand is broken, no resource is.
Distrusted histories are still used where other evidence confirms them (`replay.reconstruct.history.old_object`). Only
one conclusion is dropped: that the last known write gives the state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from msgspec import Struct, field

from replay.kube.gvk import GroupResource, ObjectRef
from replay.reconstruct.history.collection_deletion import CollectionDeletions
from replay.reconstruct.history.effect import EffectKind

TOLERATED_SHARE = 0.001


class Trust(Struct, frozen=True):
    """Resources whose histories count as complete; all by default."""

    distrusted: frozenset[GroupResource] = frozenset()
    is_complete: bool = True

    def is_trusted(self, resource: GroupResource) -> bool:
        """Return whether the histories of a resource's objects have no known gaps."""
        return self.is_complete and resource not in self.distrusted


ALL_TRUSTED = Trust()


class Break(NamedTuple):
    """An update that replaces a version which no line stored.

    `start` is when the last earlier write to its object was received, `end` when that update was answered, in microseconds.
    """

    about: ObjectRef
    start: int
    end: int

    def is_collected(self, deletions: CollectionDeletions) -> bool:
        """Return whether a collection deletion that kept the object may have stored the version."""
        return any(
            effect.kind is EffectKind.COLLECTED and effect.start <= self.end and effect.end >= self.start
            for effect in deletions.effects_on(self.about)
        )


class Continuity(Struct):
    """Counts links between writes of the same object, and breaks, as the query `continuity` of a store does."""

    links: Counter[GroupResource] = field(default_factory=Counter)
    breaks: Counter[GroupResource] = field(default_factory=Counter)

    def explain(self, breaks: Iterable[Break], deletions: CollectionDeletions) -> None:
        """Withdraw breaks that have an explanation."""
        for each in breaks:
            if each.is_collected(deletions):
                self.breaks[GroupResource(each.about.group, each.about.resource)] -= 1

    def trust(self) -> Trust:
        """Return the trust that the counts justify; the module describes the rule."""
        broken = self.breaks.total()
        # Beyond this share the gaps cannot be those of single resources, so no history counts as complete.
        is_whole = broken <= TOLERATED_SHARE * (broken + self.links.total())
        return Trust(frozenset(resource for resource, count in self.breaks.items() if count), is_whole)

"""Whether a log has gaps: the evidence that it gives about itself.

An update names the resourceVersion that it replaces. If the log holds an earlier write of the same object, but none that
stored this version, a write is missing, unless a `deletecollection` came in between: it writes what finalizers hold, and its
answer lists its objects as they were before. The rule: a resource with a single such break is not trusted, and where more
than one link in a thousand is broken nothing is. What is not trusted is still used where something proves it
(`replay.reconstruct.history.old_object`): only the conclusion "this was the last write, so that was the state" is given up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from msgspec import Struct, field

from replay.kube.gvk import GroupResource
from replay.kube.object_ref import ObjectRef
from replay.reconstruct.history.collection_deletion import CollectionDeletions
from replay.reconstruct.history.effect import EffectKind

TOLERATED_SHARE = 0.001


class Trust(Struct, frozen=True):
    """Which histories can be taken to be complete; by default all."""

    distrusted: frozenset[GroupResource] = frozenset()
    is_whole: bool = True

    def holds(self, resource: GroupResource) -> bool:
        """Whether the histories of a resource's objects have no known gaps."""
        return self.is_whole and resource not in self.distrusted


ALL_TRUSTED = Trust()


class Break(NamedTuple):
    """An update that replaces a version which no line stored.

    `start` is when the last write to its object before it came in, `end` when it was answered, in microseconds.
    """

    about: ObjectRef
    start: int
    end: int

    def is_collected(self, deletions: CollectionDeletions) -> bool:
        """Whether a deletion of collections may have stored it, by which the object has not gone away."""
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
        """The rule of this module."""
        broken = self.breaks.total()
        is_whole = broken <= TOLERATED_SHARE * (broken + self.links.total())
        return Trust(frozenset(resource for resource, count in self.breaks.items() if count), is_whole)

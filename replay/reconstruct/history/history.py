"""States of one object, in the order in which they were stored.

A successful write leaves an *effect*. Effects are ordered by `resourceVersion` if the response has one (etcd's
revision, equal for all API servers). Otherwise time orders them: the write was stored between
`requestReceivedTimestamp` and `stageTimestamp`. If two effects overlap and nothing orders them, the fields in which
their states differ are unknown in between.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from functools import cached_property
from itertools import accumulate

from replay.audit.event import CREATED, RequestRecord
from replay.json import JSON
from replay.kube.attributes import Basis, Missing
from replay.reconstruct.history.clock import BEFORE, NEVER, RevisionClock
from replay.reconstruct.history.collection_deletion import settled
from replay.reconstruct.history.derived import (
    FINALIZERS,
    after_binding,
    after_partial_metadata,
    after_scale,
    as_removed,
    being_deleted,
    instant,
    second,
)
from replay.reconstruct.history.effect import Effect, EffectKind, effect_of
from replay.reconstruct.history.eviction import Overlap, after_eviction, possibly_evicted
from replay.reconstruct.record.body import revision
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.record.known import Hole, Known, get, merged

NOT_FOUND = 404
_NO_STATE = "the log has no response body for an earlier write to the object"
_OF_DELETION = tuple(
    ("metadata", name)
    for name in (
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "finalizers",
        "generation",
        "managedFields",
        "resourceVersion",
    )
)
COLLECTORS = frozenset({"orphan", "foregroundDeletion"})
"""Finalizers that the garbage collector removes when it is done."""
_COLLECTED = "a deletecollection may have deleted the object, and its response does not list the deleted objects"


class History:
    """The ordered effects on one object, and the states between them."""

    def __init__(
        self,
        exchanges: Iterable[Exchange],
        snapshot: JSON = None,
        clock: RevisionClock | None = None,
        *,
        trusted: bool = True,
        collected: Iterable[Effect] = (),
    ) -> None:
        """Order the effects. `snapshot` is the object in a cluster snapshot, None if it is not there.

        `clock` tells when the snapshot's version was stored. Without a clock the time is unknown. `trusted` is false if
        the log has gaps: then a state that is derived from the one before it is unknown. `collected` are the effects of
        collection deletions.
        """
        self.trusted = trusted
        """A flag that the log has no gaps."""
        exchanges = list(exchanges)
        effects = [effect for effect in map(effect_of, exchanges) if effect is not None]
        self._missed = [each.record for each in exchanges if each.record.code == NOT_FOUND and _is_missed(each.record)]
        if snapshot is not None and not (trusted and _shows_only_creation(effects, snapshot)):
            effects.append(_from_snapshot(snapshot, clock, alone=trusted and not effects))
        self.effects = settled(_ordered([*effects, *collected]))
        # `settled` reads the last effect, so that a history without effects is settled at no time.
        self._end = BEFORE if self.effects else NEVER
        self._index: dict[int, int] = {}
        """Positions of effects by the identity of their exchanges, which the effects keep alive."""
        self._by_revision: dict[int, int] = {}
        for index, effect in enumerate(self.effects):
            self._end = max(self._end, effect.end)
            if effect.exchange is not None:
                self._index[id(effect.exchange)] = index
            if effect.revision is not None:
                # An update that removes its object repeats the revision that it found. Only the first effect stored it.
                self._by_revision.setdefault(effect.revision, index)

    def index_of(self, exchange: Exchange) -> int | None:
        """Return the position of a record's own effect, None if it has none."""
        return self._index.get(id(exchange))

    def place_before(self, exchange: Exchange) -> int | None:
        """Return the position of the state that a record's own effect changed, -1 before all, None if it has no effect.

        Deletions that remove an object at the same time do not follow each other: all have the same position.
        """
        place = self._index.get(id(exchange))
        if place is None:
            return None
        own, place = self.effects[place], place - 1
        if own.kind is EffectKind.GONE:
            while place >= 0 and self.effects[place].kind is EffectKind.GONE and self.effects[place].uid == own.uid:
                place -= 1
        return place

    def is_evicted_meanwhile(self, exchange: Exchange) -> bool:
        """Return whether an eviction ran at the same time as a record's own effect.

        An eviction writes twice and shows neither write, so that its order is unknown.
        """
        record, own = exchange.record, self.index_of(exchange)
        later = self.effects if own is None else self.effects[own + 1 :]
        return any(
            effect.kind is EffectKind.EVICTION and effect.start < record.stage_time and effect.end > record.received
            for effect in later
        )

    def index_at_revision(self, at: int) -> int | None:
        """Return the position of the write that stored a revision, None if the log does not hold it."""
        return self._by_revision.get(at)

    def binding_at_revision(self, at: int) -> int | None:
        """Return the position of the binding that stored a revision.

        It is the only write between two states, neither of which is a deletion.
        """
        for earlier, own, following in zip(self.effects, self.effects[1:], self.effects[2:], strict=False):
            if own.kind is EffectKind.BINDING and earlier.state is not None and following.state is not None:
                is_between = (earlier.revision or at) < at < (following.revision or at)
                if is_between and not (following.state.get("metadata") or {}).get("deletionTimestamp"):
                    return self.index_of(own.exchange) if own.exchange is not None else None
        return None

    def after(self, index: int) -> Known | Missing:
        """Return the state after an effect; null after a deletion."""
        effect = self.effects[index]
        if effect.after is None:
            effect.after = self._after(index)
        return effect.after

    def _after(self, index: int) -> Known | Missing:  # noqa: PLR0911 - one return per kind of effect
        effect = self.effects[index]
        if effect.kind is EffectKind.GONE or (effect.may_have_removed and self._is_missed_after(index)):
            return Known(None, Basis.RECORDED)
        if effect.kind is EffectKind.STATE:
            return Known(effect.state, Basis.RECORDED if effect.snapshot is None else Basis.SNAPSHOT)
        if effect.kind is EffectKind.COLLECTED:
            return self._held(index) or Missing(
                "", _COLLECTED, "audit writes to this resource at level RequestResponse"
            )
        if effect.kind is EffectKind.UNKNOWN or effect.exchange is None or index == 0 or not self.trusted:
            fault = effect.exchange.response.fault if effect.exchange is not None else ""
            return Missing(
                "",
                f"for an earlier write, {fault}" if fault else _NO_STATE,
                "audit writes to this resource at level RequestResponse",
            )
        earlier = self.after(index - 1)
        if isinstance(earlier, Missing) or earlier.value is None:
            return Missing(
                "",
                "the log has only a part of the object for an earlier write, and the object before that write is not known",
            )
        if effect.kind is EffectKind.EVICTION:
            return after_eviction(earlier, effect.exchange, self._shown_after(index), self._overlap(index))
        if effect.kind is EffectKind.BINDING:
            following = next((later.state for later in self.effects[index + 1 :] if later.state is not None), None)
            return after_binding(earlier, effect.exchange, following)
        if effect.kind is EffectKind.SCALE:
            return after_scale(earlier, effect.exchange)
        return after_partial_metadata(earlier, effect.exchange)

    def _held(self, index: int) -> Known | None:
        """Return the state after a collection's deletion if one of the object's finalizers holds it; None otherwise."""
        effect = self.effects[index]
        earlier = self.after(index - 1) if effect.uid and index and self.trusted else None
        finalizers = get(earlier.value, FINALIZERS) if isinstance(earlier, Known) else None
        # The garbage collector may have removed its finalizers already, so only other finalizers prove that the object
        # remains.
        if not isinstance(earlier, Known) or all(name in COLLECTORS for name in finalizers or ()):
            return None
        holes = [Hole(FINALIZERS, "the deletion may have added a finalizer")]
        if second(effect.start) != second(effect.end):
            holes.append(
                Hole(("metadata", "deletionTimestamp"), "the log does not show in which second the object was deleted")
            )
        return being_deleted(earlier, effect.start).with_holes(holes)

    def _is_missed_after(self, index: int) -> bool:
        """Return whether a request got 404 for the object after an effect (-1: before all) and before the next one."""
        start = self.effects[index].end if index >= 0 else BEFORE
        end = self.effects[index + 1].start if index + 1 < len(self.effects) else NEVER
        return self.trusted and any(start <= each.received and each.stage_time <= end for each in self._missed)

    def _shown_after(self, index: int) -> JSON:
        """Return the next state that the log shows after an effect, including the last one before a removal."""
        for later in self.effects[index + 1 :]:
            if later.state is not None:
                return later.state
            removed = as_removed(later.exchange)
            if removed is not None:
                return removed.value
        return None

    def _overlap(self, index: int) -> Overlap:
        """Return the kind of write that ran at the same time as an eviction.

        A write before a state that does not show the deletion also came before the eviction's deletion.
        """
        own, settled = self.effects[index], index - 1
        while settled >= 0 and self.effects[settled].kind is not EffectKind.STATE:
            settled -= 1
        overlap = Overlap.NONE
        for other in self.effects[settled + 1 :]:
            if other is own or other.start >= own.end or other.end <= own.start:
                continue
            if other.is_deletion or other.kind in (EffectKind.EVICTION, EffectKind.UNKNOWN):
                return Overlap.DELETION
            if other.kind is EffectKind.BINDING:
                overlap = Overlap.BINDING
        return overlap

    def settled_before(self, at: int) -> bool:
        """Return whether all effects were complete at a time."""
        return self._end <= at

    def settled(self, at: int) -> Known | Missing | None:
        """Return the last state if all effects were complete at a time, else None."""
        if self._end > at:
            return None
        return self.effects[-1].after or self.after(len(self.effects) - 1)

    def window(self, start: int, end: int) -> range:
        """Return the positions of the effects whose state may have been current at some time from `start` to `end`.

        The first is the last effect that was certainly complete at `start` (-1: before all), the last is the last one
        that had begun at `end`.
        """
        starts, ends = self._earliest
        first, last = bisect_right(ends, start) - 1, bisect_right(starts, end) - 1
        return range(first, max(first, last) + 1)

    @cached_property
    def _earliest(self) -> tuple[list[int], list[int]]:
        """The earliest start and the earliest end of each effect and all later ones.

        Both rise, so that bisection works.
        """
        latest_first = self.effects[::-1]
        starts = list(accumulate((effect.start for effect in latest_first), min))
        ends = list(accumulate((effect.end for effect in latest_first), min))
        return starts[::-1], ends[::-1]

    def existing_at(self, start: int, end: int) -> Known | Missing | None:
        """Return what is known of the state from `start` to `end` if the object existed.

        States that went away meanwhile do not count. A removal may have written the object first (`Store.Delete` of a
        pod), which its answer shows. Null if the object was absent all the time, None if the log does not show it.
        """
        places = self.window(start, end)
        # Before its creation in the log the object did not exist, so that the state before need not be known.
        if places[0] < 0 and (len(places) == 1 or not self._is_creation(0)):
            return self.at(start, end)
        states: list[Known | Missing] = []
        for place in places:
            if place < 0:
                continue
            after = self._surviving(place) or self.after(place)
            if isinstance(after, Missing) or after.value is not None:
                states.append(after)
            elif self.effects[place].kind is EffectKind.EVICTION:
                states += [possibly_evicted(state) for state in states[-1:] if isinstance(state, Known)]
            # The first effect was complete before the request began. Only a later removal can have written the object
            # first.
            elif place != places[0] and (removed := as_removed(self.effects[place].exchange)) is not None:
                states.append(removed)
        return (
            merged(states, "another request changed the object at the same time")
            if states
            else Known(None, Basis.RECORDED)
        )

    def _surviving(self, place: int) -> Known | None:
        """Return the state after collection deletions that did not remove the object.

        It is None after other effects or if unknown. Only the deletion itself may have changed it: its deletion fields
        and the finalizers that it waits for.
        """
        first = place
        while first >= 0 and self.effects[first].kind is EffectKind.COLLECTED and not self.effects[first].uid:
            first -= 1
        earlier = self.after(first) if 0 <= first < place else None
        if not isinstance(earlier, Known) or earlier.value is None:
            return None
        reason = "a deletecollection may have begun to delete the object"
        return earlier.as_basis(Basis.RECONSTRUCTED).with_holes(Hole(path, reason) for path in _OF_DELETION)

    def _is_creation(self, place: int) -> bool:
        exchange = self.effects[place].exchange
        return exchange is not None and exchange.record.code == CREATED

    def at(self, start: int, end: int) -> Known | Missing | None:
        """Return what is known of the state from `start` to `end`.

        It is None before the first effect, and null if the object was absent.
        """
        places = self.window(start, end)
        if places[0] < 0:
            if len(places) == 1:
                return Known(None, Basis.RECORDED) if self._missed and self._is_missed_after(-1) else None
            return Missing(
                "", "another request wrote the object at the same time, and the log does not show it before that"
            )
        return merged([self.after(index) for index in places], "another request changed the object at the same time")


def _is_missed(record: RequestRecord) -> bool:
    """Return whether a 404 says that the object itself was not found (`apierrors.NewNotFound`)."""
    named = f"{record.resource}.{record.api_group}" if record.api_group else record.resource
    return record.status_message == f'{named} "{record.name}" not found'


def _shows_only_creation(effects: list[Effect], snapshot: JSON) -> bool:
    """Return whether the log's only write created the object that the snapshot holds.

    Nothing changed it since, so that the snapshot's object is the result of the creation. It takes the place of an
    unrecorded response.
    """
    if len(effects) != 1 or effects[0].kind is not EffectKind.UNKNOWN or effects[0].exchange is None:
        return False
    record = effects[0].exchange.record
    # A creationTimestamp has whole seconds, so the bounds are rounded down too. The texts sort by time.
    created = (snapshot.get("metadata") or {}).get("creationTimestamp")
    if record.code != CREATED or not isinstance(created, str):
        return False
    if not second(record.received) <= created <= second(record.stage_time):
        return False
    effects[0].kind, effects[0].snapshot = EffectKind.STATE, snapshot
    return True


def _from_snapshot(snapshot: JSON, clock: RevisionClock | None, *, alone: bool) -> Effect:
    """Return the effect of a snapshot's object: a state whose revision tells when it was stored.

    If nothing bounds the revision, it may have been stored at any time since the object's creation. An object that the
    log never writes (`alone`) then counts as unchanged since.
    """
    metadata = snapshot.get("metadata") or {}
    stored = revision(metadata)
    start, end = (BEFORE, NEVER) if stored is None or clock is None else clock.bounds(stored)
    if (start, end) == (BEFORE, NEVER):
        start = instant(metadata.get("creationTimestamp"))
        end = start if alone else NEVER
    elif start == BEFORE and clock is not None:
        end = BEFORE  # older than every write of the log: it was there when the log began
    uid = str(metadata.get("uid") or "")
    return Effect(EffectKind.STATE, start, end, None, stored, uid, snapshot=snapshot)


def _ordered(effects: list[Effect]) -> list[Effect]:
    """Return effects in order: those with a revision by it, the others where time and content allow."""
    if len(effects) <= 1:
        return effects
    ordered = _without_repetitions(sorted([e for e in effects if e.revision is not None], key=_revision_then_time))
    # Effects with a revision are in place first, because those without one take their place between them.
    for effect in sorted([e for e in effects if e.revision is None], key=lambda e: (e.end, e.start)):
        ordered.insert(_place(ordered, effect), effect)
    return ordered


def _revision_then_time(effect: Effect) -> tuple[int, bool, bool, int, int]:
    """Return the sort key of an effect with a revision.

    For equal revisions the log's own write precedes the snapshot, which shows the same state. An update that removes
    its object answers with the revision that it found, and comes last.
    """
    return (effect.revision or 0, effect.kind is EffectKind.GONE, effect.exchange is None, effect.end, effect.start)


def _without_repetitions(numbered: list[Effect]) -> list[Effect]:
    """Return effects without writes that changed nothing.

    Such a write answers with the existing revision, so that only the first write of each revision stored it.
    """
    distinct: list[Effect] = []
    for effect in numbered:
        # An update that removes its object answers with the revision that it found, and is an effect of its own.
        if distinct and distinct[-1].revision == effect.revision and effect.kind is not EffectKind.GONE:
            continue
        distinct.append(effect)
    return distinct


def _place(ordered: list[Effect], effect: Effect) -> int:
    """Return the position of an effect without revision.

    It comes after all effects that were complete before it began, and before all that began after its end. In between,
    the states that follow show what it did.
    """
    low, high = 0, len(ordered)
    for index, other in enumerate(ordered):
        if other.end <= effect.start:
            low = index + 1
    for index in range(len(ordered) - 1, low - 1, -1):
        if ordered[index].start >= effect.end:
            high = index
    for index in range(low, high):
        if _shows(ordered[index], effect):
            return index
    return high


def _shows(other: Effect, effect: Effect) -> bool:
    """Return whether a state shows that a write happened before it."""
    if effect.kind is EffectKind.GONE:
        return bool(effect.uid) and bool(other.uid) and other.uid != effect.uid
    if not isinstance(other.state, dict):
        return False
    if effect.kind is EffectKind.BINDING:
        return bool((other.state.get("spec") or {}).get("nodeName"))
    metadata = other.state.get("metadata") or {}
    return bool(metadata.get("deletionTimestamp"))

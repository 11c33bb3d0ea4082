"""Whether the log's own object was there when a request came, worked out when somebody asks."""

from __future__ import annotations

from collections.abc import Sequence

from replay.audit.event import RequestRecord
from replay.reconstruct import reconstructor
from replay.reconstruct.history.effect import EffectKind, effect_of
from replay.reconstruct.record.known import Known
from replay.world.result import Cause, answered

NOT_FOUND = 404
_DELETED = '"deletionTimestamp"'


class Existence:
    """What the answers to an object's requests tell, one after the other."""

    def __init__(self, steps: Sequence[reconstructor.RebuildStep]) -> None:
        """`steps` are all requests of the object; none of them has come yet."""
        self._steps = steps
        self._presence: dict[int, bool] = {}
        self.passed = 0
        """How many have been answered."""

    def follow(self) -> None:
        """The next request has been answered."""
        self.passed += 1

    def end(self) -> None:
        """The object went with its collection."""
        self._presence[self.passed] = False

    def at(self, place: int) -> bool:
        """Whether it is there when as many requests have been answered."""
        is_there: bool | None = None
        for index in range(place, -1, -1):
            is_there = self._presence.get(index)
            if is_there is None and index > 0:
                is_there = _shows(self._steps[index - 1])
            if is_there is not None:
                break
        is_there_now = self._presence[place] = _existed_before(self._steps[0]) if is_there is None else is_there
        return is_there_now

    @property
    def now(self) -> bool:
        """Whether it is there."""
        return self.at(self.passed)


def is_creation(record: RequestRecord) -> bool:
    """Whether a request is to create the object itself."""
    return record.verb == "create" and not record.subresource


def _shows(step: reconstructor.RebuildStep) -> bool | None:
    """Whether the object is there after a request, None if its answer does not tell."""
    exchange = step.exchange
    record = exchange.record
    if not exchange.succeeded:
        if record.code == NOT_FOUND and not record.status_message.startswith("namespaces "):
            return False
        return True if answered(record).cause == Cause.EXISTS else None
    if exchange.dry_run:
        return None
    if record.verb != "delete" and exchange.concerns_parent and _DELETED not in (record.response_object or ""):
        return True
    effect = effect_of(exchange)
    if effect is not None and effect.kind is EffectKind.EVICTION:
        return _is_left(step)
    return effect.kind is not EffectKind.GONE if effect is not None else None


def _is_left(step: reconstructor.RebuildStep) -> bool:
    """Whether a pod is there after its eviction, which removes one that runs nowhere at once."""
    history = step.olds.history
    place = history.index_of(step.exchange)
    after = history.after(place) if place is not None else None
    return not isinstance(after, Known) or after.value is not None


def _existed_before(first: reconstructor.RebuildStep) -> bool:
    """Whether it was there before its first request."""
    record = first.exchange.record
    if is_creation(record) and first.exchange.succeeded:
        return False
    if record.code == NOT_FOUND:
        return False
    last = first.olds.last(first.exchange)
    if isinstance(last, Known):
        return last.value is not None
    return not is_creation(record) or answered(record).cause == Cause.EXISTS

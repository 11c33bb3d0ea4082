"""Existence of the log's own object at the time of a request, computed on demand."""

from __future__ import annotations

from collections.abc import Sequence

from replay.audit.event import CREATED, RequestRecord
from replay.reconstruct import reconstructor
from replay.reconstruct.cluster import Cluster
from replay.reconstruct.history.effect import EffectKind, effect_of
from replay.reconstruct.operation import creates
from replay.reconstruct.reached import APPLY_CONFLICT
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.record.known import Known
from replay.world.result import Cause, answered

NOT_FOUND = 404
_OPTIONS = "Options.meta.k8s.io"
"""Kind of the request options. The server validates options before it looks up the object."""
_DELETED = '"deletionTimestamp"'


class Existence:
    """The existence of the log's object between its requests, inferred from their answers."""

    def __init__(self, steps: Sequence[reconstructor.RebuildStep], cluster: Cluster) -> None:
        """Start before the first of `steps`, which are all requests of the object."""
        self._steps = steps
        self._cluster = cluster
        self._presence: dict[int, bool] = {}
        self.passed = 0
        """Number of requests that have been answered."""

    def count_request(self) -> None:
        """Count one more answered request."""
        self.passed += 1

    def record_deletion(self) -> None:
        """Record that a collection request deleted the object."""
        self._presence[self.passed] = False

    def exists_after(self, place: int) -> bool:
        """Return whether the object exists after `place` requests."""
        is_there: bool | None = None
        # The newest answer that tells decides. The result is kept, so that a later call stops there.
        for index in range(place, -1, -1):
            is_there = self._presence.get(index)
            if is_there is None and index > 0:
                is_there = _shows(self._steps[index - 1])
            if is_there is not None:
                break
        is_there_now = self._presence[place] = (
            _existed_before(self._steps, self._cluster) if is_there is None else is_there
        )
        return is_there_now

    @property
    def exists_now(self) -> bool:
        """Return whether the object exists now."""
        return self.exists_after(self.passed)


def is_creation(record: RequestRecord) -> bool:
    """Return whether a request creates the object itself."""
    return record.verb == "create" and not record.subresource


def _shows(step: reconstructor.RebuildStep) -> bool | None:
    """Return whether the object exists after a request, None if the answer does not tell."""
    exchange, record = step.exchange, step.exchange.record
    if not exchange.succeeded:
        return _found_object(exchange)
    if exchange.dry_run:
        return None
    if record.verb != "delete" and exchange.concerns_parent and _DELETED not in (record.response_object or ""):
        return True
    effect = effect_of(exchange)
    if effect is not None and effect.kind is EffectKind.EVICTION:
        return _remains_after_eviction(step)
    return effect.kind is not EffectKind.GONE if effect is not None else None


def _found_object(exchange: Exchange) -> bool | None:
    """Return whether a request found its object, None if the answer does not tell.

    Creations, evictions and connections look the object up late or never. All others look it up before admission and
    fail with 404 (`Store.Update`, `Store.Delete`, `handlers.patchResource`), unless they create missing objects.
    """
    record = exchange.record
    if exchange.succeeded:
        return not (is_creation(record) or (record.code == CREATED and record.verb in ("update", "patch")))
    # NamespaceLifecycle also answers with 404 if the namespace is missing.
    if record.code == NOT_FOUND:
        return None if is_creation(record) or record.status_message.startswith("namespaces ") else False
    cause = answered(record).cause
    if cause == Cause.EXISTS:
        return True
    # A write that may create its object can fail without one. Only a conflict with field managers needs an object.
    if record.verb not in ("update", "patch", "delete") or creates(exchange):
        return True if APPLY_CONFLICT in record.status_message else None
    is_told = cause in (Cause.DENIED, Cause.INVALID, Cause.CONFLICT)
    return True if is_told and _OPTIONS not in record.status_message else None


def _remains_after_eviction(step: reconstructor.RebuildStep) -> bool:
    """Return whether a pod remains after its eviction. A pod without a node is removed at once."""
    history = step.old_objects.history
    place = history.index_of(step.exchange)
    after = history.after(place) if place is not None else None
    return not isinstance(after, Known) or after.value is not None


def _existed_before(steps: Sequence[reconstructor.RebuildStep], cluster: Cluster) -> bool:
    """Return whether the object existed before its first request.

    The first answer that shows it decides, up to the first write. Nothing existed before in a namespace that the log
    shows to begin. If no answer tells, a first request that is a creation means that it did not exist.
    """
    first = steps[0]
    last = first.old_objects.last(first.exchange)
    if isinstance(last, Known):
        return last.value is not None
    begun = next(iter(first.old_objects.history.effects), None)
    for step in steps:
        # After the first write, answers only show what that write left.
        if begun is not None and step.exchange.record.received >= begun.end:
            break
        is_met = _found_object(step.exchange)
        if is_met is not None:
            return is_met
    if begun is not None and begun.uid and begun.exchange is None:  # a collection deletion lists the object
        return True
    if cluster.is_new_in_log(first.exchange.record):
        return False
    return not is_creation(first.exchange.record)

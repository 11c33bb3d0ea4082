"""A pod after `pods/eviction`, whose response is a Status (`pkg/registry/core/pod/storage.EvictionREST`).

An eviction writes twice: a condition, and then what a graceful deletion writes (`rest.BeforeDelete`). Another client's
write may come in between.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import Enum

from replay.json import JSON
from replay.kube.attributes import Basis
from replay.reconstruct.history.derived import FINALIZERS, second
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.record.known import GONE, Hole, Known, get

CONDITION = "DisruptionTarget"
_REASON = "an eviction changed the pod, and its response does not show the pod"
_RACE = "an eviction may have changed the pod at the same time, and its response does not show the pod"
_UID = ("metadata", "uid")
_CONDITIONS = ("status", "conditions")
_TIMESTAMP = ("metadata", "deletionTimestamp")
_PERIOD = ("metadata", "deletionGracePeriodSeconds")
_GENERATION = ("metadata", "generation")
_REVISION = ("metadata", "resourceVersion")
_MANAGED = ("metadata", "managedFields")
_TERMINATED = frozenset({"Succeeded", "Failed"})


class Overlap(Enum):
    """Another write that ran at the same time as an eviction, if their order matters."""

    NONE = "none"
    BINDING = "binding"
    """A binding. The eviction removes a pod without a node at once, and one with a node after its grace period."""
    DELETION = "deletion"
    """A deletion, another eviction, or an unknown write: it is unknown which of them set the pod's deletion fields."""


def after_eviction(pod: Known, exchange: Exchange, following: JSON, overlap: Overlap) -> Known:
    """Return a pod after its eviction, null if it was removed at once.

    `following` is the next state in the log, None if there is none. `overlap` is the write that ran at the same time.
    """
    # Another write at the same time may have given the pod a node or finalizers, so removal is certain only without
    # one.
    if overlap is Overlap.NONE and _is_removed_at_once(pod, exchange, following):
        return GONE
    state = pod.as_basis(Basis.RECONSTRUCTED).with_holes([Hole(path, _REASON) for path in (_REVISION, _MANAGED)])
    state = _with_condition(state, following)
    period = None if overlap is Overlap.DELETION else _grace_period(pod, exchange)
    if period is None or (overlap is Overlap.BINDING and get(following, _PERIOD) != period):
        return state.with_holes([Hole(path, _REASON) for path in (_TIMESTAMP, _PERIOD, _GENERATION)])
    generation = get(pod.value, _GENERATION)
    if isinstance(generation, int) and generation > 0:
        state = state.with_value(_GENERATION, generation + 1)
    return _deleting(state, exchange, following, period)


def possibly_evicted(pod: Known) -> Known:
    """Return a pod that an eviction may have written once, twice or not at all.

    Its condition and deletion fields are unknown.
    """
    condition_types = [condition.get("type") for condition in get(pod.value, _CONDITIONS) or ()]
    paths = (
        _TIMESTAMP,
        _PERIOD,
        _GENERATION,
        _REVISION,
        _MANAGED,
        *(() if CONDITION in condition_types else (_CONDITIONS,)),
    )
    return pod.as_basis(Basis.RECONSTRUCTED).with_holes([Hole(path, _RACE) for path in paths])


def _is_removed_at_once(pod: Known, exchange: Exchange, following: JSON) -> bool:
    """Return whether an eviction removes the pod at once, because it needs no grace period or has no node.

    Source: `podStrategy.CheckGracefulDelete`.
    """
    value = pod.value
    if any(hole.path[0] in ("spec", "status") or hole.path == FINALIZERS for hole in pod.holes):
        return False
    if get(value, FINALIZERS) or (following is not None and get(following, _UID) == get(value, _UID)):
        return False
    if not get(value, ("spec", "nodeName")) or get(value, ("status", "phase")) in _TERMINATED:
        return True
    return bool(get(exchange.request.json, ("deleteOptions", "gracePeriodSeconds")) == 0)


def _grace_period(pod: Known, exchange: Exchange) -> int | None:
    """Return the grace period of a deletion that leaves the pod, None if unknown.

    Source: `podStrategy.CheckGracefulDelete`.
    """
    value = pod.value
    if any(hole.path[0] != "metadata" or hole.path in (_TIMESTAMP, _GENERATION) for hole in pod.holes):
        return None
    if get(value, _TIMESTAMP) or not get(value, ("spec", "nodeName")):
        return None
    if get(value, ("status", "phase")) in _TERMINATED:
        return None
    body = exchange.request.json
    if not isinstance(body, dict):
        return None
    period = get(body, ("deleteOptions", "gracePeriodSeconds"))
    if period is None:
        period = get(value, ("spec", "terminationGracePeriodSeconds"))
    return period if isinstance(period, int) and period > 0 else None


def _deleting(state: Known, exchange: Exchange, following: JSON, period: int) -> Known:
    """Return a pod with the fields of the deletion.

    Their second is that of the request, or the one in a later state.
    """
    state = state.with_value(_PERIOD, period)
    first, last = exchange.record.received, exchange.record.stage_time
    # A deletionTimestamp has whole seconds, so a request within one second leaves no choice.
    if second(first) == second(last):
        due = datetime.fromisoformat(second(first)).astimezone(UTC) + timedelta(seconds=period)
        return state.with_value(_TIMESTAMP, due.strftime("%Y-%m-%dT%H:%M:%SZ"))
    shown = get(following, _TIMESTAMP)
    if shown and get(following, _PERIOD) == period and get(following, _GENERATION) == get(state.value, _GENERATION):
        return state.with_value(_TIMESTAMP, shown)
    return state.with_holes([Hole(_TIMESTAMP, _REASON)])


def _with_condition(state: Known, following: JSON) -> Known:
    """Return a pod with the eviction's condition as a later state shows it.

    The condition is the last one unless that state shows another order.
    """
    conditions = get(state.value, _CONDITIONS) or []
    condition_types = [condition.get("type") for condition in conditions]
    if CONDITION in condition_types:
        return state
    shown = get(following, _CONDITIONS) or []
    place = next((index for index, condition in enumerate(shown) if condition.get("type") == CONDITION), None)
    if place is None or any(condition.get("type") in condition_types for condition in shown[place:]):
        return state.with_holes([Hole(_CONDITIONS, _REASON)])
    return state.with_value(_CONDITIONS, [*conditions, shown[place]])

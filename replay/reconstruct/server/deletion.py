"""Objects after deletions, and after writes to objects that are being deleted.

Source: `registry/generic/registry/store.go`.
"""

from __future__ import annotations

from collections.abc import Iterator

from replay.json import JSON
from replay.kube.attributes import Basis, Missing
from replay.reconstruct.history.derived import FINALIZERS, being_deleted
from replay.reconstruct.history.history import COLLECTORS
from replay.reconstruct.record.exchange import Exchange, query_of
from replay.reconstruct.record.known import GONE, Known, get

_TIMESTAMP = ("metadata", "deletionTimestamp")
_GRACE = ("metadata", "deletionGracePeriodSeconds")
_BY_POLICY = {"Orphan": "orphan", "Foreground": "foregroundDeletion"}
"""Finalizers of `COLLECTORS`, by the `propagationPolicy` that asks for them."""
_ORPHANS = frozenset({("", "replicationcontrollers"), ("batch", "jobs")})
"""Resources whose `DefaultGarbageCollectionPolicy` is `OrphanDependents`."""


_PLAIN = Known({}, Basis.RECONSTRUCTED)


def left_by_deletion(here: Known | Missing, exchange: Exchange) -> Iterator[Known | Missing]:
    """Yield every state that a deletion may leave: nothing, or the object that finalizers hold.

    If only the garbage collector or the namespace controller holds the object, no line of the log tells when it is
    removed (`replay.world.timeline.states_after_deletion`). An unknown object has the finalizers that the request sets.
    """
    if isinstance(here, Missing):
        if held_by(_PLAIN, exchange) or exchange.record.resource == "namespaces":
            yield here
        yield GONE
        return
    if here.value is None:
        yield here
        return
    held = held_by(here, exchange)
    if held:
        yield being_deleted(here, exchange.record.received).with_value(FINALIZERS, held)
    elif exchange.record.resource == "namespaces":
        yield being_deleted(here, exchange.record.received)
    # The garbage collector may remove its finalizers at any time, so both states are possible.
    if not held or all(name in COLLECTORS for name in held):
        yield GONE


def ended(here: Known | Missing, exchange: Exchange) -> Known | Missing:
    """Return what a deletion leaves if the log's object stayed for finalizers or a grace period."""
    return here if isinstance(here, Missing) else being_deleted(here, exchange.record.received)


def held_by(here: Known, exchange: Exchange) -> list[JSON]:
    """Return the finalizers of an object after a request to delete it (`deletionFinalizersForGarbageCollection`)."""
    present = get(here.value, FINALIZERS) or []
    held = [name for name in present if name not in COLLECTORS]
    policy = _policy(exchange)
    if not policy:
        # Without a policy, a finalizer that is already set overrides the default of the kind
        # (`shouldOrphanDependents`).
        collectors = [name for name in present if name in COLLECTORS]
        resource = (exchange.record.api_group, exchange.record.resource)
        return [*held, *(collectors or (["orphan"] if resource in _ORPHANS else []))]
    return [*held, _BY_POLICY[policy]] if policy in _BY_POLICY else held


def _policy(exchange: Exchange) -> str:
    """Return the `propagationPolicy` of a deletion, empty if the server chooses.

    A body has precedence over the query.
    """
    options = exchange.request.json if isinstance(exchange.request.json, dict) else {}
    if exchange.record.subresource == "eviction":
        options = options.get("deleteOptions") or {}
    query = {} if options else query_of(exchange.record.request_uri)
    orphans = options.get("orphanDependents", query.get("orphanDependents", [None])[0])
    if orphans is not None:
        return "Orphan" if str(orphans).lower() in ("true", "1", "t") else "Background"
    return str(options.get("propagationPolicy") or query.get("propagationPolicy", [""])[0])


def left_by_write(here: Known | Missing, written: Known | Missing) -> Known | Missing:
    """Return the object after a write, null if it removes the last finalizer of a deleted object.

    Source: `ShouldDeleteDuringUpdate`.
    """
    if isinstance(here, Missing) or isinstance(written, Missing) or not is_being_deleted(here):
        return written
    is_held = get(written.value, FINALIZERS) or get(here.value, _GRACE) or _is_held_namespace(written.value)
    return written if is_held else GONE


def is_being_deleted(here: Known) -> bool:
    """Return whether a deletion of the object was requested."""
    return bool(get(here.value, _TIMESTAMP))


def _is_held_namespace(value: JSON) -> bool:
    return get(value, ("kind",)) == "Namespace" and bool(get(value, ("spec", "finalizers")))

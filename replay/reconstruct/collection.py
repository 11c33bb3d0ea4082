"""Deletions of collections: the objects that one deleted, and the collections of which the log has no objects."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

import orjson

from replay.audit.event import RequestRecord
from replay.audit.part import object_ref
from replay.json import JSON
from replay.kube.attributes import Basis, Missing
from replay.kube.discovery import Discovery
from replay.kube.gvk import ObjectRef
from replay.reconstruct.history.collection_deletion import selected_name
from replay.reconstruct.history.old_object import RECORD_RESPONSES
from replay.reconstruct.record.body import BodyShape
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.record.known import Known, get


def deleted_items(exchange: Exchange) -> Iterator[Known | Missing]:
    """Yield the objects that a collection deletion found, as they were before the first was deleted.

    Yields one `Missing` if the response does not list them: then neither their number nor their names are known.
    """
    if exchange.shape is not BodyShape.LIST:
        reason = f"audit level {exchange.record.level} does not record which objects a deletecollection deletes"
        if exchange.response.fault:
            reason = exchange.response.fault
        elif exchange.succeeded and exchange.record.level == "RequestResponse":
            reason = "the response does not list the deleted objects"
        yield Missing("", reason, RECORD_RESPONSES)
        return
    kind = exchange.parent_kind
    header = {"kind": kind.kind, "apiVersion": kind.api_version} if kind else {}
    for item in exchange.response.json["items"]:
        if isinstance(item, dict):
            # The server writes neither kind nor apiVersion into the items of a built-in list.
            yield Known({**header, **item}, Basis.RECORDED)


def is_pending(item: JSON, options: JSON) -> bool:
    """Return whether an object's graceful deletion is under way and the request does not shorten it.

    The server then leaves the object alone, without admission (`rest.BeforeDelete`).
    """
    period = get(item, ("metadata", "deletionGracePeriodSeconds")) or 0
    if not get(item, ("metadata", "deletionTimestamp")) or period <= 0:
        return False
    seconds = get(options, ("gracePeriodSeconds",))
    return not isinstance(seconds, int) or seconds >= period


_UNSEEN = "deleted/unseen"
"""Name for an object that may have been deleted and that nothing else shows. No real object can have it."""
_GONE = orjson.dumps({"kind": "Status", "apiVersion": "v1", "status": "Success"}).decode()
"""Answer to the deletion of an object that no longer exists."""


@dataclass(frozen=True)
class WithUnseenDeletions(Mapping[ObjectRef, list[RequestRecord]]):
    """The writes to each object, and the deletions of objects that may have existed."""

    writes: Mapping[ObjectRef, list[RequestRecord]]
    unseen: Mapping[ObjectRef, list[RequestRecord]]

    def __getitem__(self, key: ObjectRef) -> list[RequestRecord]:
        """Return the records of an object. Raise KeyError."""
        return self.unseen[key] if key in self.unseen else self.writes[key]

    def __iter__(self) -> Iterator[ObjectRef]:
        """Yield the objects, in no particular order."""
        yield from self.writes
        yield from self.unseen

    def __len__(self) -> int:
        """Return the number of objects."""
        return len(self.writes) + len(self.unseen)


def listed_objects(
    collections: Iterable[RequestRecord], known_keys: Collection[ObjectRef], discovery: Discovery
) -> list[JSON]:
    """Return the objects that responses list and that are not in `known_keys`, in their last state."""
    objects: dict[ObjectRef, JSON] = {}
    for record, items in _items(collections, discovery):
        for item in items or ():
            name = str((item.get("metadata") or {}).get("name") or "")
            if name and (key := object_ref(record, name)) not in known_keys:
                objects[key] = item
    return list(objects.values())


def unseen_deletions(
    collections: Iterable[RequestRecord], known_keys: Collection[ObjectRef], discovery: Discovery
) -> dict[ObjectRef, list[RequestRecord]]:
    """Return deletions of objects that may have existed, for responses that do not list them.

    They concern only objects that are not in `known_keys`.
    """
    records_by_key: dict[ObjectRef, list[RequestRecord]] = {}
    for record, items in _items(collections, discovery):
        if items is None:
            one = record._replace(
                verb="delete",
                # A selector by name shows the only object that the request may have deleted.
                name=selected_name(record.request_uri) or _UNSEEN,
                response_object=_GONE,
            )
            key = object_ref(one, one.name)
            if key not in known_keys:
                records_by_key.setdefault(key, []).append(one)
    return records_by_key


def _items(
    collections: Iterable[RequestRecord], discovery: Discovery
) -> Iterator[tuple[RequestRecord, list[JSON] | None]]:
    """Yield what each request deleted, None if the response does not list it."""
    for record in collections:
        exchange = Exchange(record, discovery, checked=True)
        if not exchange.dry_run:
            items = list(deleted_items(exchange))
            listed = [item.value for item in items if isinstance(item, Known)]
            yield record, listed if len(listed) == len(items) else None

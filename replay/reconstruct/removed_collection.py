"""Objects that only a `deletecollection` shows: listed in its response, or possibly deleted by it.

For other objects the deletion is part of their history (`history.collection_deletion`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

import orjson

from replay.audit.directory.lookups import object_ref
from replay.audit.event import RequestRecord
from replay.json import JSON
from replay.kube.discovery import Discovery
from replay.kube.object_ref import ObjectRef
from replay.reconstruct.collection import deleted_items
from replay.reconstruct.history.collection_deletion import selected_name
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.record.known import Known

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


def seen_objects(
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
                verb="delete", name=selected_name(record.request_uri) or _UNSEEN, response_object=_GONE
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

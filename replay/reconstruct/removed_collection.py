"""What a `deletecollection` did to objects that decisions look up, told as deletions of single objects.

The response lists the objects as they were; where it is not recorded, every object of the collection may be gone, and there may
have been others that nothing else shows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

import orjson

from replay.audit.event import RequestRecord
from replay.audit.lookups import ObjectKey, object_key
from replay.json import JSON
from replay.kube.discovery import Discovery
from replay.kube.selector import SelectorError, exact_match, parse_field_selector
from replay.reconstruct.collection import deleted_items
from replay.reconstruct.history.clock import RevisionClock
from replay.reconstruct.history.derived import instant
from replay.reconstruct.record.body import revision
from replay.reconstruct.record.exchange import Exchange, query_of
from replay.reconstruct.record.known import Known

_UNSEEN = "deleted/unseen"
"""The name of what may have been deleted and is shown by nothing else: no object can have it."""
_SECOND = 1_000_000


@dataclass(frozen=True)
class WithRemoved(Mapping[ObjectKey, list[RequestRecord]]):
    """The writes to each object, with the deletions of collections among them, in order."""

    writes: Mapping[ObjectKey, list[RequestRecord]]
    removed: Mapping[ObjectKey, list[RequestRecord]]

    def __getitem__(self, key: ObjectKey) -> list[RequestRecord]:
        """The records of an object; raises KeyError."""
        added = self.removed.get(key)
        if added is None:
            return self.writes[key]
        own = self.writes.get(key, [])
        return sorted([*own, *added], key=lambda record: (record.seq, record.audit_id))

    def __iter__(self) -> Iterator[ObjectKey]:
        """The objects, in no particular order."""
        yield from self.writes
        yield from (key for key in self.removed if key not in self.writes)

    def __len__(self) -> int:
        """How many objects there are."""
        return len(self.writes) + sum(key not in self.writes for key in self.removed)


@dataclass(frozen=True)
class Removed:
    """The deletions by object, and the objects that nothing but a response shows, as they were."""

    writes: Mapping[ObjectKey, list[RequestRecord]]
    seen: tuple[JSON, ...]


def removed_objects(
    collections: Iterable[RequestRecord],
    writes: Mapping[ObjectKey, list[RequestRecord]],
    snapshot: Mapping[ObjectKey, JSON],
    clock: RevisionClock,
    discovery: Discovery,
) -> Removed:
    """What `collections` did; `snapshot` are the objects of the same kinds that a snapshot holds."""
    newest = max((revision(obj.get("metadata")) or 0 for obj in snapshot.values()), default=0)
    taken = clock.bounds(newest) if newest else (0, 0)
    found: dict[ObjectKey, list[RequestRecord]] = {}
    seen: dict[ObjectKey, JSON] = {}
    for record in collections:
        exchange = Exchange(record, discovery, checked=True)
        if exchange.dry_run:
            continue
        items = list(deleted_items(exchange))
        listed = [item.value for item in items if isinstance(item, Known)]
        if len(listed) == len(items):
            for item in listed:
                one = _deletion(record, item["metadata"])
                key = object_key(one, one.name)
                found.setdefault(key, []).append(one)
                if key not in snapshot and key not in writes:
                    seen[key] = item
            continue
        for one in _perhaps_deleted(record, {*writes, *snapshot}, snapshot, taken):
            found.setdefault(object_key(one, one.name), []).append(one)
    return Removed(found, tuple(seen.values()))


def _deletion(record: RequestRecord, metadata: JSON) -> RequestRecord:
    """The deletion of a listed object, which is gone unless a finalizer keeps it."""
    name, namespace = str(metadata.get("name") or ""), str(metadata.get("namespace") or "")
    answer = None if metadata.get("finalizers") else _gone(str(metadata.get("uid") or ""))
    return record._replace(verb="delete", name=name, namespace=namespace, response_object=answer)


def _gone(uid: str) -> str:
    """The answer to the deletion of an object that is gone."""
    status = {"kind": "Status", "apiVersion": "v1", "status": "Success", "details": {"uid": uid}}
    return orjson.dumps(status).decode()


def _perhaps_deleted(
    record: RequestRecord, known: Collection[ObjectKey], snapshot: Mapping[ObjectKey, JSON], taken: tuple[int, int]
) -> Iterator[RequestRecord]:
    """The deletion of everything in a collection that is not known to have outlived it.

    What existed before, and is in a snapshot that was taken later, was left alone.
    """
    is_later = taken[0] >= record.stage_time
    only = _selected_name(record)
    for key in known:
        if only is not None and key.name != only:
            continue
        if (key.api_group, key.resource, key.namespace) != (record.api_group, record.resource, record.namespace):
            continue
        metadata = (snapshot.get(key) or {}).get("metadata") or {}
        created = instant(metadata.get("creationTimestamp"))
        if not (is_later and created and created + _SECOND <= record.received):
            yield record._replace(verb="delete", name=key.name, response_object=None)
    if taken[1] > record.received:
        yield record._replace(verb="delete", name=only or _UNSEEN, response_object=_gone(""))


def _selected_name(record: RequestRecord) -> str | None:
    """The one name that the field selector allows, None where it allows several."""
    try:
        requirements = parse_field_selector(query_of(record.request_uri).get("fieldSelector", [""])[0])
    except SelectorError:
        return None
    return exact_match(requirements, "metadata.name")

"""`deletecollection`: requests that delete objects without naming them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from msgspec import Struct

from replay.audit.event import RequestRecord
from replay.audit.place import LogPosition
from replay.json import FieldPath
from replay.kube.discovery import Discovery
from replay.kube.selector import (
    SELECTABLE,
    Requirement,
    SelectorError,
    field_text,
    parse_field_selector,
    parse_label_selector,
)
from replay.reconstruct.collection import deleted_items
from replay.reconstruct.record.exchange import Exchange, query_of
from replay.reconstruct.record.known import Known, get
from replay.reconstruct.server.deletion import held_by
from replay.world.pod_validation import is_open
from replay.world.result import Cause, answered


class Collection(Struct, frozen=True, dict=True):
    """A `deletecollection` request of the log.

    `items` maps the UIDs of the deleted objects to their positions in the response. `names` are their names in the
    order in which the server deletes them (`Store.DeleteCollection`: one worker by default, which stops at the first
    error).
    """

    record: RequestRecord
    items: Mapping[str, int]
    names: tuple[str, ...] = ()
    held: frozenset[str] = frozenset()
    """UIDs of the objects that finalizers keep: they remain after the request."""

    @property
    def place(self) -> LogPosition:
        """The position of the request."""
        return LogPosition(self.record.seq, 0)

    @cached_property
    def is_refused(self) -> bool:
        """Return whether admission or authorization refused the request in the log.

        The answer does not say for which object.
        """
        return answered(self.record).cause in (Cause.DENIED, Cause.FORBIDDEN)

    def selects(self, exchange: Exchange, obj: Known) -> bool | None:
        """Return whether the selectors of the request match an object, None if that depends on an unknown field.

        A field that the kind does not offer for selection matches nothing.
        """
        try:
            query = query_of(exchange.record.request_uri)
            by_label = parse_label_selector(query.get("labelSelector", [""])[0])
            by_field = parse_field_selector(query.get("fieldSelector", [""])[0])
        except SelectorError:
            return False
        selectable = {**_NAMES, **SELECTABLE.get((self.record.api_group, self.record.resource), {})}
        if not all(each.key in selectable for each in by_field):
            return False
        paths: dict[str, FieldPath] = {each.key: tuple(each.key.split(".")) for each in by_field}
        fields = {key: field_text(get(obj.value, path), selectable[key]) for key, path in paths.items()}
        terms: list[tuple[Requirement, dict[str, str], FieldPath]] = [
            (each, fields, paths[each.key]) for each in by_field
        ]
        labels = get(obj.value, OBJECT_LABELS) or {}
        terms += [(each, labels, (*OBJECT_LABELS, each.key)) for each in by_label]
        is_certain = True
        for requirement, found, path in terms:
            # The loop goes on, because a later requirement may still exclude the object.
            if is_open(path, obj):
                is_certain = False
            elif not requirement.matches(found):
                return False
        return True if is_certain else None


OBJECT_LABELS: FieldPath = ("metadata", "labels")
_NAMES = {"metadata.name": "", "metadata.namespace": ""}


class PlaceCollections:
    """The collection requests that may concern objects of one resource and namespace, in order."""

    def __init__(self, collections: Iterable[Collection]) -> None:
        """Index the requests: a log of months has thousands per namespace, and one object meets only a few of them."""
        self.ordered = sorted(collections, key=lambda each: each.record.seq)
        self.seqs = [each.record.seq for each in self.ordered]
        self._refused = [index for index, each in enumerate(self.ordered) if each.is_refused]
        self._listing: dict[str, list[int]] = {}
        for index, each in enumerate(self.ordered):
            for uid in each.items:
                self._listing.setdefault(uid, []).append(index)

    def next_of(self, uid: str, start: int) -> int:
        """Return the index of the next request, from `start`, that lists the UID or was refused.

        It is the number of requests if none does.
        """
        return min(_next(places, start, len(self.ordered)) for places in (self._refused, self._listing.get(uid, ())))


class CollectionCursor:
    """Cursor over the collection requests that one object meets."""

    def __init__(self, collections: PlaceCollections) -> None:
        """Start before the first request of `collections`."""
        self._collections = collections
        self._next = 0

    def are_due(self, seq: float) -> bool:
        """Return whether a request up to this sequence number is left."""
        seqs = self._collections.seqs
        return self._next < len(seqs) and seqs[self._next] <= seq

    def until(self, seq: float, uid: str, may_meet: Callable[[], bool]) -> Iterator[Collection]:
        """Yield the requests up to a sequence number that may concern the object.

        Those that list its UID, or were refused, always count. Others count while `may_meet` returns true. It is called
        before each, as its answer changes with the object.
        """
        end = bisect_right(self._collections.seqs, seq)
        while self._next < end:
            if not may_meet():
                self._next = min(self._collections.next_of(uid, self._next), end)
            if self._next < end:
                self._next += 1
                yield self._collections.ordered[self._next - 1]


def _next(places: Sequence[int], start: int, end: int) -> int:
    index = bisect_left(places, start)
    return places[index] if index < len(places) else end


class Collections(Struct, frozen=True, dict=True):
    """All collection requests of a log, by group, resource, namespace and workspace."""

    by_place: Mapping[tuple[str, str, str, str], tuple[Collection, ...]]

    @property
    def all(self) -> Iterator[Collection]:
        """All collection requests, in no particular order."""
        return (each for collections in self.by_place.values() for each in collections)

    @staticmethod
    def from_records(records: Iterable[RequestRecord], discovery: Discovery) -> Collections:
        """Return the collection requests among `records`, without their response bodies."""
        by_place: dict[tuple[str, str, str, str], list[Collection]] = {}
        for record in records:
            exchange = Exchange(record, discovery)
            listed = list(_listed(exchange))
            items = {item.uid: item.number for item in listed if item.uid}
            names = tuple(item.name for item in listed)
            held = frozenset(item.uid for item in listed if item.is_held)
            key = (record.api_group, record.resource, record.namespace, record.workspace)
            by_place.setdefault(key, []).append(Collection(record._replace(response_object=None), items, names, held))
        return Collections({key: tuple(collections) for key, collections in by_place.items()})

    def requests_about(self, record: RequestRecord) -> PlaceCollections:
        """Return the collection requests that may concern the object of a record.

        They name its namespace: no path deletes a collection in all namespaces (`registerResourceHandlers`).
        """
        key = (record.api_group, record.resource, record.namespace, record.workspace)
        collections = self._about.get(key)
        if collections is None:
            collections = self._about[key] = PlaceCollections(self.by_place.get(key, ()))
        return collections

    @cached_property
    def _about(self) -> dict[tuple[str, str, str, str], PlaceCollections]:
        return {}


class _Listed(NamedTuple):
    """One object in the response to a collection request."""

    uid: str
    number: int
    name: str
    is_held: bool


def _listed(exchange: Exchange) -> Iterator[_Listed]:
    for number, item in enumerate(deleted_items(exchange)):
        metadata = get(item.value, ("metadata",)) if isinstance(item, Known) else None
        if isinstance(item, Known) and isinstance(metadata, dict) and isinstance(metadata.get("uid"), str):
            is_held = bool(held_by(item, exchange))
            yield _Listed(metadata["uid"], number, str(metadata.get("name") or ""), is_held)

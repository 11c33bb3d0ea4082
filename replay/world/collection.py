"""`deletecollection`: requests that delete objects without naming them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

from msgspec import Struct

from replay.audit.event import RequestRecord
from replay.audit.place import LogPosition
from replay.json import JSON
from replay.kube.discovery import Discovery
from replay.kube.selector import SelectorError, parse_field_selector, parse_label_selector
from replay.reconstruct.collection import deleted_items
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.record.known import Known, get
from replay.world.result import Cause, answered


class Collection(Struct, frozen=True, dict=True):
    """A `deletecollection`; `items` are the uids of the objects that it deleted in the log, with their numbers.

    `names` are those of the same objects, in the order in which the server deletes them (`Store.DeleteCollection`, which has one
    worker unless told otherwise, and ends at the first error).
    """

    record: RequestRecord
    items: Mapping[str, int]
    names: tuple[str, ...] = ()

    @property
    def place(self) -> LogPosition:
        """The position of the request."""
        return LogPosition(self.record.seq, 0)

    @cached_property
    def is_refused(self) -> bool:
        """Whether a policy or webhook refused it in the log; the answer does not tell for which object."""
        return answered(self.record).cause == Cause.DENIED

    def selects(self, exchange: Exchange, value: JSON) -> bool:
        """Whether an object is one of those to delete; a selector of other fields than its name and namespace selects nothing."""
        metadata = get(value, ("metadata",)) or {}
        try:
            by_label = parse_label_selector(exchange.query.get("labelSelector", [""])[0])
            by_field = parse_field_selector(exchange.query.get("fieldSelector", [""])[0])
        except SelectorError:
            return False
        fields = {f"metadata.{name}": str(metadata.get(name) or "") for name in ("name", "namespace")}
        return all(each.matches(metadata.get("labels") or {}) for each in by_label) and all(
            each.key in fields and each.matches(fields) for each in by_field
        )


class Collections(NamedTuple):
    """All of a log, by group, resource, namespace and workspace."""

    by_place: Mapping[tuple[str, str, str, str], tuple[Collection, ...]]

    @property
    def all(self) -> Iterator[Collection]:
        """All of them, in no particular order."""
        return (each for collections in self.by_place.values() for each in collections)

    @staticmethod
    def of(records: Iterable[RequestRecord], discovery: Discovery) -> Collections:
        """Those that deleted something or may delete something elsewhere; bodies are not kept."""
        by_place: dict[tuple[str, str, str, str], list[Collection]] = {}
        for record in records:
            listed = list(_listed(Exchange(record, discovery)))
            items = {uid: number for uid, number, _ in listed if uid}
            names = tuple(name for _, _, name in listed)
            key = (record.api_group, record.resource, record.namespace, record.workspace)
            by_place.setdefault(key, []).append(Collection(record._replace(response_object=None), items, names))
        return Collections({key: tuple(collections) for key, collections in by_place.items()})

    def about(self, record: RequestRecord) -> tuple[Collection, ...]:
        """Those that may be about the object of a record."""
        group, resource, workspace = record.api_group, record.resource, record.workspace
        everywhere = self.by_place.get((group, resource, "", workspace), ()) if record.namespace else ()
        return (*self.by_place.get((group, resource, record.namespace, workspace), ()), *everywhere)


def _listed(exchange: Exchange) -> Iterator[tuple[str, int, str]]:
    """The uid, the number and the name of each object that a response lists."""
    for number, item in enumerate(deleted_items(exchange)):
        metadata = get(item.value, ("metadata",)) if isinstance(item, Known) else None
        if isinstance(metadata, dict) and isinstance(metadata.get("uid"), str):
            yield metadata["uid"], number, str(metadata.get("name") or "")

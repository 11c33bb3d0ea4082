"""`deletecollection`: requests that delete objects without naming them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from replay.audit.event import RequestRecord
from replay.audit.place import Place
from replay.json import JSON
from replay.kube.discovery import Discovery
from replay.kube.selector import SelectorError, parse_field_selector, parse_label_selector
from replay.reconstruct.collection import deleted_items
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.record.known import Known, get


class Collection(NamedTuple):
    """A `deletecollection`; `items` are the uids of the objects that it deleted in the log, with their numbers."""

    record: RequestRecord
    items: Mapping[str, int]

    @property
    def place(self) -> Place:
        """The position of the request."""
        return Place(self.record.seq, 0)

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
    """All of a log, by group, resource and namespace."""

    by_place: Mapping[tuple[str, str, str], tuple[Collection, ...]]

    @staticmethod
    def of(records: Iterable[RequestRecord], discovery: Discovery) -> Collections:
        """Those that deleted something or may delete something elsewhere; bodies are not kept."""
        found: dict[tuple[str, str, str], list[Collection]] = {}
        for record in records:
            items = dict(_uids(Exchange(record, discovery)))
            key = (record.api_group, record.resource, record.namespace)
            found.setdefault(key, []).append(Collection(record._replace(response_object=None), items))
        return Collections({key: tuple(collections) for key, collections in found.items()})

    def about(self, record: RequestRecord) -> tuple[Collection, ...]:
        """Those that may be about the object of a record."""
        everywhere = self.by_place.get((record.api_group, record.resource, ""), ()) if record.namespace else ()
        return (*self.by_place.get((record.api_group, record.resource, record.namespace), ()), *everywhere)


def _uids(exchange: Exchange) -> Iterator[tuple[str, int]]:
    for number, item in enumerate(deleted_items(exchange)):
        uid = get(item.value, ("metadata", "uid")) if isinstance(item, Known) else None
        if isinstance(uid, str):
            yield uid, number

"""`deletecollection`: requests that delete objects without naming them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from replay.audit.event import RequestRecord
from replay.audit.place import Place
from replay.json import JSON
from replay.kube.discovery import Discovery
from replay.reconstruct.collection import deleted_items
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.record.known import Known, get

_SET = re.compile(r"^(\S+)\s+(in|notin)\s+\(([^)]*)\)$")
_BETWEEN = re.compile(r",(?![^()]*\))")


class Collection(NamedTuple):
    """A `deletecollection`; `items` are the uids of the objects that it deleted in the log, with their numbers."""

    record: RequestRecord
    items: Mapping[str, int]

    @property
    def place(self) -> Place:
        """The position of the request."""
        return Place(self.record.seq, 0)

    def selects(self, exchange: Exchange, value: JSON) -> bool:
        """Whether an object is one of those to delete; a field selector that is not about the name selects nothing."""
        labels = get(value, ("metadata", "labels")) or {}
        for text in exchange.query.get("labelSelector", ()):
            if not all(_meets(term.strip(), labels) for term in _BETWEEN.split(text) if term.strip()):
                return False
        names = [f"metadata.name={get(value, ('metadata', 'name'))}"]
        return all(text in ("", *names) for text in exchange.query.get("fieldSelector", ()))


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


def _meets(term: str, labels: Mapping[str, str]) -> bool:
    """One requirement of a label selector (`labels.Parse`)."""
    found = _SET.match(term)
    if found is not None:
        values = {value.strip() for value in found[3].split(",")}
        return (labels.get(found[1]) in values) is (found[2] == "in") and (found[2] == "notin" or found[1] in labels)
    if "!=" in term:
        key, _, value = term.partition("!=")
        return labels.get(key.strip()) != value.strip()
    if "=" in term:
        key, _, value = term.replace("==", "=").partition("=")
        return labels.get(key.strip()) == value.strip()
    return (term[1:].strip() not in labels) if term.startswith("!") else term in labels

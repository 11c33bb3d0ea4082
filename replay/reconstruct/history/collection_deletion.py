"""Objects that a `deletecollection` removed. The request names none, so that no object's own records show it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from replay.kube.gvk import ObjectRef
from replay.kube.selector import SelectorError, exact_match, parse_field_selector
from replay.reconstruct.history.effect import Effect, EffectKind
from replay.reconstruct.record.exchange import query_of

Row = Sequence[object]
"""Row of `queries/collection_deletions.sql`."""

_LINGERS = frozenset({("", "pods"), ("", "namespaces"), ("", "replicationcontrollers"), ("batch", "jobs")})
"""Resources whose objects a deletion may keep for a while, whatever their finalizers.

The cause is a grace period, `spec.finalizers`, or `DefaultGarbageCollectionPolicy` (which orphans by a finalizer).
"""


def selected_name(request_uri: str) -> str | None:
    """Return the only name that the field selector of a request allows, None if it allows several."""
    try:
        requirements = parse_field_selector(query_of(request_uri).get("fieldSelector", [""])[0])
    except SelectorError:
        return None
    return exact_match(requirements, "metadata.name")


class CollectionItem(NamedTuple):
    """An object that a response lists. If finalizers hold it (`is_held`), it outlives the request."""

    uid: str
    is_held: bool


class CollectionDeletion(NamedTuple):
    """A collection deletion. `start` and `end` (microseconds) enclose its effect.

    `items` are the deleted objects by name, None if unknown.
    """

    api_group: str
    resource: str
    namespace: str
    start: int
    end: int
    request_uri: str
    items: Mapping[str, CollectionItem] | None
    workspace: str = ""

    def effect_on(self, name: str) -> Effect | None:
        """Return the effect on an object of its resource and namespace, or None if it was not affected."""
        if self.items is None:
            if selected_name(self.request_uri) not in (None, name):
                return None
            return Effect(EffectKind.COLLECTED, self.start, self.end, None)
        item = self.items.get(name)
        if item is None:
            return None
        lingers = item.is_held or (self.api_group, self.resource) in _LINGERS
        kind = EffectKind.COLLECTED if lingers else EffectKind.GONE
        return Effect(kind, self.start, self.end, None, uid=item.uid)


class CollectionDeletions:
    """All collection deletions of a log, by group, resource, namespace and workspace."""

    def __init__(self, rows: Iterable[Row] = (), error: int = 0) -> None:
        """Keep the deletions. `rows` come from the query, and their times may be wrong by `error` microseconds."""
        self._by_place: dict[tuple[str, str, str, str], list[CollectionDeletion]] = {}
        for row in rows:
            deletion = _deletion_from_row(row, error)
            self._by_place.setdefault(
                (deletion.api_group, deletion.resource, deletion.namespace, deletion.workspace), []
            ).append(deletion)

    def effects_on(self, about: ObjectRef) -> Iterator[Effect]:
        """Yield the effects on one object, by time."""
        for each in self._by_place.get((about.group, about.resource, about.namespace, about.workspace), ()):
            effect = each.effect_on(about.name)
            if effect is not None:
                yield effect


def _deletion_from_row(row: Row, error: int) -> CollectionDeletion:
    group, resource, namespace, received, stage_time, uri, items, *workspace = row
    assert isinstance(received, int)
    assert isinstance(stage_time, int)
    listed = (
        {name: CollectionItem(uid, bool(is_held)) for name, uid, is_held in items}
        if isinstance(items, list | tuple)
        else None
    )
    return CollectionDeletion(
        str(group),
        str(resource),
        str(namespace),
        received - error,
        stage_time + error,
        str(uri),
        listed,
        str(workspace[0]) if workspace else "",
    )


def settled(effects: Sequence[Effect]) -> list[Effect]:
    """Return ordered effects after resolving what collection deletions did, as far as later effects tell.

    A deletion did nothing to an object that is seen later, unchanged in UID and not being deleted. If another object of
    the same name follows, the first one is gone.
    """
    certain: list[Effect] = []
    for index, effect in enumerate(effects):
        if effect.kind is EffectKind.COLLECTED:
            earlier = next((each.uid for each in reversed(certain) if each.uid), "")
            later = next((each for each in effects[index + 1 :] if each.uid), None)
            own = effect.uid or earlier
            if later is not None and own and later.uid != own:
                effect.kind = EffectKind.GONE
            # A state from the time of the request may be older than the deletion, so that it proves nothing.
            elif later is not None and later.uid == own and later.start >= effect.end and _is_alive(later):
                continue
        certain.append(effect)
    return certain


def _is_alive(effect: Effect) -> bool:
    """Return whether a state shows an object that is not being deleted."""
    metadata = effect.state.get("metadata") if isinstance(effect.state, dict) else None
    return isinstance(metadata, dict) and not metadata.get("deletionTimestamp")

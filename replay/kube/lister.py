"""Cluster objects that decisions look up (namespaces, parameters, RBAC objects, CRDs), as a protocol, and as objects in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject
from replay.kube.gvk import GroupVersionKind, split_api_version


class Lister(Protocol):
    """Objects of the cluster at the time of one request, as plain JSON that must not be changed."""

    def get(self, kind: GroupVersionKind, namespace: str, name: str) -> JSON | Missing | None:
        """Return the object, None if it is known not to exist, or `Missing`. `namespace` is empty for cluster scope."""
        ...

    def list(self, kind: GroupVersionKind, namespace: str | None) -> Sequence[JSON] | Missing:
        """Return all objects of a kind in a namespace, sorted by namespace and name.

        The namespace None means all. The result is `Missing` if the objects are unknown.
        """
        ...


@runtime_checkable
class TimedLister(Protocol):
    """A lister that knows when its request was received and answered, in microseconds since 1970."""

    @property
    def start(self) -> int:
        """Return when the request was received."""
        ...

    @property
    def end(self) -> int:
        """Return when the request was answered."""
        ...


def span_of(lister: Lister) -> tuple[int, int] | None:
    """Return when the request of a lister was received and answered, or None if unknown.

    A lister that lays other objects over an `origin` has the times of that one.
    """
    each: Any = lister
    while each is not None and not isinstance(each, TimedLister):
        each = getattr(each, "origin", None)
    return None if each is None else (each.start, each.end)


class ObjectLister:
    """A lister over all objects of their kinds. Other objects do not exist."""

    def __init__(self, objects: Iterable[JSON | PartialObject]) -> None:
        """Index the objects. Of several with one identity, the last counts.

        Partly known objects are listed as they are.
        """
        self._objects: dict[tuple[str, str], dict[tuple[str, str], JSON | PartialObject]] = {}
        self._by_namespace: dict[tuple[str, str], dict[str, list[JSON]]] = {}
        for obj in objects:
            value = obj.value if isinstance(obj, PartialObject) else obj
            metadata = value.get("metadata") or {}
            group = str(value.get("apiVersion") or "").rpartition("/")[0]
            key = (str(metadata.get("namespace") or ""), str(metadata.get("name") or ""))
            self._objects.setdefault((group, str(value.get("kind"))), {})[key] = obj
        for kind, objects_of_kind in self._objects.items():
            self._objects[kind] = dict(sorted(objects_of_kind.items(), key=lambda item: item[0]))

    def get(self, kind: GroupVersionKind, namespace: str, name: str) -> JSON | Missing | None:
        """See `Lister.get`."""
        return self._objects.get((kind.group, kind.kind), {}).get((namespace, name))

    def list(self, kind: GroupVersionKind, namespace: str | None) -> Sequence[JSON]:
        """See `Lister.list`."""
        objects_of_kind = self._objects.get((kind.group, kind.kind), {})
        if namespace is None:
            return list(objects_of_kind.values())
        by_namespace = self._by_namespace.get((kind.group, kind.kind))
        if by_namespace is None:
            by_namespace = self._by_namespace[kind.group, kind.kind] = {}
            for place, obj in objects_of_kind.items():
                by_namespace.setdefault(place[0], []).append(obj)
        return by_namespace.get(namespace, [])


ObjectKey = tuple[str, str, str, str]
"""The group, kind, namespace and name of an object."""


class ObjectTracker:
    """Lister over plain objects (`replay.kube.lister.Lister`). All existing objects are known."""

    def __init__(self, objects: Iterable[JSON] = ()) -> None:
        """Add the objects. If two have one identity, the later one counts."""
        self._objects: dict[ObjectKey, JSON] = {}
        for obj in objects:
            self.put(obj)

    def put(self, obj: JSON) -> None:
        """Add an object, or replace the one with the same identity."""
        metadata = obj.get("metadata") or {}
        group, _ = split_api_version(str(obj.get("apiVersion") or ""))
        key = group, str(obj.get("kind")), str(metadata.get("namespace") or ""), str(metadata.get("name") or "")
        self._objects[key] = obj

    def remove(self, kind: GroupVersionKind, namespace: str, name: str) -> None:
        """Remove an object, if it exists."""
        self._objects.pop((kind.group, kind.kind, namespace, name), None)

    def get(self, kind: GroupVersionKind, namespace: str, name: str) -> JSON | None:
        """Return the object, None if there is none."""
        return self._objects.get((kind.group, kind.kind, namespace, name))

    def list(self, kind: GroupVersionKind, namespace: str | None) -> Sequence[JSON]:
        """Return all objects of a kind in a namespace (None: all), sorted by namespace and name."""
        objects = [
            (key[2:], obj)
            for key, obj in self._objects.items()
            if key[:2] == (kind.group, kind.kind) and namespace in (None, key[2])
        ]
        return [obj for _, obj in sorted(objects, key=lambda each: each[0])]

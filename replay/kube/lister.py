"""Where decisions find the objects of the cluster: namespaces, parameters, RBAC objects, CRDs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject
from replay.kube.gvk import GroupVersionKind


class Lister(Protocol):
    """The objects of the cluster at the instant of one request, as plain JSON that nobody changes."""

    def get(self, kind: GroupVersionKind, namespace: str, name: str) -> JSON | Missing | None:
        """The object, None if it is known not to exist, or why that is not known; `namespace` is empty for cluster scope."""
        ...

    def list(self, kind: GroupVersionKind, namespace: str | None) -> Sequence[JSON] | Missing:
        """All objects of a kind in a namespace (None: in all), sorted by namespace and name, or why they are not known."""
        ...


class ObjectLister:
    """A lister over objects that are all there is of their kinds."""

    def __init__(self, objects: Iterable[JSON | PartialObject]) -> None:
        """Of objects with the same identity the last counts; what is known in part is listed as it is."""
        self._objects: dict[tuple[str, str], dict[tuple[str, str], JSON | PartialObject]] = {}
        self._listed: dict[tuple[str, str, str | None], list[JSON]] = {}
        self._add(objects)

    def _add(self, objects: Iterable[JSON | PartialObject]) -> None:
        """Add objects; kinds that are already there are copied first."""
        added: dict[tuple[str, str], dict[tuple[str, str], JSON | PartialObject]] = {}
        for obj in objects:
            value = obj.value if isinstance(obj, PartialObject) else obj
            metadata = value.get("metadata") or {}
            group = str(value.get("apiVersion") or "").rpartition("/")[0]
            key = (str(metadata.get("namespace") or ""), str(metadata.get("name") or ""))
            added.setdefault((group, str(value.get("kind"))), {})[key] = obj
        for kind, found in added.items():
            self._objects[kind] = dict(sorted({**self._objects.get(kind, {}), **found}.items()))

    def with_objects(self, objects: Iterable[JSON | PartialObject]) -> ObjectLister:
        """A lister over these objects too; what it has in common with this one is not copied."""
        made = ObjectLister(())
        made._objects = dict(self._objects)
        made._add(objects)
        return made

    def get(self, kind: GroupVersionKind, namespace: str, name: str) -> JSON | Missing | None:
        """See `Lister.get`."""
        return self._objects.get((kind.group, kind.kind), {}).get((namespace, name))

    def list(self, kind: GroupVersionKind, namespace: str | None) -> Sequence[JSON]:
        """See `Lister.list`."""
        key = (kind.group, kind.kind, namespace)
        listed = self._listed.get(key)
        if listed is None:
            found = self._objects.get((kind.group, kind.kind), {})
            listed = [obj for place, obj in found.items() if namespace is None or place[0] == namespace]
            self._listed[key] = listed
        return listed

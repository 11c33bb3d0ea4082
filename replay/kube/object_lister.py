"""Objects in memory as a lister, for a cluster that changes only by its own methods."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from replay.json import JSON
from replay.kube.gvk import GroupVersionKind, split_api_version

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

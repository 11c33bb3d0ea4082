"""Planned objects, laid over those of the cluster as `kubectl apply` does.

A field of the manifest counts. A field that only an earlier manifest had is removed. All others stay
(`k8s.io/kubectl/pkg/cmd/apply`, the three-way merge, but lists are replaced as a whole).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from msgspec import Struct

from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject
from replay.kube.default_rules import limit_range_item
from replay.kube.gvk import GroupVersionKind, split_api_version
from replay.kube.lister import Lister
from replay.kube.schema import CRD

GroupKind = tuple[str, str]
"""The group and kind of an object."""
NamespacedName = tuple[str, str]
"""The namespace and name of an object."""
_NAMESPACE: GroupKind = ("", "Namespace")
_NAME_LABEL = "kubernetes.io/metadata.name"
"""The label that the API server gives each namespace."""


def objects_by_kind(objects: Iterable[JSON]) -> dict[GroupKind, dict[NamespacedName, JSON]]:
    """Return objects by kind and name, with the defaults that decisions read.

    Of two with one identity the later counts.
    """
    by_kind: dict[GroupKind, dict[NamespacedName, JSON]] = {}
    for obj in objects:
        metadata = obj.get("metadata") or {}
        kind = split_api_version(str(obj.get("apiVersion") or ""))[0], str(obj.get("kind"))
        name = str(metadata.get("namespace") or ""), str(metadata.get("name") or "")
        by_kind.setdefault(kind, {})[name] = _defaulted(obj, kind)
    return by_kind


def definitions(objects: Iterable[JSON]) -> list[JSON]:
    """Return the CustomResourceDefinitions among some objects."""
    return list(objects_by_kind(objects).get((CRD.group, CRD.kind), {}).values())


class Overlay(Struct, frozen=True, dict=True):
    """The objects of one set over the cluster. `earlier` are those of the baseline, which were applied before."""

    objects: tuple[Any, ...] = ()
    earlier: tuple[Any, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Return whether nothing is laid over the cluster."""
        return not self.objects and not self.earlier

    @cached_property
    def own(self) -> Mapping[GroupKind, Mapping[NamespacedName, JSON]]:
        """Return the objects that are laid over the cluster."""
        return objects_by_kind(self.objects)

    @cached_property
    def last(self) -> Mapping[GroupKind, Mapping[NamespacedName, JSON]]:
        """Return the objects that were applied before."""
        return objects_by_kind(self.earlier)

    def lister(self, lister: Lister) -> Lister:
        """Return a lister of the cluster with these objects."""
        return lister if self.is_empty else _OverLister(self, lister)

    def over(self, kind: GroupKind, name: NamespacedName, live: Any) -> Any:
        """Return an object after the apply, or None if it would not exist.

        An object that only the earlier set has is removed. A Namespace only loses the labels and annotations of the
        earlier set, because it exists whether or not a set names it.
        """
        own = self.own.get(kind, {}).get(name)
        last = self.last.get(kind, {}).get(name)
        if own is None and last is not None and kind == _NAMESPACE:
            return _unlabelled(live, last)
        if own is None:
            return live if last is None else None
        if isinstance(live, Missing):
            # The namespace may have more labels than the manifest gives.
            return live if kind == _NAMESPACE else own
        if live is None:
            return own
        if isinstance(live, PartialObject):
            return PartialObject(applied(live.value, last or {}, own), live.missing)
        return applied(live, last or {}, own)


def under(lister: Lister) -> Lister:
    """Return a lister without what is laid over it."""
    while isinstance(lister, _OverLister):
        lister = lister.origin
    return lister


class _OverLister:
    """A lister with an overlay."""

    def __init__(self, overlay: Overlay, lister: Lister) -> None:
        self._overlay = overlay
        self.origin = lister

    def get(self, kind: GroupVersionKind, namespace: str, name: str) -> JSON | Missing | None:
        """See `Lister.get`."""
        live = self.origin.get(kind, namespace, name)
        return self._overlay.over((kind.group, kind.kind), (namespace, name), live)

    def list(self, kind: GroupVersionKind, namespace: str | None) -> Sequence[JSON] | Missing:
        """See `Lister.list`."""
        live = self.origin.list(kind, namespace)
        key, overlay = (kind.group, kind.kind), self._overlay
        own, last = overlay.own.get(key, {}), overlay.last.get(key, {})
        if isinstance(live, Missing) or not (own or last):
            return live
        objects = {}
        for obj in live:
            metadata = (obj.value if isinstance(obj, PartialObject) else obj).get("metadata") or {}
            name = str(metadata.get("namespace") or ""), str(metadata.get("name") or "")
            if (changed := overlay.over(key, name, obj)) is not None:
                objects[name] = changed
        objects.update((name, obj) for name, obj in own.items() if name not in objects and namespace in (None, name[0]))
        return [obj for _, obj in sorted(objects.items(), key=lambda each: each[0])]


def _unlabelled(live: Any, last: JSON) -> Any:
    """Return a namespace without the labels and annotations that a manifest gave it."""
    if isinstance(live, PartialObject):
        return PartialObject(_unlabelled(live.value, last), live.missing)
    if not isinstance(live, dict) or not isinstance(live.get("metadata"), dict):
        return live
    metadata = dict(live["metadata"])
    for field in ("labels", "annotations"):
        given = set((last.get("metadata") or {}).get(field) or ()) - {_NAME_LABEL}
        if isinstance(metadata.get(field), dict):
            metadata[field] = {key: value for key, value in metadata[field].items() if key not in given}
    return {**live, "metadata": metadata}


def applied(live: JSON, last: JSON, new: JSON) -> JSON:
    """Merge maps three ways. Arguments are not changed."""
    merged = {key: value for key, value in live.items() if key in new or key not in last}
    for key, value in new.items():
        live_value = live.get(key)
        if isinstance(value, dict) and isinstance(live_value, dict):
            last_value = last.get(key)
            merged[key] = applied(live_value, last_value if isinstance(last_value, dict) else {}, value)
        else:
            merged[key] = value
    return merged


def _defaulted(obj: JSON, kind: GroupKind) -> JSON:
    """Apply the API defaults that decisions read (`k8s.io/kubernetes/pkg/apis/core/v1/defaults.go`)."""
    if kind == _NAMESPACE:
        metadata = obj.get("metadata") or {}
        labels = {_NAME_LABEL: metadata.get("name"), **(metadata.get("labels") or {})}
        return {**obj, "metadata": {**metadata, "labels": labels}}
    if kind == ("", "LimitRange"):
        spec = obj.get("spec") or {}
        return {**obj, "spec": {**spec, "limits": [_limit(each) for each in spec.get("limits") or ()]}}
    if kind == ("", "ResourceQuota") and "status" not in obj:
        hard = (obj.get("spec") or {}).get("hard") or {}
        return {**obj, "status": {"hard": hard, "used": dict.fromkeys(hard, "0")}}
    return obj


def _limit(item: JSON) -> JSON:
    """Return an item with defaults."""
    item = dict(item)
    limit_range_item(item)
    return item

"""Cluster reads of expressions, answered as by the API server or as by Kyverno's CLI."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from replay.json import JSON
from replay.kube.attributes import Missing
from replay.kube.discovery import APIResource, Discovery
from replay.kube.gvk import GroupVersionKind, GroupVersionResource
from replay.kube.lister import Lister
from replay.kyverno.cel.library.context import ResourceError
from replay.kyverno.rules.go_value import as_map

GlobalEntry = Callable[[str, str], JSON | Missing | None]
"""Function that returns a GlobalContextEntry's value by name and projection, or None if there is no such entry."""


class ListerReader:
    """`replay.kyverno.cel.library.context.Reader` over the objects of a cluster (`pkg/cel/libs/context.go`)."""

    def __init__(self, lister: Lister, discovery: Discovery, global_entry: GlobalEntry) -> None:
        """`discovery` knows the resources of the cluster."""
        self._lister = lister
        self._discovery = discovery
        self._global_entry = global_entry

    def get(self, api_version: str, resource: str, namespace: str, name: str) -> JSON | Missing | None:
        """See `Reader.get`."""
        if "/" in resource:
            return Missing("resource.Get", f"replay does not answer reads of the subresource {resource}")
        found = self._api_resource(api_version, resource)
        return None if found is None else self._lister.get(found.kind, namespace, name)

    def list(self, api_version: str, resource: str, namespace: str, labels: Mapping[str, str]) -> JSON | Missing:
        """See `Reader.list`."""
        found = self._api_resource(api_version, resource)
        if found is None:
            raise ResourceError("the server could not find the requested resource")
        items = self._lister.list(found.kind, namespace or None)
        if isinstance(items, Missing):
            return items
        kept = [item for item in items if labels.items() <= _labels(item).items()]
        return {"apiVersion": api_version, "kind": f"{found.kind.kind}List", "metadata": {}, "items": kept}

    def resource_of(self, api_version: str, kind: str) -> GroupVersionResource | Missing:
        """See `Reader.resource_of`."""
        wanted = GroupVersionKind(*_group_version(api_version), kind)
        resource = next((each.resource for each in self._discovery if each.kind == wanted), None)
        if resource is None:
            raise ResourceError(f'no matches for kind "{kind}" in version "{api_version}"')
        return resource

    def global_entry(self, name: str, projection: str) -> JSON | Missing:
        """See `Reader.global_entry`."""
        value = self._global_entry(name, projection)
        return value if value is not None else Missing("globalContext", f"GlobalContextEntry `{name}` is not known")

    def _api_resource(self, api_version: str, resource: str) -> APIResource | None:
        return self._discovery.resource(GroupVersionResource(*_group_version(api_version), resource))


class OfflineReader(ListerReader):
    """Reader as in Kyverno's CLI, which keeps objects by resource and namespace (`pkg/cel/libs/fake_context.go`)."""

    def get(self, api_version: str, resource: str, namespace: str, name: str) -> JSON | Missing | None:
        """See `Reader.get`. There are no subresources."""
        return None if "/" in resource else super().get(api_version, resource, namespace, name)

    def list(
        self,
        api_version: str,
        resource: str,
        namespace: str,
        labels: Mapping[str, str],  # noqa: ARG002 - the CLI does not look at them
    ) -> JSON | Missing:
        """See `Reader.list`. It returns the objects of exactly one namespace, and fails if the resource has no objects."""
        found = self._api_resource(api_version, resource)
        every = self._lister.list(found.kind, None) if found is not None else ()
        if isinstance(every, Missing):
            return every
        if not every:
            group = _group_version(api_version)[0]
            raise ResourceError(f"{resource}.{group} resource not found" if group else f"{resource} resource not found")
        return {"items": [item for item in every if str(_metadata(item).get("namespace") or "") == namespace]}


def _group_version(api_version: str) -> tuple[str, str]:
    group, _, version = api_version.rpartition("/")
    return group, version


def _metadata(obj: JSON) -> dict[str, Any]:
    return as_map(as_map(obj).get("metadata"))


def _labels(obj: JSON) -> dict[str, str]:
    return as_map(_metadata(obj).get("labels"))

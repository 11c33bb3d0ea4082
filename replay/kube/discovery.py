"""Known resources, with kind and scope (`apidiscovery.k8s.io/v2` aggregated discovery, and CRDs).

The package carries the built-in resources of Kubernetes 1.37 (`data/discovery.json`, made by
`tests.tools.distill_discovery`). Custom resources come from the CustomResourceDefinitions of a snapshot or log.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from replay.kube.gvk import GroupVersionKind, GroupVersionResource
from replay.kube.older_minor import gone_kinds, is_served


class APIResource(Struct, frozen=True):
    """A resource in one version. `subresources` maps a subresource to the kind that requests to it carry."""

    resource: GroupVersionResource
    kind: GroupVersionKind
    namespaced: bool
    subresources: Mapping[str, GroupVersionKind] = field(default_factory=dict)
    custom: bool = False


class Discovery:
    """Lookup between resources and kinds; immutable, `with_crds` makes a larger one."""

    def __init__(self, api_resources: Iterable[APIResource]) -> None:
        """Index the resources; of two with the same name the later one counts."""
        self._by_resource: dict[GroupVersionResource, APIResource] = {}
        self._by_kind: dict[GroupVersionKind, APIResource] = {}
        for api_resource in api_resources:
            self._by_resource[api_resource.resource] = api_resource
            self._by_kind[api_resource.kind] = api_resource
        self.resource: Callable[[GroupVersionResource], APIResource | None] = self._by_resource.get
        """Returns the resource of a group, version and plural name, None if unknown."""

    def __iter__(self) -> Iterator[APIResource]:
        """Iterate over all resources, in no particular order."""
        return iter(self._by_resource.values())

    def in_workspace(self, workspace: str) -> Discovery:
        """Return what a kcp workspace serves; the same everywhere in other servers."""
        del workspace
        return self

    def of_kind(self, kind: GroupVersionKind) -> APIResource | None:
        """Return the resource of a kind, None if unknown."""
        return self._by_kind.get(kind)

    def kind(self, resource: GroupVersionResource, subresource: str = "") -> GroupVersionKind | None:
        """Return the kind of a resource or subresource, None if unknown."""
        api_resource = self._by_resource.get(resource)
        if api_resource is None:
            return None
        return api_resource.subresources.get(subresource) if subresource else api_resource.kind

    def versions(self, group: str, resource: str) -> tuple[str, ...]:
        """Return the served versions of a resource."""
        return tuple(gvr.version for gvr in self._by_resource if gvr.group == group and gvr.resource == resource)

    def with_crds(self, crds: Iterable[Mapping[str, Any]]) -> Discovery:
        """Return this discovery with the resources of CustomResourceDefinitions.

        They are plain JSON of `apiextensions.k8s.io/v1`.
        """
        custom = custom_resources(crds)
        return Discovery([*self._by_resource.values(), *custom]) if custom else self


def custom_resources(crds: Iterable[Mapping[str, Any]]) -> list[APIResource]:
    """Return the resources of CustomResourceDefinitions, in their order."""
    return [api_resource for crd in crds for api_resource in _resources_of_crd(crd)]


@cache
def builtin_discovery(minor: int | None = None) -> Discovery:
    """Return the built-in resources of a minor version, or of Kubernetes 1.37 without one."""
    text = resources.files("replay.kube").joinpath("data/discovery.json").read_text("utf-8")
    newest = [_decode(row) for row in json.loads(text)]
    if minor is None:
        return Discovery(newest)
    gone = [
        replace(each, resource=each.resource._replace(version=kind.version), kind=kind)
        for kind in gone_kinds(minor)
        for each in newest
        if (each.kind.group, each.kind.kind) == (kind.group, kind.kind)
    ]
    return Discovery([*(each for each in newest if is_served(each.kind, minor)), *gone])


def _decode(row: list[Any]) -> APIResource:
    """Parse one row of the package data.

    It is `[group, version, resource, kind, namespaced, {subresource: [group, version, kind]}]`.
    """
    group, version, resource, kind, namespaced, subresources = row
    return APIResource(
        GroupVersionResource(group, version, resource),
        GroupVersionKind(group, version, kind),
        namespaced,
        {name: GroupVersionKind(*kind_parts) for name, kind_parts in subresources.items()},
    )


def _resources_of_crd(crd: Mapping[str, Any]) -> Iterable[APIResource]:
    """Yield the served versions of a CRD.

    Source: `apiextensions-apiserver/pkg/apiserver/customresource_discovery_controller.go`.
    """
    spec = crd.get("spec") or {}
    names = spec.get("names") or {}
    group, plural, kind = spec.get("group"), names.get("plural"), names.get("kind")
    if not (group and plural and kind):
        return
    for version in spec.get("versions") or ():
        if not version.get("served"):
            continue
        gvk = GroupVersionKind(group, version["name"], kind)
        declared = version.get("subresources") or {}
        subresources = {}
        if "status" in declared:
            subresources["status"] = gvk
        if "scale" in declared:
            subresources["scale"] = GroupVersionKind("autoscaling", "v1", "Scale")
        resource = GroupVersionResource(group, version["name"], plural)
        yield APIResource(resource, gvk, spec.get("scope") == "Namespaced", subresources, custom=True)

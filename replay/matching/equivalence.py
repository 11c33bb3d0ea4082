"""Resources whose objects are also served under another group or version (`runtime.EquivalentResourceRegistry`)."""

from __future__ import annotations

from collections.abc import Iterable

from replay.kube.discovery import Discovery
from replay.kube.gvk import GroupVersionKind, GroupVersionResource


class EquivalentResourceMapper:
    """Equivalent resources and their kinds.

    The API server distinguishes resources by their storage (`genericapiserver.Config.Complete`). For built-in ones this
    is the resource name alone, so `events` of the core group and of `events.k8s.io` are one. For custom ones it is
    group and name.
    """

    def __init__(self, discovery: Discovery) -> None:
        """Index a discovery, in its order. Of several equivalent resources the first that matches counts."""
        self._discovery = discovery
        self._by_identity: dict[tuple[str, str], list[GroupVersionResource]] = {}
        self._identities: dict[tuple[str, str], tuple[str, str]] = {}
        for api_resource in discovery:
            group, name = api_resource.resource.group_resource
            identity = (group, name) if api_resource.custom else ("", name)
            self._identities[group, name] = identity
            self._by_identity.setdefault(identity, []).append(api_resource.resource)

    def equivalents(self, resource: GroupVersionResource, subresource: str) -> tuple[GroupVersionResource, ...]:
        """Return the resources equivalent to one, except itself, that have the subresource (empty for none)."""
        identity = self._identities.get((resource.group, resource.resource))
        if identity is None:
            return ()
        return tuple(
            other
            for other in self._by_identity[identity]
            if other != resource and (not subresource or self.kind(other, subresource) is not None)
        )

    def equivalent_groups(self, group: str, resource: str) -> frozenset[str]:
        """Return the groups that serve a resource of a group, in any version, with its own group."""
        identity = self._identities.get((group, resource))
        return frozenset({group, *(other.group for other in self._by_identity.get(identity or ("", ""), ()))})

    def crosses_groups(self, groups: Iterable[str]) -> bool:
        """Return whether any resource of the groups is also served under another group."""
        group_names = set(groups)
        return any(
            group in group_names and len(self.equivalent_groups(group, name)) > 1 for group, name in self._identities
        )

    def kind(self, resource: GroupVersionResource, subresource: str) -> GroupVersionKind | None:
        """Return the kind of a resource or of its subresource, or None if unknown."""
        return self._discovery.kind(resource, subresource)

"""Resources that are the same objects under another group or version (`runtime.EquivalentResourceRegistry`)."""

from __future__ import annotations

from collections.abc import Iterable

from replay.kube.discovery import Discovery
from replay.kube.gvk import GroupVersionKind, GroupVersionResource


class EquivalentResourceMapper:
    """Which resources are equivalent, and of which kind each is.

    The API server tells resources apart by where it stores them (`genericapiserver.Config.Complete`): for built-in
    ones that is the name of the resource alone, so that `events` of the core group and of `events.k8s.io` are one, for
    custom ones group and name.
    """

    def __init__(self, discovery: Discovery) -> None:
        """Index a discovery, in its order: of several equivalent resources the first that matches counts."""
        self._discovery = discovery
        self._by_identity: dict[tuple[str, str], list[GroupVersionResource]] = {}
        self._identities: dict[tuple[str, str], tuple[str, str]] = {}
        for api_resource in discovery:
            group, name = api_resource.resource.group_resource
            identity = (group, name) if api_resource.custom else ("", name)
            self._identities[group, name] = identity
            self._by_identity.setdefault(identity, []).append(api_resource.resource)

    def equivalents(self, resource: GroupVersionResource, subresource: str) -> tuple[GroupVersionResource, ...]:
        """The resources equivalent to one, itself excluded, that have the subresource (empty for none)."""
        identity = self._identities.get((resource.group, resource.resource))
        if identity is None:
            return ()
        return tuple(
            other
            for other in self._by_identity[identity]
            if other != resource and (not subresource or self.kind(other, subresource) is not None)
        )

    def equivalent_groups(self, group: str, resource: str) -> frozenset[str]:
        """The groups under which a resource of a group, in any version, is served too, its own included."""
        identity = self._identities.get((group, resource))
        return frozenset({group, *(other.group for other in self._by_identity.get(identity or ("", ""), ()))})

    def crosses_groups(self, groups: Iterable[str]) -> bool:
        """Whether any resource of the groups is served under another group too."""
        group_names = set(groups)
        return any(
            group in group_names and len(self.equivalent_groups(group, name)) > 1 for group, name in self._identities
        )

    def kind(self, resource: GroupVersionResource, subresource: str) -> GroupVersionKind | None:
        """The kind of a resource or of its subresource, None if it is not known."""
        return self._discovery.kind(resource, subresource)

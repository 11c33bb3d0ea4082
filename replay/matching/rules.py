"""The match of a rule with a request, excluded resources, and resources that are also served under another group or version.

Sources: `k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules`, `runtime.EquivalentResourceRegistry`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from replay.kube.admissionregistration import GROUP, KINDS, VIRTUAL_RESOURCES, ManifestSet, Rule
from replay.kube.attributes import Operation
from replay.kube.discovery import Discovery
from replay.kube.gvk import GroupResource, GroupVersionKind, GroupVersionResource


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


NAMESPACES = GroupVersionResource("", "v1", "namespaces")
ANY = "*"


class RuleKey(NamedTuple):
    """The parts of a request that rules read, except the object's name."""

    resource: GroupVersionResource
    subresource: str
    operation: Operation
    namespaced: bool
    """A flag that the request has a namespace. A request for a Namespace object has its own name there."""


def matches_rule(rule: Rule, key: RuleKey) -> bool:
    """Return whether scope, operation, group, version and resource match. `resource_names` are not checked."""
    return (
        _matches_scope(rule.scope, key)
        and _exact_or_wildcard(rule.operations, key.operation)
        and _exact_or_wildcard(rule.api_groups, key.resource.group)
        and _exact_or_wildcard(rule.api_versions, key.resource.version)
        and any(matches_resource(pattern, key.resource.resource, key.subresource) for pattern in rule.resources)
    )


def matches_resource(pattern: str, resource: str, subresource: str) -> bool:
    """Return whether a pattern matches.

    Patterns are `resource`, `resource/subresource`, `*`, `*/*`, `resource/*` or `*/subresource`.
    """
    # Without a slash the subresource is empty, so `pods` does not match `pods/status`.
    resource_pattern, _, wanted_subresource = pattern.partition("/")
    return resource_pattern in (ANY, resource) and wanted_subresource in (ANY, subresource)


def _matches_scope(scope: str, key: RuleKey) -> bool:
    """Return whether a scope matches. A Namespace object is cluster-scoped, although its requests have a namespace."""
    if scope == ANY:
        return True
    is_cluster = key.resource == NAMESPACES or not key.namespaced
    return is_cluster if scope == "Cluster" else scope == "Namespaced" and not is_cluster


def _exact_or_wildcard(items: Sequence[str], requested: str) -> bool:
    """Return whether an item is the requested one or the wildcard."""
    return requested in items or ANY in items


_EXCLUDED_FROM_API_POLICIES = frozenset(
    GroupResource(GROUP, name)
    for name in (
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
    )
)


def excluded_from_all(sets: Iterable[ManifestSet]) -> frozenset[GroupResource]:
    """Return the resources for which no set evaluates a policy or a webhook."""
    return VIRTUAL_RESOURCES if all(each.skips_reviews for each in sets) else frozenset()


def is_excluded_from_policies(resource: GroupVersionResource, workspace: str = "") -> bool:
    """Return whether no policy evaluates a resource. In kcp policies do, because its plugins have no such list."""
    return not workspace and resource.group_resource in VIRTUAL_RESOURCES


def is_excluded_from_webhooks(resource: GroupVersionResource, *, skips_reviews: bool) -> bool:
    """Return whether no webhook, static or API-based, evaluates a resource.

    Source: `webhook/generic.isExcludedFromAllHooks`.
    """
    return skips_reviews and resource.group_resource in VIRTUAL_RESOURCES


def is_excluded_from_api_policies(resource: GroupVersionResource) -> bool:
    """Return whether only static policies evaluate a resource (`policy/generic.Plugin`).

    Webhook configurations are not such a resource.
    """
    return resource.group_resource in _EXCLUDED_FROM_API_POLICIES


def is_excluded_from_api_webhooks(kind: GroupVersionKind) -> bool:
    """Return whether only static webhooks evaluate a kind.

    Source: `predicates/rules.IsExemptAdmissionConfigurationResource`.
    """
    return kind.group == GROUP and kind.kind in KINDS

"""The match of a rule with a request, and excluded resources.

Source: `k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from replay.kube.admissionregistration import GROUP, KINDS, VIRTUAL_RESOURCES, ManifestSet, Rule
from replay.kube.attributes import Operation
from replay.kube.gvk import GroupResource, GroupVersionKind, GroupVersionResource

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

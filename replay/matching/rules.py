"""Whether one rule matches a request (`k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from replay.kube.admissionregistration import Rule
from replay.kube.attributes import Operation
from replay.kube.gvk import GroupVersionResource

NAMESPACES = GroupVersionResource("", "v1", "namespaces")
ANY = "*"


class RuleKey(NamedTuple):
    """Everything that a rule reads of a request, except the object's name."""

    resource: GroupVersionResource
    subresource: str
    operation: Operation
    namespaced: bool
    """Whether the request has a namespace; a request for a Namespace object has its own name there."""


def matches_rule(rule: Rule, key: RuleKey) -> bool:
    """Whether scope, operation, group, version and resource match; `resource_names` are not looked at."""
    return (
        _matches_scope(rule.scope, key)
        and _exact_or_wildcard(rule.operations, key.operation)
        and _exact_or_wildcard(rule.api_groups, key.resource.group)
        and _exact_or_wildcard(rule.api_versions, key.resource.version)
        and any(matches_resource(pattern, key.resource.resource, key.subresource) for pattern in rule.resources)
    )


def matches_resource(pattern: str, resource: str, subresource: str) -> bool:
    """Whether `resource`, `resource/subresource`, `*`, `*/*`, `resource/*` or `*/subresource` matches."""
    resource_pattern, _, wanted_subresource = pattern.partition("/")
    return resource_pattern in (ANY, resource) and wanted_subresource in (ANY, subresource)


def _matches_scope(scope: str, key: RuleKey) -> bool:
    """A Namespace object is of cluster scope, although its requests carry a namespace."""
    if scope == ANY:
        return True
    is_cluster = key.resource == NAMESPACES or not key.namespaced
    return is_cluster if scope == "Cluster" else scope == "Namespaced" and not is_cluster


def _exact_or_wildcard(items: Sequence[str], requested: str) -> bool:
    """Whether an item is the requested one or the wildcard."""
    return requested in items or ANY in items

"""Resources that admission hooks never evaluate (`k8s.io/kubernetes/pkg/kubeapiserver/admission/exclusion`)."""

from __future__ import annotations

from replay.cellib.version import KubernetesVersion
from replay.kube.admissionregistration import GROUP, KINDS, VIRTUAL_RESOURCES, WEBHOOKS_EXCLUDE_SINCE
from replay.kube.gvk import GroupResource, GroupVersionKind, GroupVersionResource

_EXCLUDED_FROM_API_POLICIES = frozenset(
    GroupResource(GROUP, name)
    for name in (
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
    )
)


def excluded_from_all(server: KubernetesVersion) -> frozenset[GroupResource]:
    """The resources about which a server asks neither a policy nor a webhook."""
    return VIRTUAL_RESOURCES if server.minor >= WEBHOOKS_EXCLUDE_SINCE else frozenset()


def is_excluded_from_policies(resource: GroupVersionResource, workspace: str = "") -> bool:
    """Return whether no policy evaluates a resource. In kcp policies do, because its plugins have no such list."""
    return not workspace and resource.group_resource in VIRTUAL_RESOURCES


def is_excluded_from_webhooks(resource: GroupVersionResource, server: KubernetesVersion) -> bool:
    """Return whether no webhook, static or API-based, evaluates a resource (`webhook/generic.isExcludedFromAllHooks`)."""
    return resource.group_resource in excluded_from_all(server)


def is_excluded_from_api_policies(resource: GroupVersionResource) -> bool:
    """Return whether only static policies evaluate a resource (`policy/generic.Plugin`).

    Webhook configurations are not such a resource.
    """
    return resource.group_resource in _EXCLUDED_FROM_API_POLICIES


def is_excluded_from_api_webhooks(kind: GroupVersionKind) -> bool:
    """Return whether only static webhooks evaluate a kind (`predicates/rules.IsExemptAdmissionConfigurationResource`)."""
    return kind.group == GROUP and kind.kind in KINDS

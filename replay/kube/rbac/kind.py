"""The kinds of RBAC and their resources (`k8s.io/api/rbac/v1`)."""

from __future__ import annotations

from replay.kube.gvk import GroupResource, GroupVersionKind

RBAC_GROUP = "rbac.authorization.k8s.io"
ROLE = GroupVersionKind(RBAC_GROUP, "v1", "Role")
ROLE_BINDING = GroupVersionKind(RBAC_GROUP, "v1", "RoleBinding")
CLUSTER_ROLE = GroupVersionKind(RBAC_GROUP, "v1", "ClusterRole")
CLUSTER_ROLE_BINDING = GroupVersionKind(RBAC_GROUP, "v1", "ClusterRoleBinding")
RBAC_KINDS = (ROLE, ROLE_BINDING, CLUSTER_ROLE, CLUSTER_ROLE_BINDING)
RBAC_RESOURCES = {GroupResource(RBAC_GROUP, f"{kind.kind.lower()}s"): kind for kind in RBAC_KINDS}
"""The kinds by resource, in the order of `RBAC_KINDS`."""

"""Which fields of built-in kinds an update may not change (`k8s.io/kubernetes/pkg/apis/*/validation`)."""

from __future__ import annotations

from collections.abc import Mapping

POD_TEMPLATE = ("spec", "template")
"""Where a workload keeps the pods that it makes."""
IMMUTABLE: Mapping[tuple[str, str], tuple[tuple[str, ...], ...]] = {
    ("", "secrets"): (("type",),),
    ("", "persistentvolumeclaims"): (("spec", "storageClassName"), ("spec", "accessModes"), ("spec", "volumeMode")),
    ("apps", "deployments"): (("spec", "selector"),),
    ("apps", "replicasets"): (("spec", "selector"),),
    ("apps", "daemonsets"): (("spec", "selector"),),
    ("apps", "statefulsets"): (
        ("spec", "selector"),
        ("spec", "serviceName"),
        ("spec", "podManagementPolicy"),
        ("spec", "volumeClaimTemplates"),
    ),
    ("batch", "jobs"): (("spec", "selector"), ("spec", "completionMode"), POD_TEMPLATE),
    ("rbac.authorization.k8s.io", "rolebindings"): (("roleRef",),),
    ("rbac.authorization.k8s.io", "clusterrolebindings"): (("roleRef",),),
    ("storage.k8s.io", "storageclasses"): (("provisioner",), ("parameters",), ("reclaimPolicy",)),
    ("scheduling.k8s.io", "priorityclasses"): (("value",),),
}
"""By group and resource the fields that no update may change (`Validate…Update` of each kind)."""

FROZEN: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("", "configmaps"): ("data", "binaryData", "immutable"),
    ("", "secrets"): ("data", "immutable"),
}
"""What `immutable: true` holds fast (`ValidateConfigMapUpdate`, `ValidateSecretUpdate`)."""

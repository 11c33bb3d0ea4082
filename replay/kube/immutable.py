"""Writes that built-in kinds refuse (`k8s.io/kubernetes/pkg/apis/*/validation`): immutable and required fields."""

from __future__ import annotations

from collections.abc import Mapping

from replay.kube import admissionregistration

PODS = ("", "pods")
SERVICES = ("", "services")
JOBS = ("batch", "jobs")
CLAIMS = ("", "persistentvolumeclaims")
"""PersistentVolumeClaims. Their requests may grow once they are bound (`ValidatePersistentVolumeClaimUpdate`)."""
POD_TEMPLATE = ("spec", "template")
"""Path of a workload's pod template."""
IMMUTABLE: Mapping[tuple[str, str], tuple[tuple[str, ...], ...]] = {
    ("", "secrets"): (("type",),),
    CLAIMS: (("spec", "storageClassName"), ("spec", "accessModes"), ("spec", "volumeMode")),
    ("apps", "deployments"): (("spec", "selector"),),
    ("apps", "replicasets"): (("spec", "selector"),),
    ("apps", "daemonsets"): (("spec", "selector"),),
    ("apps", "statefulsets"): (
        ("spec", "selector"),
        ("spec", "serviceName"),
        ("spec", "podManagementPolicy"),
        ("spec", "volumeClaimTemplates"),
    ),
    JOBS: (
        *(("spec", name) for name in ("selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex")),
        *(("spec", name) for name in ("managedBy", "successPolicy")),
        POD_TEMPLATE,
    ),
    ("rbac.authorization.k8s.io", "rolebindings"): (("roleRef",),),
    ("rbac.authorization.k8s.io", "clusterrolebindings"): (("roleRef",),),
    ("storage.k8s.io", "storageclasses"): (("provisioner",), ("parameters",), ("reclaimPolicy",)),
    ("scheduling.k8s.io", "priorityclasses"): (("value",),),
}
"""The fields that no update may change, by group and resource (`Validate…Update` of each kind)."""

FROZEN: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("", "configmaps"): ("data", "binaryData", "immutable"),
    ("", "secrets"): ("data", "immutable"),
}
"""Fields that `immutable: true` protects (`ValidateConfigMapUpdate`, `ValidateSecretUpdate`)."""

MUTABLE_OF_PODS = ("activeDeadlineSeconds", "schedulingGates", "terminationGracePeriodSeconds", "tolerations")
"""Fields of a pod's spec that an update may change, besides images (`ValidatePodUpdate`)."""

REQUIRED: Mapping[tuple[str, str], tuple[tuple[str, ...], ...]] = {
    PODS: (("spec", "containers"),),
    **{
        ("apps", name): (("spec", "selector"), (*POD_TEMPLATE, "spec", "containers"))
        for name in ("daemonsets", "deployments", "replicasets", "statefulsets")
    },
    JOBS: ((*POD_TEMPLATE, "spec", "containers"),),
    ("batch", "cronjobs"): (("spec", "schedule"), ("spec", "jobTemplate", *POD_TEMPLATE, "spec", "containers")),
    ("rbac.authorization.k8s.io", "rolebindings"): (("roleRef", "name"),),
    ("rbac.authorization.k8s.io", "clusterrolebindings"): (("roleRef", "name"),),
    ("storage.k8s.io", "storageclasses"): (("provisioner",),),
}
"""The fields that every object must have, by group and resource (`Validate…` of each kind)."""

REQUIRED_OF_UPDATES: Mapping[tuple[str, str], tuple[tuple[str, ...], ...]] = {JOBS: (("spec", "selector"),)}
"""Fields that the server generates only on creation (`pkg/registry/batch/job/strategy.go`)."""

CONDITIONAL = frozenset(
    [
        ("apiextensions.k8s.io", "customresourcedefinitions"),
        ("apiregistration.k8s.io", "apiservices"),
        ("coordination.k8s.io", "leases"),
        ("coordination.k8s.io", "leasecandidates"),
        ("node.k8s.io", "runtimeclasses"),
        ("policy", "poddisruptionbudgets"),
        *((admissionregistration.GROUP, name) for name in admissionregistration.RESOURCES),
        *(("certificates.k8s.io", name) for name in ("clustertrustbundles", "podcertificaterequests")),
        *(("storage.k8s.io", name) for name in ("csidrivers", "csinodes", "csistoragecapacities", "volumeattachments")),
    ]
)
"""The resources whose updates must name the version that they replace.

Their strategy has no `AllowUnconditionalUpdate`. The same holds for all custom resources.
"""

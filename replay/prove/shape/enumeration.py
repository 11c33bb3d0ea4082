"""The values that fields of built-in types take (`pkg/apis/*/types.go`), and the numbers that may not be negative."""

from __future__ import annotations

from collections.abc import Mapping

_PULL = frozenset({"Always", "IfNotPresent", "Never"})
_PROTOCOLS = frozenset({"TCP", "UDP", "SCTP"})
_PROFILES = frozenset({"Localhost", "RuntimeDefault", "Unconfined"})
_AFFINITY = frozenset({"ClientIP", "None"})

ENUMERATIONS: Mapping[tuple[str, str], frozenset[str]] = {
    ("Container", "imagePullPolicy"): _PULL,
    ("EphemeralContainer", "imagePullPolicy"): _PULL,
    ("Container", "terminationMessagePolicy"): frozenset({"File", "FallbackToLogsOnError"}),
    ("ContainerPort", "protocol"): _PROTOCOLS,
    ("ServicePort", "protocol"): _PROTOCOLS,
    ("PodSpec", "restartPolicy"): frozenset({"Always", "OnFailure", "Never"}),
    ("PodSpec", "dnsPolicy"): frozenset({"ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"}),
    ("PodSpec", "preemptionPolicy"): frozenset({"Never", "PreemptLowerPriority"}),
    ("ServiceSpec", "type"): frozenset({"ClusterIP", "NodePort", "LoadBalancer", "ExternalName"}),
    ("ServiceSpec", "sessionAffinity"): _AFFINITY,
    ("ServiceSpec", "externalTrafficPolicy"): frozenset({"Cluster", "Local"}),
    ("ServiceSpec", "internalTrafficPolicy"): frozenset({"Cluster", "Local"}),
    ("SeccompProfile", "type"): _PROFILES,
    ("AppArmorProfile", "type"): _PROFILES,
    ("SecurityContext", "procMount"): frozenset({"Default", "Unmasked"}),
    ("Toleration", "operator"): frozenset({"Exists", "Equal", "Lt", "Gt"}),
    ("Toleration", "effect"): frozenset({"NoSchedule", "PreferNoSchedule", "NoExecute"}),
    ("Taint", "effect"): frozenset({"NoSchedule", "PreferNoSchedule", "NoExecute"}),
    ("HTTPGetAction", "scheme"): frozenset({"HTTP", "HTTPS"}),
    ("HostPathVolumeSource", "type"): frozenset(
        {"", "DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice"}
    ),
    ("EmptyDirVolumeSource", "medium"): frozenset({"", "Memory", "HugePages"}),
    ("DeploymentStrategy", "type"): frozenset({"Recreate", "RollingUpdate"}),
    ("StatefulSetSpec", "podManagementPolicy"): frozenset({"OrderedReady", "Parallel"}),
    ("CronJobSpec", "concurrencyPolicy"): frozenset({"Allow", "Forbid", "Replace"}),
    ("JobSpec", "completionMode"): frozenset({"NonIndexed", "Indexed"}),
    ("PersistentVolumeSpec", "persistentVolumeReclaimPolicy"): frozenset({"Retain", "Recycle", "Delete"}),
    ("PersistentVolumeSpec", "volumeMode"): frozenset({"Filesystem", "Block"}),
    ("PersistentVolumeClaimSpec", "volumeMode"): frozenset({"Filesystem", "Block"}),
    ("StorageClass", "reclaimPolicy"): frozenset({"Retain", "Recycle", "Delete"}),
    ("StorageClass", "volumeBindingMode"): frozenset({"Immediate", "WaitForFirstConsumer"}),
    ("HTTPIngressPath", "pathType"): frozenset({"Exact", "Prefix", "ImplementationSpecific"}),
    ("NamespaceStatus", "phase"): frozenset({"Active", "Terminating"}),
    ("Mount", "mountPropagation"): frozenset({"None", "HostToContainer", "Bidirectional"}),
}
"""By the last part of a type's name and the field."""

NOT_NEGATIVE = frozenset(
    {
        "replicas",
        "minReadySeconds",
        "revisionHistoryLimit",
        "terminationGracePeriodSeconds",
        "runAsUser",
        "runAsGroup",
        "fsGroup",
        "parallelism",
        "completions",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "initialDelaySeconds",
        "startingDeadlineSeconds",
        "successfulJobsHistoryLimit",
        "failedJobsHistoryLimit",
        "deletionGracePeriodSeconds",
        "generation",
    }
)
POSITIVE = frozenset(
    {"timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold", "maxReplicas", "minReplicas", "maxSkew"}
)

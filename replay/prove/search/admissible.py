"""Validation that a server does before policies see an object (`pkg/apis/*/validation`), by type.

The values of enumerations come from `pkg/apis/*/types.go`.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from replay.json import JSON
from replay.kube import names
from replay.kube.go_object import counterparts
from replay.kube.gvk import GroupVersionKind
from replay.kube.quantity import QuantityError, parse_quantity
from replay.kube.rbac import RBAC_KINDS
from replay.kube.schema import OBJECT_META, Schema

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
"""Allowed values by the last part of a type's name and the field."""

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


_CORE = "io.k8s.api.core.v1."
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_PORT_NAME = re.compile(r"(?=.*[a-z])[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?")
_ENV_NAME = re.compile(r"[ -<>-~]+")
_RBAC_NAME = re.compile(r"[^/%]+")
_LABEL_KINDS = frozenset({"Namespace", "Service"})
_PATHLIKE = frozenset((kind.group, kind.kind) for kind in RBAC_KINDS)
_MOST_TEXT = 253
_MOST_PORT = 65535
_UNSAVED = frozenset({"PodExecOptions", "PodAttachOptions", "PodPortForwardOptions", "Eviction", "Binding"})


def is_admissible(schema: Schema | None, kind: GroupVersionKind, obj: JSON, old: JSON = None) -> bool:
    """Return whether no known rule makes the server refuse an object.

    `old` is an admissible object. Parts that are identical objects in both are not checked again.
    """
    metadata = obj.get("metadata")
    if kind.kind not in _UNSAVED and not _has_valid_name(kind, metadata):
        return False
    if schema is None:
        return isinstance(metadata, dict) and not any(_metadata_problems(metadata))
    rule = _KINDS.get(kind.kind)
    return not any(_problems(schema, obj, old)) and (rule is None or rule(obj))


def _has_valid_name(kind: GroupVersionKind, metadata: JSON) -> bool:
    if not isinstance(metadata, dict):
        return kind.kind.endswith("Options")
    name = metadata.get("name")
    if not isinstance(name, str) or not name or len(name) > _MOST_TEXT or name in {".", ".."}:
        return False
    # Names of RBAC objects are path segments instead of DNS names (`ValidateRBACName`).
    if (kind.group, kind.kind) in _PATHLIKE:
        return _RBAC_NAME.fullmatch(name) is not None
    return (_LABEL if kind.kind in _LABEL_KINDS else _SUBDOMAIN).fullmatch(name) is not None


def _problems(schema: Schema, value: JSON, old: JSON = None) -> Iterator[str]:
    """Yield the violations of a value against its schema and type."""
    if isinstance(value, dict):
        if value is not old:
            yield from _struct_problems(schema, value, old if isinstance(old, dict) else {})
    elif isinstance(value, list):
        if schema.items is not None and value is not old:
            for item, old_item in zip(value, counterparts(value, old), strict=True):
                yield from _problems(schema.items, item, old_item)
            if schema.map_keys and schema.list_type == "map":
                keys = [
                    tuple(str(item.get(key)) for key in schema.map_keys) for item in value if isinstance(item, dict)
                ]
                if len(set(keys)) < len(keys):
                    yield "keys"
    elif schema.name == _QUANTITY and not _is_quantity(value):
        yield "quantity"


def _struct_problems(schema: Schema, value: dict[str, JSON], old: dict[str, JSON]) -> Iterator[str]:
    if schema.name == OBJECT_META:
        yield from _metadata_problems(value)
        return
    for name in schema.required:
        part = value.get(name)
        if part is None or part == "":
            yield name
    for name, part in value.items():
        field = schema.field(name)
        if field is not None:
            yield from _problems(field, part, old.get(name))
        yield from _scalar_problems(schema.name, name, part)
    rule = _TYPES.get(schema.name)
    if rule is not None and not rule(value):
        yield schema.name


def _scalar_problems(type_name: str, name: str, value: JSON) -> Iterator[str]:
    allowed = ENUMERATIONS.get((type_name.rpartition(".")[2], name))
    if allowed is not None and isinstance(value, str) and value not in allowed:
        yield name
    if type(value) is int:
        if name in NOT_NEGATIVE and value < 0:
            yield name
        if name in POSITIVE and value <= 0:
            yield name
        if name.endswith(("Port", "port")) and not 0 <= value <= _MOST_PORT:
            yield name


def _metadata_problems(metadata: Mapping[str, Any]) -> Iterator[str]:
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    if not isinstance(labels, dict) or not isinstance(annotations, dict):
        yield "metadata"
        return
    for key, text in labels.items():
        if not isinstance(text, str) or names.qualified_name(key) or names.label_value(text):
            yield key
    for key, text in annotations.items():
        # Unlike keys of labels, those of annotations may have capitals in their prefix (`ValidateAnnotations`).
        if not isinstance(text, str) or names.qualified_name(key.lower()):
            yield key
    for finalizer in metadata.get("finalizers") or ():
        if not isinstance(finalizer, str) or names.qualified_name(finalizer):
            yield "finalizers"


def _is_quantity(value: JSON) -> bool:
    try:
        return parse_quantity(str(value)).compare(parse_quantity("0")) >= 0
    except QuantityError:
        return False


def _container(value: Mapping[str, Any]) -> bool:
    image = value.get("image", "")
    return (
        _LABEL.fullmatch(str(value.get("name", ""))) is not None
        and isinstance(image, str)
        and image != ""
        # `validateContainerCommon` refuses an image with space around it.
        and image == image.strip()
        and _has_consistent_privileges(value.get("securityContext") or {})
    )


def _has_consistent_privileges(context: Mapping[str, Any]) -> bool:
    added = (context.get("capabilities") or {}).get("add") or ()
    escalates = context.get("privileged") is True or "CAP_SYS_ADMIN" in added
    return not (context.get("allowPrivilegeEscalation") is False and escalates)


def _pod_spec(value: Mapping[str, Any]) -> bool:
    containers = value.get("containers") or []
    every = [*containers, *(value.get("initContainers") or ()), *(value.get("ephemeralContainers") or ())]
    container_names = [each.get("name") for each in every]
    volumes = {each.get("name") for each in value.get("volumes") or ()}
    mounted = {mount.get("name") for each in every for mount in each.get("volumeMounts") or ()}
    return bool(containers) and len(set(container_names)) == len(container_names) and mounted <= volumes


def _resources(value: Mapping[str, Any]) -> bool:
    """Return whether requests are at most the limits, and resource names are valid."""
    limits = value.get("limits") or {}
    for name, amount in (value.get("requests") or {}).items():
        if name in limits and parse_quantity(str(amount)).compare(parse_quantity(str(limits[name]))) > 0:
            return False
    every = (*limits, *(value.get("requests") or {}))
    return all("/" in name or name in _RESOURCES or name.startswith("hugepages-") for name in every)


_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage", "storage"})


def _volume(value: Mapping[str, Any]) -> bool:
    # A name and exactly one source.
    return len(value) == 2 and _LABEL.fullmatch(str(value.get("name", ""))) is not None


def _env(value: Mapping[str, Any]) -> bool:
    return _ENV_NAME.fullmatch(str(value.get("name", ""))) is not None and not (
        "value" in value and "valueFrom" in value
    )


def _container_port(value: Mapping[str, Any]) -> bool:
    name = value.get("name")
    return 1 <= value.get("containerPort", 0) <= _MOST_PORT and (name is None or _PORT_NAME.fullmatch(name) is not None)


def _workload(obj: JSON) -> bool:
    spec = obj.get("spec") or {}
    selected = (spec.get("selector") or {}).get("matchLabels") or {}
    template = spec.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels") or {}
    restart = (template.get("spec") or {}).get("restartPolicy", "Always")
    # The pods of these controllers must always restart (`ValidatePodTemplateSpecForReplicaSet`).
    return bool(selected) and selected.items() <= labels.items() and restart == "Always" and _is_template(template)


def _is_template(template: Mapping[str, Any]) -> bool:
    # `ValidatePodTemplateSpec` forbids ephemeral containers, which only a running pod can get.
    return not (template.get("spec") or {}).get("ephemeralContainers")


def _job(obj: JSON) -> bool:
    template = (obj.get("spec") or {}).get("template") or {}
    return (template.get("spec") or {}).get("restartPolicy") in {"Never", "OnFailure"} and _is_template(template)


def _cron_job(obj: JSON) -> bool:
    spec = obj.get("spec") or {}
    return _job(spec.get("jobTemplate") or {}) and len(str(spec.get("schedule", "")).split()) == 5


def _service(obj: JSON) -> bool:
    spec = obj.get("spec") or {}
    kind = spec.get("type")
    if kind == "ExternalName":
        return _SUBDOMAIN.fullmatch(str(spec.get("externalName") or "")) is not None
    ports = spec.get("ports") or []
    named = len({each.get("name") for each in ports}) == len(ports) and (
        len(ports) < 2 or all(p.get("name") for p in ports)
    )
    return (
        bool(ports) and named and all(1 <= each.get("port", 0) <= _MOST_PORT for each in ports) and _has_addresses(spec)
    )


def _has_addresses(spec: Mapping[str, Any]) -> bool:
    return all(_is_ip(each) for each in spec.get("externalIPs") or ()) and (
        not spec.get("loadBalancerSourceRanges") or spec.get("type") == "LoadBalancer"
    )


def _is_ip(text: str) -> bool:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    # Traffic to these does not leave the node or the link (`ValidateNonSpecialIP`).
    return not (address.is_loopback or address.is_unspecified or address.is_link_local or address.is_multicast)


def _ingress(obj: JSON) -> bool:
    spec = obj.get("spec") or {}
    hosts = [each.get("host") for each in spec.get("rules") or ()]
    tls = [host for each in spec.get("tls") or () for host in each.get("hosts") or ()]
    return all(host is None or _SUBDOMAIN.fullmatch(host.removeprefix("*.")) for host in (*hosts, *tls))


def _budget(obj: JSON) -> bool:
    spec = obj.get("spec") or {}
    if "minAvailable" in spec and "maxUnavailable" in spec:
        return False
    values = (spec.get("minAvailable"), spec.get("maxUnavailable"))
    return all(_is_count_or_percent(each) for each in values if each is not None)


def _is_count_or_percent(value: JSON) -> bool:
    return value >= 0 if type(value) is int else re.fullmatch(r"[0-9]{1,2}%|100%", str(value)) is not None


def _binding(obj: JSON) -> bool:
    reference = obj.get("roleRef") or {}
    kinds = {"ClusterRole"} if obj.get("kind") == "ClusterRoleBinding" else {"ClusterRole", "Role"}
    if reference.get("kind") not in kinds or not _RBAC_NAME.fullmatch(str(reference.get("name") or "")):
        return False
    return all(_is_subject(each) for each in obj.get("subjects") or ())


def _is_subject(subject: Mapping[str, Any]) -> bool:
    if subject.get("kind") == "ServiceAccount":
        return bool(subject.get("namespace")) and not subject.get("apiGroup") and _is_subdomain(subject.get("name"))
    return subject.get("kind") in {"User", "Group"} and not subject.get("namespace") and bool(subject.get("name"))


def _is_subdomain(text: JSON) -> bool:
    return isinstance(text, str) and _SUBDOMAIN.fullmatch(text) is not None


_KINDS: Mapping[str, Callable[[JSON], bool]] = {
    "Deployment": _workload,
    "ReplicaSet": _workload,
    "DaemonSet": _workload,
    "StatefulSet": _workload,
    "Job": _job,
    "CronJob": _cron_job,
    "Service": _service,
    "Ingress": _ingress,
    "PodDisruptionBudget": _budget,
    "RoleBinding": _binding,
    "ClusterRoleBinding": _binding,
}
_TYPES: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
    _CORE + "Container": _container,
    _CORE + "EphemeralContainer": _container,
    _CORE + "PodSpec": _pod_spec,
    _CORE + "ResourceRequirements": _resources,
    _CORE + "Volume": _volume,
    _CORE + "EnvVar": _env,
    _CORE + "ContainerPort": _container_port,
}

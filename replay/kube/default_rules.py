"""The defaults in the server's code: one table for plain values, one function for each other rule.

Each row and function has the Go type of its `SetDefaults_*` function in
k8s.io/kubernetes/pkg/apis/<group>/<version>/defaults.go. A rule changes the struct that it is given. It copies the
inner parts that it changes, because they may belong to another object.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from replay.kube.rbac import RBAC_GROUP

# Image references, as far as defaults need them (github.com/distribution/reference).

_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_LABEL = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_DOMAIN = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[(?:[a-fA-F0-9:]+)\])(?::[0-9]+)?"
_REFERENCE = re.compile(
    rf"(?:{_DOMAIN}/)?{_COMPONENT}(?:/{_COMPONENT})*"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?"
    r"(?:@(?P<digest>[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}))?"
)
_IDENTIFIER = re.compile(r"[a-f0-9]{64}")
_DIGEST_LENGTHS = {"sha256": 64, "sha384": 96, "sha512": 128}


def is_latest(image: str) -> bool:
    """Return whether an image has the tag `latest`, or has neither tag nor digest.

    A text that is no reference has no tag (`ParseImageName` of k8s.io/kubernetes/pkg/util/parsers, its error ignored).
    """
    if _IDENTIFIER.fullmatch(image):
        return False
    match = _REFERENCE.fullmatch(_normalized(image))
    if match is None:
        return False
    digest = match["digest"]
    if digest is None:
        return match["tag"] in {None, "latest"}
    algorithm, _, encoded = digest.partition(":")
    return match["tag"] == "latest" and _DIGEST_LENGTHS.get(algorithm) == len(encoded) and encoded == encoded.lower()


def _normalized(image: str) -> str:
    """Return the reference with an explicit domain.

    Otherwise its first component could be taken for one (`splitDockerDomain`).
    """
    first, slash, _ = image.partition("/")
    is_domain = bool(slash) and ("." in first or ":" in first or first == "localhost" or first != first.lower())
    return image if is_domain else f"docker.io/{image}"


StructFields = dict[str, Any]

_CORE = "io.k8s.api.core.v1."
_APPS = "io.k8s.api.apps.v1."
_RBAC = "io.k8s.api.rbac.v1."
ADMISSION = "io.k8s.api.admissionregistration.v1."
_FLOW = "io.k8s.api.flowcontrol.v1."
_EVERYTHING: Mapping[str, Any] = {}
_DEFAULT_MODE = 0o644

_WEBHOOK = {
    "failurePolicy": "Fail",
    "matchPolicy": "Equivalent",
    "namespaceSelector": _EVERYTHING,
    "objectSelector": _EVERYTHING,
    "timeoutSeconds": 10,
}

FILLED: Mapping[str, Mapping[str, Any]] = {
    _CORE + "Container": {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"},
    _CORE + "EphemeralContainer": {
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    },
    _CORE + "PodSpec": {
        "dnsPolicy": "ClusterFirst",
        "restartPolicy": "Always",
        "securityContext": _EVERYTHING,
        "terminationGracePeriodSeconds": 30,
        "schedulerName": "default-scheduler",
    },
    _CORE + "Probe": {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3},
    _CORE + "HTTPGetAction": {"path": "/", "scheme": "HTTP"},
    _CORE + "SecretVolumeSource": {"defaultMode": _DEFAULT_MODE},
    _CORE + "ConfigMapVolumeSource": {"defaultMode": _DEFAULT_MODE},
    _CORE + "DownwardAPIVolumeSource": {"defaultMode": _DEFAULT_MODE},
    _CORE + "ProjectedVolumeSource": {"defaultMode": _DEFAULT_MODE},
    _CORE + "HostPathVolumeSource": {"type": ""},
    _CORE + "ServiceAccountTokenProjection": {"expirationSeconds": 3600},
    _CORE + "ObjectFieldSelector": {"apiVersion": "v1"},
    _CORE + "Secret": {"type": "Opaque"},
    _CORE + "PersistentVolumeSpec": {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"},
    _CORE + "PersistentVolumeStatus": {"phase": "Pending"},
    _CORE + "PersistentVolumeClaimSpec": {"volumeMode": "Filesystem"},
    _CORE + "NamespaceStatus": {"phase": "Active"},
    _APPS + "DeploymentSpec": {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600},
    _APPS + "DaemonSetSpec": {"revisionHistoryLimit": 10},
    _APPS + "StatefulSetSpec": {"replicas": 1, "revisionHistoryLimit": 10, "podManagementPolicy": "OrderedReady"},
    _APPS + "ReplicaSetSpec": {"replicas": 1},
    "io.k8s.api.batch.v1.CronJobSpec": {
        "concurrencyPolicy": "Allow",
        "suspend": False,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1,
    },
    "io.k8s.api.batch.v1.PodFailurePolicyOnPodConditionsPattern": {"status": "True"},
    "io.k8s.api.networking.v1.NetworkPolicyPort": {"protocol": "TCP"},
    "io.k8s.api.networking.v1.IngressClassParametersReference": {"scope": "Cluster"},
    "io.k8s.api.autoscaling.v1.HorizontalPodAutoscalerSpec": {"minReplicas": 1},
    "io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerSpec": {"minReplicas": 1},
    _RBAC + "RoleRef": {"apiGroup": RBAC_GROUP},
    "io.k8s.api.discovery.v1.EndpointPort": {"name": "", "protocol": "TCP"},
    "io.k8s.api.storage.v1.StorageClass": {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
    "io.k8s.api.storage.v1.CSIDriverSpec": {
        "attachRequired": True,
        "podInfoOnMount": False,
        "storageCapacity": False,
        "fsGroupPolicy": "ReadWriteOnceWithFSType",
        "requiresRepublish": False,
        "seLinuxMount": False,
        "preventPodSchedulingIfMissing": False,
    },
    "io.k8s.api.scheduling.v1.PriorityClass": {"preemptionPolicy": "PreemptLowerPriority"},
    ADMISSION + "ValidatingWebhook": _WEBHOOK,
    ADMISSION + "MutatingWebhook": {**_WEBHOOK, "reinvocationPolicy": "Never"},
    ADMISSION + "RuleWithOperations": {"scope": "*"},
    ADMISSION + "NamedRuleWithOperations": {"scope": "*"},
    ADMISSION + "ServiceReference": {"port": 443},
    ADMISSION + "ValidatingAdmissionPolicySpec": {"failurePolicy": "Fail"},
    ADMISSION + "MutatingAdmissionPolicySpec": {"failurePolicy": "Fail"},
    ADMISSION + "MatchResources": {
        "matchPolicy": "Equivalent",
        "namespaceSelector": _EVERYTHING,
        "objectSelector": _EVERYTHING,
    },
    _FLOW + "FlowSchemaSpec": {"matchingPrecedence": 1000},
    _FLOW + "ExemptPriorityLevelConfiguration": {"nominalConcurrencyShares": 0, "lendablePercent": 0},
    _FLOW + "LimitedPriorityLevelConfiguration": {"nominalConcurrencyShares": 30, "lendablePercent": 0},
    _FLOW + "QueuingConfiguration": {"handSize": 8, "queues": 64, "queueLengthLimit": 50},
}
"""The values of fields that are missing or an empty string, by type."""


def _own_struct(struct: StructFields, field: str) -> StructFields:
    """Return the struct in a field as a copy that may be changed, or as an empty one if there is none."""
    struct[field] = owned = dict(struct.get(field) or {})
    return owned


def _fill(struct: StructFields, field: str, default: Any) -> None:
    if struct.get(field) in (None, ""):
        struct[field] = default


def _each(struct: StructFields, field: str, change: Callable[[StructFields], StructFields | None]) -> None:
    """Replace the items of a list for which `change` returns a copy."""
    items = struct.get(field)
    for index, item in enumerate(items or ()):
        changed = change(item)
        if changed is not None:
            if struct[field] is items:
                struct[field] = list(items)
            struct[field][index] = changed


def _container(container: StructFields) -> None:
    if container.get("imagePullPolicy") in (None, ""):
        container["imagePullPolicy"] = "Always" if is_latest(container.get("image", "")) else "IfNotPresent"


def _volume(volume: StructFields) -> None:
    # A volume that has only its name has no source.
    if len(volume) <= 1:
        volume["emptyDir"] = {}
    if "image" in volume:
        image = _own_struct(volume, "image")
        _fill(image, "pullPolicy", "Always" if is_latest(image.get("reference", "")) else "IfNotPresent")


def _pod(pod: StructFields) -> None:
    """Apply the defaults that pods have and pod templates do not (`SetDefaults_Pod`)."""
    spec = _own_struct(pod, "spec")
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        spec["terminationGracePeriodSeconds"] = 1
    for field in ("containers", "initContainers"):
        if field in spec:
            _each(spec, field, _with_requests)
    _fill(spec, "enableServiceLinks", True)
    if spec.get("hostNetwork"):
        for field in ("containers", "initContainers"):
            _each(spec, field, _with_host_ports)


def _with_requests(container: StructFields) -> StructFields | None:
    """Return the container with limits as requests where no request is given, or None if unchanged."""
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    if limits.keys() <= requests.keys():
        return None
    return {**container, "resources": {**resources, "requests": {**limits, **requests}}}


def _with_host_ports(container: StructFields) -> StructFields | None:
    ports = container.get("ports") or []
    if all(port.get("hostPort") for port in ports):
        return None
    # Go leaves out a `hostPort` of zero, which a port without `containerPort` would get.
    filled = [port if port.get("hostPort") else {**port, "hostPort": port.get("containerPort", 0)} for port in ports]
    return {**container, "ports": [{k: v for k, v in port.items() if k != "hostPort" or v} for port in filled]}


def _pod_spec(spec: StructFields) -> None:
    """Set `serviceAccount` and its alias `serviceAccountName` to the same name. The latter wins."""
    name = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if name:
        spec["serviceAccountName"] = spec["serviceAccount"] = name


def _pod_status(status: StructFields) -> None:
    address, addresses = status.get("podIP"), status.get("podIPs")
    if address and (not addresses or addresses[0].get("ip") != address):
        status["podIPs"] = [{"ip": address}]
    elif addresses and not address and addresses[0].get("ip"):
        status["podIP"] = addresses[0]["ip"]


def _namespace(namespace: StructFields) -> None:
    name = (namespace.get("metadata") or {}).get("name")
    if name:
        metadata = _own_struct(namespace, "metadata")
        metadata["labels"] = {**(metadata.get("labels") or {}), "kubernetes.io/metadata.name": name}


def _node_status(status: StructFields) -> None:
    if status.get("allocatable") is None and status.get("capacity"):
        status["allocatable"] = status["capacity"]


def _service(service: StructFields) -> None:
    spec = _own_struct(service, "spec")
    _fill(spec, "sessionAffinity", "None")
    _fill(spec, "type", "ClusterIP")
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        affinity = (spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}
        if affinity.get("timeoutSeconds") is None:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": 10800}}
    _each(spec, "ports", _with_target)
    external = spec["type"] in {"LoadBalancer", "NodePort"} or (spec["type"] == "ClusterIP" and spec.get("externalIPs"))
    if external:
        _fill(spec, "externalTrafficPolicy", "Cluster")
    if spec["type"] in {"NodePort", "LoadBalancer", "ClusterIP"}:
        _fill(spec, "internalTrafficPolicy", "Cluster")
    if spec["type"] == "LoadBalancer":
        _fill(spec, "allocateLoadBalancerNodePorts", True)
        _ingress_modes(service)


def _with_target(port: StructFields) -> StructFields | None:
    target = port.get("targetPort") or port.get("port", 0)
    return (
        None if port.get("protocol") and port.get("targetPort") else {"protocol": "TCP", **port, "targetPort": target}
    )


def _ingress_modes(service: StructFields) -> None:
    ingress = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress")
    if ingress:
        balancer = _own_struct(_own_struct(service, "status"), "loadBalancer")
        _each(balancer, "ingress", lambda at: {**at, "ipMode": "VIP"} if at.get("ip") and "ipMode" not in at else None)


def _replication_controller(controller: StructFields) -> None:
    template = (controller.get("spec") or {}).get("template") or {}
    labels = (template.get("metadata") or {}).get("labels")
    if labels is not None:
        _fill_map(_own_struct(controller, "spec"), "selector", labels)
        _fill_map(_own_struct(controller, "metadata"), "labels", labels)


def _fill_map(struct: StructFields, field: str, default: Mapping[str, Any]) -> None:
    if not struct.get(field):
        struct[field] = dict(default)


def limit_range_item(item: StructFields) -> None:
    """Set the defaults of an item: the limit is the maximum, the request is the limit, or else the minimum (`SetDefaults_LimitRangeItem`)."""
    if item.get("type") != "Container":
        return
    default = {**(item.get("max") or {}), **(item.get("default") or {})}
    request = {**(item.get("min") or {}), **default, **(item.get("defaultRequest") or {})}
    for field, amounts in (("default", default), ("defaultRequest", request)):
        if amounts:
            item[field] = amounts


def _endpoint_subset(subset: StructFields) -> None:
    _each(subset, "ports", lambda port: None if port.get("protocol") else {**port, "protocol": "TCP"})


def _rolling_update(strategy: StructFields, defaults: Mapping[str, Any]) -> None:
    _fill(strategy, "type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = _own_struct(strategy, "rollingUpdate")
        for field, default in defaults.items():
            _fill(rolling, field, default)


def _deployment_spec(spec: StructFields) -> None:
    _rolling_update(_own_struct(spec, "strategy"), {"maxUnavailable": "25%", "maxSurge": "25%"})


def _daemon_set_spec(spec: StructFields) -> None:
    _rolling_update(_own_struct(spec, "updateStrategy"), {"maxUnavailable": 1, "maxSurge": 0})


def _stateful_set_spec(spec: StructFields) -> None:
    strategy = _own_struct(spec, "updateStrategy")
    # Go makes the struct only if it also sets the type.
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        strategy.setdefault("rollingUpdate", {})
    if strategy["type"] == "RollingUpdate" and strategy.get("rollingUpdate") is not None:
        rolling = _own_struct(strategy, "rollingUpdate")
        _fill(rolling, "partition", 0)
        if MAX_UNAVAILABLE_STATEFUL_SET:
            _fill(rolling, "maxUnavailable", 1)
    retention = _own_struct(spec, "persistentVolumeClaimRetentionPolicy")
    _fill(retention, "whenDeleted", "Retain")
    _fill(retention, "whenScaled", "Retain")


MAX_UNAVAILABLE_STATEFUL_SET = True
"""The value of that feature gate in 1.37."""


def _job(job: StructFields) -> None:
    spec = _own_struct(job, "spec")
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    _fill(spec, "parallelism", 1)
    _fill(spec, "backoffLimit", 6 if spec.get("backoffLimitPerIndex") is None else 2**31 - 1)
    _fill(spec, "completionMode", "NonIndexed")
    _fill(spec, "suspend", False)
    _fill(spec, "podReplacementPolicy", "TerminatingOrFailed" if spec.get("podFailurePolicy") is None else "Failed")
    _fill(spec, "manualSelector", False)
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels:
        _fill_map(_own_struct(job, "metadata"), "labels", labels)


def _network_policy_spec(spec: StructFields) -> None:
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


def _subject(subject: StructFields) -> None:
    if subject.get("kind") in {"User", "Group"}:
        _fill(subject, "apiGroup", RBAC_GROUP)


def _csi_driver_spec(spec: StructFields) -> None:
    if not spec.get("volumeLifecycleModes"):
        spec["volumeLifecycleModes"] = ["Persistent"]


def _autoscaler_spec(spec: StructFields) -> None:
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    if spec.get("behavior") is not None:
        behavior = _own_struct(spec, "behavior")
        percent = {"type": "Percent", "value": 100, "periodSeconds": 15}
        pods = {"type": "Pods", "value": 4, "periodSeconds": 15}
        up = {"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": [pods, percent]}
        down = {"selectPolicy": "Max", "policies": [percent]}
        behavior["scaleUp"] = {**up, **(behavior.get("scaleUp") or {})}
        behavior["scaleDown"] = {**down, **(behavior.get("scaleDown") or {})}


def _device_request(request: StructFields) -> None:
    _fill(request, "allocationMode", "ExactCount")
    if request["allocationMode"] == "ExactCount" and not request.get("count"):
        request["count"] = 1


RULES: Mapping[str, Callable[[StructFields], None]] = {
    _CORE + "Container": _container,
    _CORE + "EphemeralContainer": _container,
    _CORE + "Volume": _volume,
    _CORE + "Pod": _pod,
    _CORE + "PodSpec": _pod_spec,
    _CORE + "PodStatus": _pod_status,
    _CORE + "Namespace": _namespace,
    _CORE + "NodeStatus": _node_status,
    _CORE + "Service": _service,
    _CORE + "ReplicationController": _replication_controller,
    _CORE + "LimitRangeItem": limit_range_item,
    _CORE + "EndpointSubset": _endpoint_subset,
    _CORE + "PersistentVolumeClaim": lambda claim: _fill(_own_struct(claim, "status"), "phase", "Pending"),
    _APPS + "DeploymentSpec": _deployment_spec,
    _APPS + "DaemonSetSpec": _daemon_set_spec,
    _APPS + "StatefulSetSpec": _stateful_set_spec,
    "io.k8s.api.batch.v1.Job": _job,
    "io.k8s.api.networking.v1.NetworkPolicySpec": _network_policy_spec,
    _RBAC + "Subject": _subject,
    "io.k8s.api.storage.v1.CSIDriverSpec": _csi_driver_spec,
    "io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerSpec": _autoscaler_spec,
    "io.k8s.api.resource.v1.ExactDeviceRequest": _device_request,
    "io.k8s.api.resource.v1.DeviceSubRequest": _device_request,
}
"""The rules that need more than one field, by type."""

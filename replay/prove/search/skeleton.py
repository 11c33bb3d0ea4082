"""Smallest valid object of each kind, the start of every request.

Some types allow only one member to be set (`ValidateVolumes`, `validateHandler`, `validateEnvVarValueFrom` and others).
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any

from replay.json import JSON
from replay.kube.default import set_defaults
from replay.kube.go_object import DecodeError, round_trip
from replay.kube.gvk import GroupVersionKind
from replay.kube.schema import Schema, Schemas

_CORE = "io.k8s.api.core.v1."
_LABELS = {"app": "example"}
_CONTAINER = {"name": "main", "image": "registry.example.com/app:1.0"}
_POD_SPEC = {"containers": [_CONTAINER]}
_TEMPLATE = {"metadata": {"labels": _LABELS}, "spec": _POD_SPEC}
_WORKLOAD = {"selector": {"matchLabels": _LABELS}, "template": _TEMPLATE}
_JOB = {"template": {"spec": {**_POD_SPEC, "restartPolicy": "Never"}}}
_RULE = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
_SELECTED = {"matchLabels": _LABELS}

_SPECS: Mapping[tuple[str, str], Mapping[str, Any]] = {
    ("", "Pod"): {"spec": _POD_SPEC},
    ("", "PodTemplate"): {"template": _TEMPLATE},
    ("", "ReplicationController"): {"spec": {"selector": _LABELS, "template": _TEMPLATE}},
    ("", "Service"): {"spec": {"selector": _LABELS, "ports": [{"port": 80}]}},
    ("", "PersistentVolumeClaim"): {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    },
    ("", "PersistentVolume"): {
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/data"}}
    },
    ("", "Binding"): {"target": {"kind": "Node", "name": "node-1"}},
    ("", "Event"): {"involvedObject": {"kind": "Pod", "namespace": "default", "name": "example"}},
    ("apps", "Deployment"): {"spec": _WORKLOAD},
    ("apps", "ReplicaSet"): {"spec": _WORKLOAD},
    ("apps", "DaemonSet"): {"spec": _WORKLOAD},
    ("apps", "StatefulSet"): {"spec": {**_WORKLOAD, "serviceName": "example"}},
    ("batch", "Job"): {"spec": _JOB},
    ("batch", "CronJob"): {"spec": {"schedule": "0 0 * * *", "jobTemplate": {"spec": _JOB}}},
    ("networking.k8s.io", "Ingress"): {
        "spec": {"defaultBackend": {"service": {"name": "example", "port": {"number": 80}}}}
    },
    ("networking.k8s.io", "NetworkPolicy"): {"spec": {"podSelector": {}}},
    ("networking.k8s.io", "IngressClass"): {"spec": {"controller": "example.com/ingress"}},
    ("policy", "PodDisruptionBudget"): {"spec": {"selector": _SELECTED}},
    ("rbac.authorization.k8s.io", "Role"): {"rules": [_RULE]},
    ("rbac.authorization.k8s.io", "ClusterRole"): {"rules": [_RULE]},
    ("rbac.authorization.k8s.io", "RoleBinding"): {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "example"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "alice"}],
    },
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "example"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "alice"}],
    },
    ("storage.k8s.io", "StorageClass"): {"provisioner": "example.com/disk"},
    ("scheduling.k8s.io", "PriorityClass"): {"value": 1},
    ("autoscaling", "HorizontalPodAutoscaler"): {
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "example"},
            "maxReplicas": 3,
        }
    },
    ("autoscaling", "Scale"): {"spec": {"replicas": 1}},
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"): {
        "spec": {"policyName": "example", "validationActions": ["Deny"]}
    },
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding"): {"spec": {"policyName": "example"}},
}
"""Required fields of each kind besides metadata (`Validate…` of `pkg/apis/*/validation`)."""

_ITEMS: Mapping[str, Mapping[str, Any]] = {
    _CORE + "Container": _CONTAINER,
    _CORE + "EphemeralContainer": {"name": "debugger", "image": "registry.example.com/debug:1.0"},
    _CORE + "Volume": {"name": "data", "emptyDir": {}},
    _CORE + "VolumeMount": {"name": "data", "mountPath": "/data"},
    _CORE + "ContainerPort": {"containerPort": 8080},
    _CORE + "ServicePort": {"port": 8080, "name": "web"},
    _CORE + "EnvVar": {"name": "KEY", "value": "value"},
    _CORE + "PodSpec": _POD_SPEC,
    _CORE + "PodTemplateSpec": _TEMPLATE,
    _CORE + "HTTPGetAction": {"port": 8080},
    _CORE + "TCPSocketAction": {"port": 8080},
    _CORE + "HostPathVolumeSource": {"path": "/data"},
    _CORE + "SeccompProfile": {"type": "RuntimeDefault"},
    _CORE + "AppArmorProfile": {"type": "RuntimeDefault"},
    _CORE + "Toleration": {"operator": "Exists"},
    _CORE + "LocalObjectReference": {"name": "example"},
    _CORE + "Sysctl": {"name": "kernel.shm_rmid_forced", "value": "0"},
    _CORE + "NodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "Exists"}]}]},
    _CORE + "Taint": {"key": "dedicated", "effect": "NoSchedule"},
    _CORE + "TopologySpreadConstraint": {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
    },
    "io.k8s.api.rbac.v1.PolicyRule": _RULE,
    "io.k8s.api.rbac.v1.Subject": {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "bob"},
    "io.k8s.api.networking.v1.IngressRule": {"host": "www.example.com"},
    "io.k8s.api.networking.v1.IngressTLS": {"hosts": ["www.example.com"]},
    "io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference": {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": "7d1f2d0e-0000-4000-8000-000000000001",
    },
}
"""Smallest values of list items and optional fields, by type."""

_GENERATED = {"string": "example", "integer": 1, "number": 1.0, "boolean": True}
_DEPTH = 6


def least(schema: Schema | None, depth: int = 0) -> JSON:  # noqa: PLR0911 - one case a kind
    """Return the smallest value of a schema. Without a schema it is an empty map."""
    if schema is None:
        return {}
    if schema.name in _ITEMS:
        return copy.deepcopy(dict(_ITEMS[schema.name]))
    if schema.type == "array":
        return []
    if schema.fields and depth < _DEPTH:
        return {
            name: least(schema.fields[name], depth + 1) for name in sorted(schema.required) if name in schema.fields
        }
    if schema.type == "object" or schema.fields or schema.values is not None:
        return {}
    if schema.name.endswith("resource.Quantity"):
        return "1"
    if schema.name.endswith(("meta.v1.Time", "meta.v1.MicroTime")):
        return "2026-01-01T00:00:00Z"
    return _GENERATED.get(schema.type, "example")


def item_name(name: str, field: str, index: int) -> str:
    """Return the name of a list item, different from the names of items in sibling lists."""
    own = {"initContainers": "init", "ephemeralContainers": "debug"}.get(field, name)
    return own if not index else f"{own}-{index}"


class ValidSkeletons:
    """Smallest valid objects by kind, and objects as a server writes them."""

    def __init__(self, schemas: Schemas) -> None:
        """`schemas` know the built-in kinds."""
        self.schemas = schemas
        self._skeletons: dict[tuple[GroupVersionKind, str, str], JSON] = {}
        self._own: set[int] = set()
        """Identities of the created objects, which are never released."""

    def object(self, kind: GroupVersionKind, namespace: str, name: str) -> JSON:
        """Return the smallest object of a kind with defaults. Do not change it in place."""
        key = (kind, namespace, name)
        if key not in self._skeletons:
            self._skeletons[key] = self._make(kind, namespace, name)
            self._own.add(id(self._skeletons[key]))
        return self._skeletons[key]

    def is_own(self, obj: JSON) -> bool:
        """Return whether this object was created here, unchanged."""
        return id(obj) in self._own

    def _make(self, kind: GroupVersionKind, namespace: str, name: str) -> JSON:
        schema = self.schemas.for_kind(kind)
        body: dict[str, Any] = copy.deepcopy(dict(_SPECS.get((kind.group, kind.kind), {})))
        skeleton: dict[str, Any] = {"apiVersion": kind.api_version, "kind": kind.kind}
        if schema is None or "metadata" in schema.fields:
            skeleton["metadata"] = {"name": name, **({"namespace": namespace} if namespace else {})}
        if schema is not None and not body:
            required = (each for each in sorted(schema.required) if each not in skeleton and each in schema.fields)
            body = {each: least(schema.fields[each]) for each in required}
        skeleton.update(body)
        return self.as_served(kind, skeleton) or skeleton

    def as_served(self, kind: GroupVersionKind, obj: JSON, base: JSON = None) -> JSON | None:
        """Return the object as the server's Go type writes it, with defaults, or None if it does not fit the type.

        `base` is an object already written this way. Parts that are identical objects in both are reused.
        """
        schema = self.schemas.for_kind(kind)
        if schema is None or self.schemas.is_custom(kind):
            return obj
        try:
            served = round_trip(schema, obj, base)
        except DecodeError:
            return None
        set_defaults(schema, served, base)
        return {"apiVersion": kind.api_version, "kind": kind.kind, **_known(served)}


def _known(served: JSON) -> dict[str, JSON]:
    return {name: value for name, value in served.items() if name not in {"apiVersion", "kind"}}


@lru_cache(maxsize=1)
def builtin_skeletons() -> ValidSkeletons:
    """Return the skeletons of built-in kinds."""
    return ValidSkeletons(Schemas())


_HANDLERS = frozenset({"exec", "httpGet", "tcpSocket", "grpc", "sleep"})
_OUTSIDE_UNION: Mapping[str, frozenset[str]] = {"Volume": frozenset({"name"})}
"""Types of which every field except these is a member of the union."""
_MEMBERS: Mapping[str, frozenset[str]] = {
    "Probe": _HANDLERS,
    "LifecycleHandler": _HANDLERS,
    "EnvVar": frozenset({"value", "valueFrom"}),
    "EnvVarSource": frozenset({"fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef"}),
    "PodDisruptionBudgetSpec": frozenset({"minAvailable", "maxUnavailable"}),
    "IngressBackend": frozenset({"service", "resource"}),
}


def members_of(schema: Schema | None) -> frozenset[str]:
    """Return the fields of a type of which exactly one may be set. There are none for other types."""
    if schema is None:
        return frozenset()
    name = schema.name.rpartition(".")[2]
    beside = _OUTSIDE_UNION.get(name)
    return _MEMBERS.get(name, frozenset()) if beside is None else frozenset(schema.fields) - beside


def with_members(value: dict[str, JSON], schema: Schema | None, chosen: Collection[str]) -> dict[str, JSON]:
    """Return a value without the members that were not chosen, if one of the chosen is a member."""
    members = members_of(schema)
    members_to_keep = members.intersection(chosen)
    return (
        {name: item for name, item in value.items() if name not in members or name in members_to_keep}
        if members_to_keep
        else value
    )

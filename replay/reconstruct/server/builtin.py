"""What the built-in mutating plugins add to an object before the mutating policies see it.

Only plugins that are on by default are reproduced, in the order of `pkg/kubeapiserver/options.AllOrderedPlugins`. What
depends on other objects (ServiceAccount, PriorityClass; classes: `default_class`) is taken from the response where
there is one, else from the cluster's state, else it is a hole.
"""

from __future__ import annotations

from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject, field_of
from replay.kube.gvk import GroupVersionKind
from replay.kube.lister import Lister
from replay.reconstruct.record.body import Shape
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.record.known import Hole, Known, get
from replay.reconstruct.server.limit_ranger import with_limits

_VOLUME_PREFIX = "kube-api-access-"
_MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
_MIRROR = ("metadata", "annotations", "kubernetes.io/config.mirror")
_SERVICE_ACCOUNT = GroupVersionKind("", "v1", "ServiceAccount")
_PRIORITY_CLASS = GroupVersionKind("scheduling.k8s.io", "v1", "PriorityClass")
_SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_EVICTION_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_TOLERATION_SECONDS = 300


REPRODUCED = frozenset(
    {
        "DefaultIngressClass",
        "DefaultStorageClass",
        "DefaultTolerationSeconds",
        "LimitRanger",
        "Priority",
        "ServiceAccount",
        "StorageObjectInUseProtection",
        "TaintNodesByCondition",
    }
)
"""The plugins whose work is done again here, or in `default_class`."""


def after_builtin_mutators(
    sent: Known, exchange: Exchange, lister: Lister, *, creating: bool, undone: frozenset[str] = frozenset()
) -> Known:
    """The object as the mutating policies get it; what plugins do that are `undone` is not done here."""
    record = exchange.record
    if record.subresource:
        return sent
    group_resource = (record.api_group, record.resource)
    if group_resource == ("", "pods"):
        return _with_pod_plugins(sent, exchange, lister, undone, creating=creating)
    found = _OF_RESOURCE.get(group_resource)
    if not creating or found is None or found[0] in undone:
        return sent
    return _with_not_ready_taint(sent) if found[1] is None else _with_finalizer(sent, found[1])


_OF_RESOURCE = {
    ("", "nodes"): ("TaintNodesByCondition", None),
    ("", "persistentvolumeclaims"): ("StorageObjectInUseProtection", "kubernetes.io/pvc-protection"),
    ("", "persistentvolumes"): ("StorageObjectInUseProtection", "kubernetes.io/pv-protection"),
}
"""By resource the plugin that changes it on its creation, and the finalizer that it adds, if it adds one."""


def _with_pod_plugins(
    pod: Known, exchange: Exchange, lister: Lister, undone: frozenset[str], *, creating: bool
) -> Known:
    """The plugins that change pods, in their order."""
    namespace = exchange.record.namespace
    shown = exchange.response.json if exchange.succeeded and exchange.shape is Shape.OBJECT else None
    if creating and "LimitRanger" not in undone:
        pod = with_limits(pod, namespace, shown, lister)
    if creating and "ServiceAccount" not in undone:
        pod = _with_service_account(pod, namespace, shown, lister)
    if creating and "Priority" not in undone:
        pod = _with_priority(pod, shown, lister)
    return pod if "DefaultTolerationSeconds" in undone else _with_tolerations(pod)


def _with_finalizer(sent: Known, name: str) -> Known:
    """StorageObjectInUseProtection."""
    finalizers = get(sent.value, ("metadata", "finalizers")) or []
    return sent if name in finalizers else sent.with_value(("metadata", "finalizers"), [*finalizers, name])


def _with_not_ready_taint(sent: Known) -> Known:
    """TaintNodesByCondition."""
    taints = get(sent.value, ("spec", "taints")) or []
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    if any((of.get("key"), of.get("effect")) == (taint["key"], taint["effect"]) for of in taints):
        return sent
    return sent.with_value(("spec", "taints"), [*taints, taint])


def _with_tolerations(pod: Known) -> Known:
    """DefaultTolerationSeconds: 300 seconds on nodes that are not ready or unreachable."""
    tolerations = list(get(pod.value, ("spec", "tolerations")) or [])
    missing = [key for key in _EVICTION_TAINTS if not any(_tolerates(of, key) for of in tolerations)]
    if not missing:
        return pod
    added = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _TOLERATION_SECONDS}
        for key in missing
    ]
    return pod.with_value(("spec", "tolerations"), [*tolerations, *added])


def _tolerates(toleration: JSON, key: str) -> bool:
    return toleration.get("key", "") in ("", key) and toleration.get("effect", "") in ("", "NoExecute")


def _with_priority(pod: Known, shown: JSON, lister: Lister) -> Known:
    """Priority: the number and preemption policy of the pod's PriorityClass, or of the global default."""
    fields = ("priorityClassName", "priority", "preemptionPolicy")
    if shown is not None:
        own, spec = pod.value.get("spec") or {}, shown.get("spec") or {}
        taken = {name: spec[name] for name in fields if spec.get(name) is not None and own.get(name) is None}
        return pod.with_fields(("spec",), taken) if taken else pod
    class_name = get(pod.value, ("spec", "priorityClassName")) or ""
    if class_name in _SYSTEM_PRIORITIES:
        priority, preemption = _SYSTEM_PRIORITIES[class_name], "PreemptLowerPriority"
    else:
        chosen = _priority_class(class_name, lister)
        if isinstance(chosen, Missing):
            return pod.with_holes([Hole(("spec", name), chosen.reason) for name in fields])
        priority, preemption = chosen.get("value", 0), chosen.get("preemptionPolicy", "PreemptLowerPriority")
        if chosen:
            pod = pod.with_value(("spec", "priorityClassName"), chosen["metadata"]["name"])
    return pod.with_value(("spec", "priority"), priority).with_value(("spec", "preemptionPolicy"), preemption)


def _priority_class(name: str, lister: Lister) -> JSON | Missing:
    """The PriorityClass of a name, or the global default with the least value; empty where there is none."""
    classes = lister.list(_PRIORITY_CLASS, None)
    if isinstance(classes, Missing):
        return Missing("", "PriorityClasses are not in the snapshot")
    read = ("value", "preemptionPolicy", "globalDefault")
    if any(isinstance(field_of(each, of), Missing) for each in classes for of in read):
        return Missing("", "a PriorityClass was changing at the time of the request")
    known = [each.value if isinstance(each, PartialObject) else each for each in classes]
    found = [each for each in known if (each["metadata"]["name"] == name if name else each.get("globalDefault"))]
    return min(found, key=lambda each: each.get("value", 0), default={})


def _with_service_account(pod: Known, namespace: str, shown: JSON, lister: Lister) -> Known:
    """ServiceAccount: the account's name, the projected token volume and its mounts, image pull secrets."""
    if get(pod.value, _MIRROR) is not None:
        return pod
    if not get(pod.value, ("spec", "serviceAccountName")):
        pod = pod.with_fields(("spec",), {"serviceAccountName": "default", "serviceAccount": "default"})
    account = lister.get(_SERVICE_ACCOUNT, namespace, get(pod.value, ("spec", "serviceAccountName")))
    mounts = _mounts_token(pod, shown, account)
    if mounts is None:
        pod = pod.with_holes(_token_holes(pod))
    elif mounts:
        pod = _with_token(pod, shown)
    return _with_pull_secrets(pod, shown, account)


def _mounts_token(pod: Known, shown: JSON, account: JSON | PartialObject | Missing | None) -> bool | None:
    """Whether the token is mounted; None where that is not known."""
    asked = get(pod.value, ("spec", "automountServiceAccountToken"))
    if asked is not None:
        return bool(asked)
    if shown is not None:
        return _token_volume(shown) is not None
    automount = account if account is None else field_of(account, "automountServiceAccountToken")
    return None if account is None or isinstance(automount, Missing) else automount is not False


def _token_volume(pod: JSON) -> str | None:
    """The name of the token volume of a pod."""
    names = (volume.get("name", "") for volume in get(pod, ("spec", "volumes")) or ())
    return next((name for name in names if name.startswith(_VOLUME_PREFIX)), None)


def _with_token(pod: Known, shown: JSON) -> Known:
    """The volume and a mount in each container that has none at its path; the volume's name ends in random letters."""
    own = _token_volume(pod.value)
    name = own or _token_volume(shown) or _VOLUME_PREFIX
    reason = "the name of the token volume is random, and the response is not the pod"
    holes: list[Hole] = []
    fields: dict[str, JSON] = {}
    spec = pod.value.get("spec") or {}
    mount = {"name": name, "readOnly": True, "mountPath": _MOUNT_PATH}
    for field in ("initContainers", "containers"):
        containers = list(spec.get(field) or ())
        for index, container in enumerate(containers):
            mounts = container.get("volumeMounts") or []
            if not any(mount.get("mountPath") == _MOUNT_PATH for mount in mounts):
                containers[index] = {**container, "volumeMounts": [*mounts, mount]}
                holes.append(Hole(("spec", field, index, "volumeMounts", len(mounts), "name"), reason))
                fields[field] = containers
    if fields and own is None:
        volumes = spec.get("volumes") or []
        fields["volumes"] = [*volumes, {"name": name, "projected": _token_source()}]
        holes.append(Hole(("spec", "volumes", len(volumes), "name"), reason))
    if fields:
        pod = pod.with_fields(("spec",), fields)
    return pod if name != _VOLUME_PREFIX else pod.with_holes(holes)


def _token_source() -> JSON:
    """`serviceaccount.TokenVolumeSource`."""
    token = {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}
    root_ca = {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}
    field_ref = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    namespace = {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": field_ref}]}}
    return {"sources": [token, root_ca, namespace], "defaultMode": 420}


def _token_holes(pod: Known) -> list[Hole]:
    """What is open where it is not known whether the token is mounted."""
    reason = "whether its ServiceAccount mounts a token is not known"
    holes = [Hole(("spec", "volumes"), reason)]
    for field in ("initContainers", "containers"):
        count = len(get(pod.value, ("spec", field)) or ())
        holes += [Hole(("spec", field, index, "volumeMounts"), reason) for index in range(count)]
    return holes


def _with_pull_secrets(pod: Known, shown: JSON, account: JSON | PartialObject | Missing | None) -> Known:
    """Image pull secrets of the account, where the pod names none."""
    path = ("spec", "imagePullSecrets")
    if get(pod.value, path):
        return pod
    if shown is not None:
        secrets = get(shown, path)
    else:
        secrets = None if account is None else field_of(account, "imagePullSecrets")
        if account is None or isinstance(secrets, Missing):
            return pod.with_holes([Hole(path, "the image pull secrets of its ServiceAccount are not known")])
    return pod.with_value(path, secrets) if secrets else pod

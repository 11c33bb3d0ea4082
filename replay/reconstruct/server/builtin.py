"""Changes of the built-in mutating plugins to an object before the mutating policies see it.

Only plugins that are on by default are reproduced, in the order of `pkg/kubeapiserver/options.AllOrderedPlugins`. Their
rules are in `replay.kube.plugin`. What depends on other objects (ServiceAccount, PriorityClass; classes:
`default_class`) comes from the response if there is one, then from the cluster's state; otherwise it is a hole.
"""

from __future__ import annotations

from collections.abc import Iterator

from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject, field_of
from replay.kube.lister import Lister
from replay.kube.plugin.creation import FINALIZERS, with_finalizer, with_not_ready_taint
from replay.kube.plugin.priority import FIELDS, PREEMPT, PRIORITY_CLASS, SYSTEM_CLASSES, global_default
from replay.kube.plugin.service_account import (
    CONTAINERS,
    MIRROR,
    SERVICE_ACCOUNT,
    VOLUME_PREFIX,
    has_mount,
    mount_token,
    token_volume_name,
    with_account,
)
from replay.kube.plugin.toleration import DEFAULTS, with_tolerations
from replay.reconstruct.record.body import BodyShape
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.record.known import Hole, Known, get
from replay.reconstruct.server.limit_ranger import with_limits
from replay.reconstruct.server.placement import with_runtime_class, with_topology_labels
from replay.reconstruct.server.pod_spec import own_spec

REPRODUCED = frozenset(
    {
        "DefaultIngressClass",
        "DefaultStorageClass",
        "DefaultTolerationSeconds",
        "LimitRanger",
        "PodTopologyLabels",
        "Priority",
        "RuntimeClass",
        "ServiceAccount",
        "StorageObjectInUseProtection",
        "TaintNodesByCondition",
    }
)
"""Plugins that this module or `default_class` reproduces."""


def after_builtin_mutators(
    obj: Known, exchange: Exchange, lister: Lister, *, creating: bool, undone: frozenset[str] = frozenset()
) -> Known:
    """Return the object as the mutating policies get it. Plugins in `undone` change nothing."""
    record = exchange.record
    if record.subresource:
        return obj
    group_resource = (record.api_group, record.resource)
    if group_resource == ("", "pods"):
        return _with_pod_plugins(obj, exchange, lister, undone, creating=creating)
    if not creating:
        return obj
    if group_resource == ("", "nodes") and "TaintNodesByCondition" not in undone:
        return _with_fields(obj, "spec", with_not_ready_taint(obj.value.get("spec") or {}))
    finalizer = FINALIZERS.get(group_resource)
    if finalizer is None or "StorageObjectInUseProtection" in undone:
        return obj
    return _with_fields(obj, "metadata", with_finalizer(obj.value.get("metadata") or {}, finalizer))


def _with_fields(obj: Known, part: str, fields: dict[str, JSON]) -> Known:
    return obj.with_fields((part,), fields) if fields else obj


def _with_pod_plugins(
    pod: Known, exchange: Exchange, lister: Lister, undone: frozenset[str], *, creating: bool
) -> Known:
    """Return a pod after the plugins that change pods, in their order."""
    namespace = exchange.record.namespace
    shown = exchange.response.json if exchange.succeeded and exchange.shape is BodyShape.OBJECT else None
    if creating and "LimitRanger" not in undone:
        pod = with_limits(pod, namespace, shown, lister)
    if creating and "ServiceAccount" not in undone:
        pod = _with_service_account(pod, namespace, shown, lister)
    if creating and "Priority" not in undone:
        pod = _with_priority(pod, shown, lister)
    # It also handles updates. The other plugins here add something only to creations.
    if "DefaultTolerationSeconds" not in undone:
        pod = _with_fields(pod, "spec", with_tolerations(pod.value.get("spec") or {}, DEFAULTS))
    if creating and "RuntimeClass" not in undone:
        pod = with_runtime_class(pod, shown, lister)
    return with_topology_labels(pod, shown, lister) if creating and "PodTopologyLabels" not in undone else pod


def _with_priority(pod: Known, shown: JSON, lister: Lister) -> Known:
    """Return a pod after Priority.

    It has the number and preemption policy of its PriorityClass or of the global default.
    """
    if shown is not None:
        # The stored pod has the result, so no class is looked up.
        own, spec = pod.value.get("spec") or {}, shown.get("spec") or {}
        fields = {name: spec[name] for name in FIELDS if spec.get(name) is not None and own.get(name) is None}
        return pod.with_fields(("spec",), fields) if fields else pod
    class_name = get(pod.value, ("spec", "priorityClassName")) or ""
    chosen = SYSTEM_CLASSES.get(class_name) or _priority_class(class_name, lister)
    if isinstance(chosen, Missing):
        return pod.with_holes([Hole(("spec", name), chosen.reason) for name in FIELDS])
    named = {"priorityClassName": chosen["metadata"]["name"]} if "metadata" in chosen else {}
    fields = {"priority": chosen.get("value") or 0, "preemptionPolicy": chosen.get("preemptionPolicy") or PREEMPT}
    return pod.with_fields(("spec",), {**named, **fields})


def _priority_class(name: str, lister: Lister) -> JSON | Missing:
    """Return the PriorityClass with a name, or the global default, empty if there is none."""
    classes = lister.list(PRIORITY_CLASS, None)
    if isinstance(classes, Missing):
        return Missing("", "the snapshot has no PriorityClasses")
    fields = ("value", "preemptionPolicy", "globalDefault")
    if any(isinstance(field_of(each, field_path), Missing) for each in classes for field_path in fields):
        return Missing("", "another request changed a PriorityClass at the same time")
    priority_classes = [each.value if isinstance(each, PartialObject) else each for each in classes]
    if not name:
        return global_default(priority_classes) or {}
    return next((each for each in priority_classes if each["metadata"]["name"] == name), {})


def _with_service_account(pod: Known, namespace: str, shown: JSON, lister: Lister) -> Known:
    """Return a pod after ServiceAccount: account name, projected token volume with its mounts, image pull secrets."""
    if get(pod.value, ("metadata", "annotations", MIRROR)) is not None:
        return pod
    pod = _with_fields(pod, "spec", with_account(pod.value.get("spec") or {}))
    account = lister.get(SERVICE_ACCOUNT, namespace, get(pod.value, ("spec", "serviceAccountName")))
    mounts = _mounts_token(pod, shown, account)
    if mounts is None:
        pod = pod.with_holes(_token_holes(pod))
    elif mounts:
        pod = _with_token(pod, shown)
    return _with_pull_secrets(pod, shown, account)


def _mounts_token(pod: Known, shown: JSON, account: JSON | PartialObject | Missing | None) -> bool | None:
    """Return whether the token is mounted, None if unknown."""
    is_automounted = get(pod.value, ("spec", "automountServiceAccountToken"))
    if is_automounted is not None:
        return bool(is_automounted)
    if shown is not None:
        return token_volume_name(shown.get("spec")) is not None
    automount = account if account is None else field_of(account, "automountServiceAccountToken")
    return None if account is None or isinstance(automount, Missing) else automount is not False


def _with_token(pod: Known, shown: JSON) -> Known:
    """Return a pod with the token volume and its mounts.

    The volume's name ends in random letters, which the response shows.
    """
    spec = pod.value.get("spec") or {}
    own = token_volume_name(spec)
    name = own or token_volume_name((shown or {}).get("spec")) or VOLUME_PREFIX
    filled = own_spec(pod.value)
    mount_token(filled, name)
    fields = {field: filled[field] for field in (*CONTAINERS, "volumes") if filled.get(field) != spec.get(field)}
    pod = _with_fields(pod, "spec", fields)
    return pod if name != VOLUME_PREFIX else pod.with_holes(_name_holes(spec, fields))


def _name_holes(spec: JSON, fields: dict[str, JSON]) -> Iterator[Hole]:
    """Yield the places of the token volume's name in a spec."""
    reason = "the name of the token volume is random, and the response does not show the pod"
    for field in CONTAINERS:
        for index, container in enumerate(spec.get(field) or ()):
            if field in fields and not has_mount(container):
                yield Hole(
                    ("spec", field, index, "volumeMounts", len(container.get("volumeMounts") or ()), "name"), reason
                )
    if "volumes" in fields:
        yield Hole(("spec", "volumes", len(spec.get("volumes") or ()), "name"), reason)


def _token_holes(pod: Known) -> list[Hole]:
    """Return the unknown parts if it is unknown whether the token is mounted."""
    reason = "the ServiceAccount is not known, which decides whether a token is mounted"
    holes = [Hole(("spec", "volumes"), reason)]
    for field in CONTAINERS:
        count = len(get(pod.value, ("spec", field)) or ())
        holes += [Hole(("spec", field, index, "volumeMounts"), reason) for index in range(count)]
    return holes


def _with_pull_secrets(pod: Known, shown: JSON, account: JSON | PartialObject | Missing | None) -> Known:
    """Return a pod with the account's image pull secrets, if it has none of its own."""
    path = ("spec", "imagePullSecrets")
    if get(pod.value, path):
        return pod
    if shown is not None:
        secrets = get(shown, path)
    else:
        secrets = None if account is None else field_of(account, "imagePullSecrets")
        if account is None or isinstance(secrets, Missing):
            return pod.with_holes([Hole(path, "the ServiceAccount is not known, which has the image pull secrets")])
    return pod.with_value(path, secrets) if secrets else pod

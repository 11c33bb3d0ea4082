"""Changes of the built-in mutating plugins to an object before the mutating policies see it.

Only plugins that are on by default are reproduced, in the order of `pkg/kubeapiserver/options.AllOrderedPlugins`. Their
rules are in `replay.kube.plugin`. What depends on other objects (ServiceAccount, PriorityClass; classes:
`default_class`) comes from the response if there is one, then from the cluster's state; otherwise it is a hole.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject, field_of
from replay.kube.gvk import GroupVersionKind
from replay.kube.lister import Lister
from replay.kube.plugin import (
    ANNOTATION,
    CONTAINERS,
    DEFAULTS,
    FIELDS,
    FINALIZERS,
    LIMIT_RANGE,
    MIRROR,
    PREEMPT,
    PRIORITY_CLASS,
    SERVICE_ACCOUNT,
    SYSTEM_CLASSES,
    VOLUME_PREFIX,
    ContainerDefaults,
    annotation,
    container_defaults,
    fill_containers,
    global_default,
    has_mount,
    token_volume_name,
    with_account,
    with_finalizer,
    with_not_ready_taint,
    with_token,
    with_tolerations,
)
from replay.reconstruct.record.body import BodyShape
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.record.known import Hole, Known, get

# Copy of a pod's spec that may be changed in place.


def _own_spec(pod: JSON) -> dict[str, JSON]:
    """Return a pod's spec with copied containers, because states of the history share theirs."""
    spec = dict((pod or {}).get("spec") or {})
    for field in CONTAINERS:
        if spec.get(field):
            spec[field] = [_own_container(each) for each in spec[field]]
    return spec


def _own_container(container: JSON) -> JSON:
    resources = container.get("resources")
    return {**container, "resources": dict(resources)} if resources else dict(container)


# Defaults that the plugin LimitRanger adds to a created pod, from the namespace's LimitRanges.
# The rule is in `replay.kube.plugin`. LimitRanger runs before all other plugins that change pods.


def with_limits(pod: Known, namespace: str, shown: JSON, lister: Lister) -> Known:
    """Return the pod with its defaults: those of the stored pod, otherwise those of the known LimitRanges."""
    if shown is not None:
        return _with_shown_limits(pod, shown)
    ranges = lister.list(LIMIT_RANGE, namespace)
    if isinstance(ranges, Missing) or any(isinstance(each, (Missing, PartialObject)) for each in ranges):
        return pod.with_holes(_holes(pod, "another request changed a LimitRange of the namespace at the same time"))
    defaults = [each for each in map(container_defaults, ranges) if any(each.values())]
    # The plugin applies them in the order of its cache, which is random.
    if len(defaults) > 1:
        return pod.with_holes(
            _holes(pod, "several LimitRanges set defaults, and the server applies them in random order")
        )
    return _with_defaults(pod, defaults[0]) if defaults else pod


def _with_defaults(pod: Known, defaults: ContainerDefaults) -> Known:
    spec = _own_spec(pod.value)
    annotation_parts = fill_containers(spec, defaults)
    if not annotation_parts:
        return pod
    fields: dict[str, JSON] = {field: spec[field] for field in CONTAINERS if field in spec}
    return pod.with_fields(("spec",), fields).with_value(
        ("metadata", "annotations", ANNOTATION), annotation(annotation_parts)
    )


def _with_shown_limits(pod: Known, shown: JSON) -> Known:
    """Return the values that the stored pod's containers have and the client did not send.

    There are none without the annotation.
    """
    path = ("metadata", "annotations", ANNOTATION)
    text = get(shown, path)
    # A client that sends the annotation, as in a copy of a pod, also sends the values. So it shows no addition.
    if text is None or get(pod.value, path) == text:
        return pod
    fields: dict[str, JSON] = {}
    for field in CONTAINERS:
        resources = {each.get("name"): each.get("resources") for each in get(shown, ("spec", field)) or ()}
        containers = [_filled(each, resources.get(each.get("name"))) for each in get(pod.value, ("spec", field)) or ()]
        if containers:
            fields[field] = containers
    return pod.with_fields(("spec",), fields).with_value(path, text)


def _filled(container: JSON, shown: JSON) -> JSON:
    own = container.get("resources") or {}
    filled = {
        kind: {**(values or {}), **(own.get(kind) or {})} for kind, values in (shown or {}).items() if kind != "claims"
    }
    return {**container, "resources": {**own, **filled}} if filled else container


def _holes(pod: Known, reason: str) -> Iterator[Hole]:
    yield Hole(("metadata", "annotations", ANNOTATION), reason)
    for field in CONTAINERS:
        for index in range(len(get(pod.value, ("spec", field)) or ())):
            for kind in ("limits", "requests"):
                yield Hole(("spec", field, index, "resources", kind), reason)


# Additions of RuntimeClass and PodTopologyLabels to a new pod, from its runtime class and its node.
# Source: `plugin/pkg/admission/runtimeclass/admission.go` and `plugin/pkg/admission/podtopologylabels/admission.go`. The additions
# come from the response if there is one, then from the cluster's state; otherwise they are holes.

_RUNTIME_CLASS: Final = GroupVersionKind("node.k8s.io", "v1", "RuntimeClass")
_NODE: Final = GroupVersionKind("", "v1", "Node")
_LABELS: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


def with_runtime_class(pod: Known, shown: JSON, lister: Lister) -> Known:
    """Return a pod after RuntimeClass: with overhead, node selector and tolerations of its class."""
    name = (pod.value.get("spec") or {}).get("runtimeClassName")
    if not name:
        return pod
    if shown is not None:
        return _with_scheduling(pod, shown.get("spec") or {}, get(shown, ("spec", "overhead")))
    runtime_class = lister.get(_RUNTIME_CLASS, "", name)
    if runtime_class is None or isinstance(runtime_class, (Missing, PartialObject)):
        reason = f"the RuntimeClass `{name}` is not known, and it may set this field"
        return pod.with_holes([Hole(("spec", field), reason) for field in ("overhead", "nodeSelector", "tolerations")])
    return _with_scheduling(pod, runtime_class.get("scheduling") or {}, get(runtime_class, ("overhead", "podFixed")))


def _with_scheduling(pod: Known, scheduling: JSON, overhead: JSON) -> Known:
    """Return the pod with an overhead, and with the missing entries of a node selector and a list of tolerations."""
    own = pod.value.get("spec") or {}
    fields: dict[str, JSON] = {}
    if overhead and not own.get("overhead"):
        fields["overhead"] = overhead
    if selector := scheduling.get("nodeSelector"):
        # A conflict of the two selectors is refused, so that the order of this merge does not matter.
        fields["nodeSelector"] = {**selector, **(own.get("nodeSelector") or {})}
    tolerations = own.get("tolerations") or []
    if more := [each for each in scheduling.get("tolerations") or () if each not in tolerations]:
        fields["tolerations"] = [*tolerations, *more]
    return pod.with_fields(("spec",), fields)


def with_topology_labels(pod: Known, shown: JSON, lister: Lister) -> Known:
    """Return a pod after PodTopologyLabels: with zone and region of its node, if it names one."""
    name = (pod.value.get("spec") or {}).get("nodeName")
    if not name:
        return pod
    # The stored pod has the copied labels, so the node is looked up only without it.
    source = shown if shown is not None else lister.get(_NODE, "", name)
    if isinstance(source, (Missing, PartialObject)):
        reason = f"the labels of the node `{name}` are not known"
        return pod.with_holes([Hole(("metadata", "labels", label), reason) for label in _LABELS])
    labels = get(source, ("metadata", "labels")) or {}
    zone_labels = {label: labels[label] for label in _LABELS if label in labels}
    return pod.with_fields(("metadata", "labels"), zone_labels)


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
        return obj.with_fields(("spec",), with_not_ready_taint(obj.value.get("spec") or {}))
    finalizer = FINALIZERS.get(group_resource)
    if finalizer is None or "StorageObjectInUseProtection" in undone:
        return obj
    return obj.with_fields(("metadata",), with_finalizer(obj.value.get("metadata") or {}, finalizer))


def _with_pod_plugins(
    pod: Known, exchange: Exchange, lister: Lister, undone: frozenset[str], *, creating: bool
) -> Known:
    """Return a pod after the plugins that change pods, in their order."""
    namespace = exchange.record.namespace
    # The stored object shows what the plugins added, whatever the state of their objects was.
    shown = exchange.response.json if exchange.shape is BodyShape.OBJECT else None
    if creating and "LimitRanger" not in undone:
        pod = with_limits(pod, namespace, shown, lister)
    if creating and "ServiceAccount" not in undone:
        pod = _with_service_account(pod, namespace, shown, lister)
    if creating and "Priority" not in undone:
        pod = _with_priority(pod, shown, lister)
    # It also handles updates. The other plugins here add something only to creations.
    if "DefaultTolerationSeconds" not in undone:
        pod = pod.with_fields(("spec",), with_tolerations(pod.value.get("spec") or {}, DEFAULTS))
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
        return pod.with_fields(("spec",), fields)
    class_name = get(pod.value, ("spec", "priorityClassName")) or ""
    # Every cluster has the system classes, so a snapshot need not show them.
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
    # The plugin only validates mirror pods, which get no account (`serviceaccount.Plugin.Admit`).
    if get(pod.value, ("metadata", "annotations", MIRROR)) is not None:
        return pod
    pod = pod.with_fields(("spec",), with_account(pod.value.get("spec") or {}))
    # The stored pod has the result, so no account is looked up.
    account = (
        None if shown is not None else lister.get(SERVICE_ACCOUNT, namespace, pod.value["spec"]["serviceAccountName"])
    )
    mounts = _mounts_token(pod, shown, account)
    if mounts is None:
        pod = pod.with_holes(_token_holes(pod))
    elif mounts:
        pod = _with_token(pod, shown)
    return _with_pull_secrets(pod, shown, account)


def _mounts_token(pod: Known, shown: JSON, account: JSON | PartialObject | Missing | None) -> bool | None:
    """Return whether the token is mounted, None if unknown."""
    is_automounted = pod.value["spec"].get("automountServiceAccountToken")
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
    name = token_volume_name(spec) or token_volume_name((shown or {}).get("spec")) or VOLUME_PREFIX
    fields = with_token(spec, name)
    pod = pod.with_fields(("spec",), fields)
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
    if pod.value["spec"].get("imagePullSecrets"):
        return pod
    if shown is not None:
        secrets = (shown.get("spec") or {}).get("imagePullSecrets")
    else:
        secrets = None if account is None else field_of(account, "imagePullSecrets")
        if account is None or isinstance(secrets, Missing):
            return pod.with_holes([Hole(path, "the ServiceAccount is not known, which has the image pull secrets")])
    return pod.with_value(path, secrets) if secrets else pod

"""States after a write whose response is not the object: a binding, a scale, a PartialObjectMetadata."""

from __future__ import annotations

from datetime import UTC, datetime

from replay.json import JSON
from replay.kube.attributes import Basis, Missing
from replay.reconstruct.record.body import BodyShape
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.record.known import Hole, Known, get

MICROSECONDS = 1_000_000
TOPOLOGY = "topology.kubernetes.io/"
FINALIZERS = ("metadata", "finalizers")
_NOMINATED = ("status", "nominatedNodeName")


def after_binding(pod: Known, exchange: Exchange, following: JSON) -> Known | Missing:
    """Return a pod after `pods/binding`, which sets node, labels, annotations and PodScheduled (`BindingREST`).

    `following` is the next state in the log, None without one. It shows the topology labels that PodTopologyLabels
    copied from the node into the binding, the second of the condition, and whether the server clears the nominated node
    (gate ClearingNominatedNodeNameAfterBinding, on since Kubernetes 1.35).
    """
    binding = exchange.request.json
    node = get(binding, ("target", "name"))
    if not isinstance(node, str):
        return Missing(
            "",
            "the log has no request body for the binding of the pod to a node",
            "audit pods/binding at level Request",
        )
    state = pod.as_basis(Basis.RECONSTRUCTED).with_value(("spec", "nodeName"), node)
    for name in ("annotations", "labels"):
        added = get(binding, ("metadata", name))
        if added:
            path = ("metadata", name)
            state = state.with_value(path, {**(get(pod.value, path) or {}), **added})
    if get(state.value, _NOMINATED) and following is None:
        state = state.with_holes([Hole(_NOMINATED, "whether the server clears it with a binding is not known")])
    elif get(state.value, _NOMINATED) and not get(following, _NOMINATED):
        state = state.without(_NOMINATED)
    for name, label in (get(following, ("metadata", "labels")) or {}).items():
        if name.startswith(TOPOLOGY) and get(state.value, ("metadata", "labels", name)) != label:
            state = state.with_value(("metadata", "labels", name), label)
    return _scheduled(state, exchange, following).with_holes([_revision_hole()])


def _scheduled(state: Known, exchange: Exchange, following: JSON) -> Known:
    """Return a pod with a true PodScheduled condition (`podutil.UpdatePodCondition`).

    Its time is the second of the write.
    """
    path = ("status", "conditions")
    conditions = list(get(state.value, path) or [])
    indices = [index for index, condition in enumerate(conditions) if condition.get("type") == "PodScheduled"]
    # `UpdatePodCondition` keeps the transition time of a condition whose status stays, and replaces all other fields.
    if indices and conditions[indices[0]].get("status") == "True":
        changed = conditions[indices[0]].get("lastTransitionTime")
    else:
        shown = _scheduled_at(following)
        changed = shown or second(exchange.record.received)
    condition = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": changed}
    index = indices[0] if indices else len(conditions)
    # At the end of the list the slice is empty, so this appends.
    conditions[index : index + 1] = [condition]
    state = state.with_value(path, conditions)
    if (
        changed == second(exchange.record.received) != second(exchange.record.stage_time)
        and _scheduled_at(following) is None
    ):
        hole = Hole(
            (*path, index, "lastTransitionTime"), "the log does not show in which second the pod was bound to its node"
        )
        return state.with_holes([hole])
    return state


def _scheduled_at(following: JSON) -> str | None:
    """Return the time since which a later state says that the pod is scheduled, None if it does not."""
    for condition in get(following, ("status", "conditions")) or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "True":
            since = condition.get("lastTransitionTime")
            return since if isinstance(since, str) else None
    return None


def as_removed(exchange: Exchange | None) -> Known | None:
    """Return the object as a pod's removal last wrote it, None for removals that write nothing first."""
    if exchange is None or exchange.record.resource != "pods" or exchange.record.verb != "delete":
        return None
    if exchange.shape is not BodyShape.OBJECT:
        return None
    hole = Hole(
        ("metadata", "resourceVersion"),
        "the response of the deletion has a new resourceVersion, not that of the object before it",
    )
    return Known(exchange.response.json, Basis.RECONSTRUCTED, (hole,))


def after_scale(workload: Known, exchange: Exchange) -> Known | Missing:
    """Return a workload after a write of its `scale`, with the new replicas and the response's revision.

    All built-in kinds keep replicas in `spec.replicas`. A custom resource may declare another path.
    """
    scale = exchange.response.json
    kind = exchange.parent_kind
    if kind is None or kind.group not in ("apps", ""):
        return _after_custom_scale(workload, scale)
    replicas = get(scale, ("spec", "replicas")) or 0
    state = workload.as_basis(Basis.RECONSTRUCTED)
    # A write of the same number is no change of the spec, so the generation stays.
    if get(workload.value, ("spec", "replicas")) != replicas:
        state = state.with_value(("spec", "replicas"), replicas)
        generation = get(workload.value, ("metadata", "generation"))
        if isinstance(generation, int):
            state = state.with_value(("metadata", "generation"), generation + 1)
    state = state.with_value(("metadata", "resourceVersion"), get(scale, ("metadata", "resourceVersion")))
    return state.with_holes(
        [
            Hole(
                ("metadata", "managedFields"),
                "a write to the scale changed managedFields, and its response does not show them",
            )
        ]
    )


def _after_custom_scale(resource_state: Known, scale: JSON) -> Known:
    """Return a custom resource after a write of its `scale`.

    Its definition names the field of `spec`, which is not read here.
    """
    reason = "a write to the scale changed the object, and replay does not read where its CustomResourceDefinition stores the scale"
    holes = [Hole(path, reason) for path in (("spec",), ("metadata", "generation"), ("metadata", "managedFields"))]
    written = get(scale, ("metadata", "resourceVersion"))
    return (
        resource_state.as_basis(Basis.RECONSTRUCTED)
        .with_value(("metadata", "resourceVersion"), written)
        .with_holes(holes)
    )


def after_partial_metadata(obj: Known, exchange: Exchange) -> Known | Missing:
    """Return an object after a patch whose response is only its metadata.

    The rest is as before if the patch did not touch it.
    """
    patch = exchange.request.json
    if not isinstance(patch, dict) or set(patch) - {"metadata", "apiVersion", "kind"}:
        return Missing(
            "",
            "the log has only the metadata of the object for an earlier write",
            "audit writes to this resource at level RequestResponse",
        )
    return obj.as_basis(Basis.RECONSTRUCTED).with_value(("metadata",), exchange.response.metadata)


def being_deleted(state: Known, at: int) -> Known:
    """Return an object that is deleted at a time and kept by finalizers.

    Source: `registry.markAsDeleting`; `namespace/storage.REST.Delete`.
    """
    if get(state.value, ("metadata", "deletionTimestamp")):
        return state
    generation = get(state.value, ("metadata", "generation"))
    # Kinds that do not count generations have none. For all others a deletion counts as a change.
    if isinstance(generation, int) and generation > 0:
        state = state.with_value(("metadata", "generation"), generation + 1)
    if get(state.value, ("kind",)) == "Namespace":
        state = state.with_value(("status", "phase"), "Terminating")
    state = state.as_basis(Basis.RECONSTRUCTED).with_value(("metadata", "deletionTimestamp"), second(at))
    return state.with_value(("metadata", "deletionGracePeriodSeconds"), 0).with_holes([_revision_hole()])


def second(microseconds: int) -> str:
    """Return a time as `metav1.Time` prints it: whole seconds, UTC."""
    return datetime.fromtimestamp(microseconds // MICROSECONDS, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def instant(text: JSON) -> int:
    """Return the microseconds of a `metav1.Time`; the epoch for other texts."""
    try:
        return int(datetime.fromisoformat(text).timestamp()) * MICROSECONDS
    except (TypeError, ValueError):
        return 0


def _revision_hole() -> Hole:
    return Hole(("metadata", "resourceVersion"), "the log does not have the resourceVersion after an earlier write")


def scale_of(workload: Known) -> Known | Missing:
    """Return the Scale of a built-in workload.

    Source: `pkg/registry/apps/deployment/storage.scaleFromDeployment` and similar functions.
    """
    body = workload.value
    if not isinstance(body, dict):
        return Missing("", "replay cannot derive the Scale from the object")
    if body.get("kind") not in SCALED:
        return _custom_scale(body, workload)
    if any(hole.path[:1] != ("metadata",) for hole in workload.holes):
        return Missing("", "only parts of the scaled object are known")
    metadata = body.get("metadata") or {}
    copied_fields = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    scale: dict[str, JSON] = {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: metadata[name] for name in copied_fields if name in metadata},
        "spec": {},
        "status": {"replicas": get(body, ("status", "replicas")) or 0},
    }
    replicas = get(body, ("spec", "replicas"))
    # A Scale omits zero replicas (`ScaleSpec`).
    if replicas:
        scale["spec"]["replicas"] = replicas
    selector = _selector(get(body, ("spec", "selector")))
    if selector:
        scale["status"]["selector"] = selector
    holes = [Hole(("metadata", "managedFields"), "the log does not show the managedFields of a Scale")]
    holes += [hole for hole in workload.holes if hole.path == ("metadata", "resourceVersion")]
    return Known(scale, Basis.RECONSTRUCTED, tuple(holes))


def _custom_scale(body: JSON, workload: Known) -> Known:
    """Return the Scale of a custom resource (`apiextensions-apiserver`, `scaleFromCustomResource`).

    Its definition says where the replicas are; that is not read, so that spec and status are unknown.
    """
    metadata = body.get("metadata") or {}
    copied_fields = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    reason = "replay does not read where the CustomResourceDefinition stores the scale"
    holes = [Hole((part,), reason) for part in ("spec", "status")]
    holes += [Hole(("metadata", "managedFields"), "the log does not show the managedFields of a Scale")]
    holes += [
        hole for hole in workload.holes if hole.path[:1] == ("metadata",) and hole.path[1:2] != ("managedFields",)
    ]
    scale = {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: metadata[name] for name in copied_fields if name in metadata},
        "spec": {},
        "status": {},
    }
    return Known(scale, Basis.RECONSTRUCTED, tuple(holes))


SCALED = frozenset({"Deployment", "ReplicaSet", "StatefulSet", "ReplicationController"})
_OPERATORS = {"In": "in", "NotIn": "notin"}


def _selector(selector: JSON) -> str:
    """Return a label selector as `labels.Selector.String` prints it: requirements sorted by key."""
    if not isinstance(selector, dict):
        return ""
    # The selector of a ReplicationController is a plain map.
    if "matchLabels" not in selector and "matchExpressions" not in selector:
        return ",".join(f"{key}={value}" for key, value in sorted(selector.items()))
    parts = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    for requirement in selector.get("matchExpressions") or ():
        key, operator = requirement["key"], requirement["operator"]
        values = ",".join(sorted(requirement.get("values") or ()))
        if operator in _OPERATORS:
            parts.append((key, f"{key} {_OPERATORS[operator]} ({values})"))
        else:
            parts.append((key, key if operator == "Exists" else f"!{key}"))
    return ",".join(text for _, text in sorted(parts, key=lambda part: part[0]))

"""Additions of RuntimeClass and PodTopologyLabels to a new pod, from its runtime class and its node.

Source: `plugin/pkg/admission/runtimeclass/admission.go` and `plugin/pkg/admission/podtopologylabels/admission.go`. The
additions come from the response if there is one, then from the cluster's state; otherwise they are holes.
"""

from __future__ import annotations

from typing import Final

from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject
from replay.kube.gvk import GroupVersionKind
from replay.kube.lister import Lister
from replay.reconstruct.record.known import Hole, Known, get

_RUNTIME_CLASS: Final = GroupVersionKind("node.k8s.io", "v1", "RuntimeClass")
_NODE: Final = GroupVersionKind("", "v1", "Node")
_LABELS: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


def with_runtime_class(pod: Known, shown: JSON, lister: Lister) -> Known:
    """Return a pod after RuntimeClass: with overhead, node selector and tolerations of its class."""
    name = get(pod.value, ("spec", "runtimeClassName"))
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
        fields["nodeSelector"] = {**selector, **(own.get("nodeSelector") or {})}
    tolerations = own.get("tolerations") or []
    if more := [each for each in scheduling.get("tolerations") or () if each not in tolerations]:
        fields["tolerations"] = [*tolerations, *more]
    return pod.with_fields(("spec",), fields) if fields else pod


def with_topology_labels(pod: Known, shown: JSON, lister: Lister) -> Known:
    """Return a pod after PodTopologyLabels: with zone and region of its node, if it names one."""
    name = get(pod.value, ("spec", "nodeName"))
    if not name:
        return pod
    # The stored pod has the copied labels, so the node is looked up only without it.
    source = shown if shown is not None else lister.get(_NODE, "", name)
    if isinstance(source, (Missing, PartialObject)):
        reason = f"the labels of the node `{name}` are not known"
        return pod.with_holes([Hole(("metadata", "labels", label), reason) for label in _LABELS])
    labels = get(source, ("metadata", "labels")) or {}
    zone_labels = {label: labels[label] for label in _LABELS if label in labels}
    return pod.with_fields(("metadata", "labels"), zone_labels) if zone_labels else pod

"""PodTopologyLabels (`plugin/pkg/admission/podtopologylabels/admission.go`): zone and region of the node, as labels."""

from __future__ import annotations

from typing import Final

from replay.admission.builtin.plugin import CREATE, Plugin, Refusal, Review, known
from replay.json import JSON
from replay.kube.gvk import GroupVersionKind

_NODE: Final = GroupVersionKind("", "v1", "Node")
_LABELS: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


class PodTopologyLabels(Plugin):
    """Labels a pod that names its node, and the binding of a pod to a node. A missing node gives no labels."""

    name = "PodTopologyLabels"
    refuses = False
    operations = CREATE
    concerns = (("", ("pods", "pods/binding")),)
    looks_up = (("", "Node"),)

    def admit(self, review: Review) -> Refusal | None:
        """Copy the node's labels over those of the object."""
        if not review.is_resource("", "pods", "", "binding"):
            return None
        obj = review.object
        if review.attributes.subresource:
            target = obj.get("target") or {}
            name = target.get("name") if target.get("kind") == "Node" else None
        else:
            name = (obj.get("spec") or {}).get("nodeName")
        if name and (labels := _labels_of(review, name)):
            metadata = obj.setdefault("metadata", {})
            metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
        return None


def _labels_of(review: Review, name: str) -> JSON:
    node = known(review.cluster.get(_NODE, "", name))
    labels = ((node or {}).get("metadata") or {}).get("labels") or {}
    return {label: labels[label] for label in _LABELS if label in labels}

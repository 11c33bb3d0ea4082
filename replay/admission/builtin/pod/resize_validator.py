"""PodResizeValidator: a resize must fit on the node, which must run Linux.

Source: `plugin/pkg/admission/podresize/admission.go`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from replay.admission.builtin.plugin import Plugin, Refusal, Review, known
from replay.admission.builtin.pod.resources import Amounts, add, amounts, pod_amounts
from replay.go.format import quote
from replay.json import JSON
from replay.kube.attributes import Operation
from replay.kube.gvk import GroupVersionKind
from replay.kube.quantity import Quantity

_NODE: Final = GroupVersionKind("", "v1", "Node")
_SYSTEM: Final = "kubernetes.io/os"
_NOTHING: Final = Quantity(0, text="0")


class PodResizeValidator(Plugin):
    """Checks only bound pods whose generation shows a changed spec."""

    name = "PodResizeValidator"
    operations = frozenset({Operation.UPDATE})
    concerns = (("", ("pods/resize",)),)
    looks_up = (("", "Node"),)

    def validate(self, review: Review) -> Refusal | None:
        """Refuse a resize that does not fit."""
        if not review.is_resource("", "pods", "resize"):
            return None
        pod, old = review.object, review.old_object
        name = (pod.get("spec") or {}).get("nodeName")
        if not name or _generation(pod) == _generation(old):
            return None
        node = known(review.cluster.get(_NODE, "", name))
        if node is None:
            return review.forbidden(f"node {quote(name)} not found")
        system = ((node.get("metadata") or {}).get("labels") or {}).get(_SYSTEM, "linux")
        if system != "linux":
            return review.forbidden(
                f"pod resize is only supported on linux nodes, node {quote(name)} is {quote(system)}"
            )
        lacking = "; ".join(_lacking(pod["spec"], amounts((node.get("status") or {}).get("allocatable"))))
        return review.forbidden(f"node didn't have enough allocatable resources: {lacking}") if lacking else None


def _generation(pod: JSON) -> int:
    return int((pod.get("metadata") or {}).get("generation") or 0)


def _lacking(spec: JSON, allocatable: Amounts) -> Iterator[str]:
    """Yield resources that the pod requests and the node lacks; CPU in thousandths."""
    requests = pod_amounts(spec, "requests")
    add(requests, amounts(spec.get("overhead")))
    for name, scale in (("cpu", -3), ("memory", 0)):
        request, there = requests.get(name, _NOTHING), allocatable.get(name, _NOTHING)
        if request.compare(there) > 0:
            yield f"{name}, requested: {request.rounded_up(scale)}, allocatable: {there.rounded_up(scale)}"

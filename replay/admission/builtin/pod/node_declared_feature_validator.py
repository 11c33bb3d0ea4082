"""NodeDeclaredFeatureValidator: node features that an update needs.

`InferForUpdate` of `k8s.io/component-helpers/nodedeclaredfeatures/features` says which change of a pod needs which
feature. Its rule about ResourceSlices is behind the gate DRANodeAllocatableResources, which is off.

Source: `plugin/pkg/admission/nodedeclaredfeatures/admission.go`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from replay.admission.builtin.plugin import CREATE_UPDATE, Plugin, Refusal, Review, known
from replay.admission.builtin.pod.resources import Amounts, amounts
from replay.go.format import quote
from replay.json import JSON
from replay.kube.attributes import Operation
from replay.kube.gvk import GroupVersionKind
from replay.kube.quantity import parse_quantity

_NODE: Final = GroupVersionKind("", "v1", "Node")


def _resizes_pod(old: JSON, new: JSON) -> bool:
    """Return whether the pod-level resources change (`pod_level_resource_resize.go`).

    Amounts are compared, not spellings.
    """
    old_resources, after = old.get("resources"), new.get("resources")
    if old_resources is None or after is None:
        return old_resources is not after
    kinds = ("requests", "limits")
    is_other = any(_differ(amounts(old_resources.get(kind)), amounts(after.get(kind))) for kind in kinds)
    return is_other or (old_resources.get("claims") or []) != (after.get("claims") or [])


def _differ(current: Amounts, after: Amounts) -> bool:
    """Return whether two resource lists differ in a name or an amount."""
    return current.keys() != after.keys() or any(value.compare(after[name]) for name, value in current.items())


def _resizes_init_container(old: JSON, new: JSON) -> bool:
    """Return whether an init container that is not a sidecar changes its resources.

    Source: `nonsidecar_initcontainers_resize.go`.
    """
    return any(
        container.get("restartPolicy") != "Always"
        and (container.get("resources") or {}) != (new["initContainers"][place].get("resources") or {})
        for place, container in enumerate(old.get("initContainers") or ())
    )


def _resizes_memory_volume(old: JSON, new: JSON) -> bool:
    """Return whether a volume in memory gets another limit (`memory_backed_volumes_resize.go`)."""
    old_volumes, after = old.get("volumes") or [], new.get("volumes") or []
    if len(old_volumes) != len(after):
        return False
    for one, other in zip(old_volumes, after, strict=True):
        limit, volume = (other.get("emptyDir") or {}).get("sizeLimit"), other.get("emptyDir") or {}
        if one["name"] != other["name"] or volume.get("medium") != "Memory" or limit is None:
            continue
        limit_before = one["emptyDir"].get("sizeLimit")
        if limit_before is not None and parse_quantity(str(limit)).compare(parse_quantity(str(limit_before))):
            return True
    return False


_FEATURES: Final[tuple[tuple[str, Callable[[JSON, JSON], bool]], ...]] = (
    ("InPlacePodLevelResourcesVerticalScaling", _resizes_pod),
    ("InPlacePodVerticalScalingInitContainers", _resizes_init_container),
    ("InPlacePodVerticalScalingMemoryBackedVolumes", _resizes_memory_volume),
)
"""Features that an update may need, by name, with a function of the old and new spec that says whether it does."""


class NodeDeclaredFeatureValidator(Plugin):
    """Checks only bound pods whose generation shows a changed spec."""

    name = "NodeDeclaredFeatureValidator"
    operations = CREATE_UPDATE
    concerns = (("", ("pods", "pods/resize")),)
    looks_up = (("", "Node"),)

    def validate(self, review: Review) -> Refusal | None:
        """Refuse an update that needs a feature which the pod's node does not declare."""
        is_update = review.attributes.operation is Operation.UPDATE
        if not is_update or not review.is_resource("", "pods", "", "resize"):
            return None
        pod, old = review.object, review.old_object
        name = (pod.get("spec") or {}).get("nodeName")
        if not name or _generation(pod) == _generation(old):
            return None
        needed = [feature for feature, is_needed in _FEATURES if is_needed(old["spec"], pod["spec"])]
        if not needed:
            return None
        node = known(review.cluster.get(_NODE, "", name))
        if node is None:
            return review.forbidden(f"node {quote(name)} not found")
        declared = (node.get("status") or {}).get("declaredFeatures") or ()
        lacking = ", ".join(feature for feature in needed if feature not in declared)
        text = f"pod update requires features {lacking} which are not available on node {quote(name)}"
        return review.forbidden(text) if lacking else None


def _generation(pod: JSON) -> int:
    return int((pod.get("metadata") or {}).get("generation") or 0)

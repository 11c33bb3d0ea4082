"""Plugins about where a pod runs.

PodNodeSelector: node selectors by namespace. LimitPodHardAntiAffinityTopology: required anti-affinity only by host.
PodTopologyLabels: zone and region of the node, as labels. NodeDeclaredFeatureValidator: node features that an update
needs. `InferForUpdate` of `k8s.io/component-helpers/nodedeclaredfeatures/features` says which change of a pod needs which
feature. Its rule about ResourceSlices is behind the gate DRANodeAllocatableResources, which is off.

Sources: `plugin/pkg/admission/{podnodeselector,antiaffinity,podtopologylabels,nodedeclaredfeatures}/admission.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from replay.admission.builtin.plugin import (
    CREATE,
    CREATE_UPDATE,
    Plugin,
    Refusal,
    Review,
    internal_error,
    known,
    plain_error,
)
from replay.admission.builtin.pod.resources import Amounts, amounts
from replay.admission.builtin.storage import annotations_of
from replay.go.format import quote
from replay.json import JSON
from replay.kube.attributes import Operation
from replay.kube.gvk import GroupVersionKind
from replay.kube.names import label_value, qualified_name
from replay.kube.pod import generation_of
from replay.kube.quantity import parse_quantity

_ANNOTATION = "scheduler.alpha.kubernetes.io/node-selector"
_DEFAULT = "clusterDefaultNodeSelector"
_CONFLICT = "pod node label selector conflicts with its namespace node label selector"
_NOT_ALLOWED = "pod node label selector labels conflict with its namespace whitelist"


class _SelectorError(ValueError):
    """A selector that cannot be parsed."""


class PodNodeSelector(Plugin):
    """The namespace's annotation, even if empty, overrides the cluster default. Then the allowed list applies."""

    name = "PodNodeSelector"
    operations = CREATE
    concerns = (("", ("pods",)),)
    looks_up = (("", "Namespace"),)

    def __init__(self, selectors: Mapping[str, str]) -> None:
        """`selectors` are those of each namespace, and the default under its own key."""
        self._selectors = selectors

    @classmethod
    def configured(cls, configuration: JSON | None, flags: Mapping[str, str]) -> PodNodeSelector:
        """See `Plugin.configured`. The server ignores invalid values."""
        del flags
        document = (configuration or {}).get("podNodeSelectorPluginConfig") or {}
        return cls({str(key): str(value or "") for key, value in document.items()})

    def admit(self, review: Review) -> Refusal | None:
        """Merge the namespace's selector into the pod's, then check the result like `validate`."""
        if not review.is_resource("", "pods"):
            return None
        try:
            selector = self._namespace_selector(review)
        except _SelectorError as error:
            return plain_error(str(error))
        if isinstance(selector, Refusal):
            return selector
        own = review.object["spec"].get("nodeSelector") or {}
        if _conflict(selector, own):
            return review.forbidden(_CONFLICT, review.own_name)
        if selector:
            # Without a conflict, the order does not matter.
            review.object["spec"]["nodeSelector"] = {**selector, **own}
        return self.validate(review)

    def validate(self, review: Review) -> Refusal | None:
        """Refuse a selector that conflicts with the namespace's or has labels that the namespace may not use."""
        if not review.is_resource("", "pods"):
            return None
        try:
            selector = self._namespace_selector(review)
            if isinstance(selector, Refusal):
                return selector
            own = review.object["spec"].get("nodeSelector") or {}
            if _conflict(selector, own):
                return review.forbidden(_CONFLICT, review.own_name)
            allowed = _labels(self._selectors.get(review.attributes.namespace, ""))
        except _SelectorError as error:
            return plain_error(str(error))
        # An empty list allows every label.
        if allowed and not own.items() <= allowed.items():
            return review.forbidden(_NOT_ALLOWED, review.own_name)
        return None

    def _namespace_selector(self, review: Review) -> Mapping[str, str] | Refusal:
        name = review.attributes.namespace
        namespace = known(review.cluster.namespace(name))
        if namespace is None:
            return internal_error(f"namespace {name} does not exist")
        annotations = annotations_of(namespace)
        return _labels(annotations[_ANNOTATION] if _ANNOTATION in annotations else self._selectors.get(_DEFAULT, ""))


def _conflict(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    return any(other.get(key, value) != value for key, value in one.items())


def _labels(selector: str) -> dict[str, str]:
    """Return the labels of a selector: `key=value` pairs, separated by commas (`labels.ConvertSelectorToLabelsMap`)."""
    labels: dict[str, str] = {}
    for pair in selector.split(",") if selector else ():
        parts = pair.split("=")
        if len(parts) != 2:
            raise _SelectorError(f"invalid selector: [{' '.join(parts)}]")
        key, value = (part.strip() for part in parts)
        if messages := qualified_name(key):
            raise _SelectorError(f'<nil>: Invalid value: "{key}": {"; ".join(messages)}')
        if messages := label_value(value):
            raise _SelectorError(f'[{key}]: Invalid value: "{value}": {"; ".join(messages)}')
        labels[key] = value
    return labels


_HOSTNAME = "kubernetes.io/hostname"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class LimitPodHardAntiAffinityTopology(Plugin):
    """Names only the first term with another topology key, and the pod by its own name, which may be empty."""

    name = "LimitPodHardAntiAffinityTopology"
    operations = CREATE_UPDATE
    concerns = (("", ("pods",)),)

    def validate(self, review: Review) -> Refusal | None:
        """Refuse a required term with a topology key other than the host."""
        if not review.is_resource("", "pods"):
            return None
        affinity = review.object["spec"].get("affinity") or {}
        for term in (affinity.get("podAntiAffinity") or {}).get(_REQUIRED) or ():
            key = term.get("topologyKey") or ""
            if key != _HOSTNAME:
                message = (
                    f"affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey {key} "
                    f"but only key {_HOSTNAME} is allowed"
                )
                return review.forbidden(message, review.own_name)
        return None


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
        if not name or generation_of(pod) == generation_of(old):
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

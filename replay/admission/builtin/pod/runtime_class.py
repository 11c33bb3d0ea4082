"""RuntimeClass (`plugin/pkg/admission/runtimeclass/admission.go`): overhead and scheduling of a pod's runtime class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from replay.admission.builtin.plugin import CREATE, Plugin, Refusal, Review, known
from replay.admission.builtin.pod.toleration import merged_tolerations
from replay.json import JSON
from replay.kube.gvk import GroupVersionKind
from replay.kube.quantity import parse_quantity

RUNTIME_CLASS: Final = GroupVersionKind("node.k8s.io", "v1", "RuntimeClass")
_OTHER_OVERHEAD = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
_OVERHEAD_ALONE = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"


class RuntimeClass(Plugin):
    """Gives a pod the overhead, node selector and tolerations of the class that it names."""

    name = "RuntimeClass"
    operations = CREATE
    concerns = (("", ("pods",)),)
    looks_up = (("node.k8s.io", "RuntimeClass"),)

    def admit(self, review: Review) -> Refusal | None:
        """Set overhead and scheduling; refuse a pod that contradicts the class."""
        if not review.is_resource("", "pods"):
            return None
        runtime_class = _runtime_class(review)
        if isinstance(runtime_class, Refusal) or runtime_class is None:
            return runtime_class
        return _set_overhead(review, runtime_class) or _set_scheduling(review, runtime_class)

    def validate(self, review: Review) -> Refusal | None:
        """Refuse an overhead other than that of the class."""
        if not review.is_resource("", "pods"):
            return None
        runtime_class = _runtime_class(review)
        if isinstance(runtime_class, Refusal):
            return runtime_class
        overhead = review.object["spec"].get("overhead")
        if runtime_class is not None and runtime_class.get("overhead") is not None:
            return None if _same(_pod_fixed(runtime_class), overhead) else review.forbidden(_OTHER_OVERHEAD)
        return None if overhead is None else review.forbidden(_OVERHEAD_ALONE)


def _runtime_class(review: Review) -> JSON | Refusal | None:
    name = review.object["spec"].get("runtimeClassName")
    # An empty name is a class that is looked up, and not found.
    if name is None:
        return None
    runtime_class = known(review.cluster.get(RUNTIME_CLASS, "", name))
    return (
        review.forbidden(f'pod rejected: RuntimeClass "{name}" not found') if runtime_class is None else runtime_class
    )


def _pod_fixed(runtime_class: JSON) -> Mapping[str, str] | None:
    return (runtime_class.get("overhead") or {}).get("podFixed")


def _same(one: Mapping[str, str] | None, other: Mapping[str, str] | None) -> bool:
    """Return whether two resource lists have equal amounts, however they are written."""
    one, other = one or {}, other or {}
    return one.keys() == other.keys() and all(
        parse_quantity(str(value)).compare(parse_quantity(str(other[key]))) == 0 for key, value in one.items()
    )


def _set_overhead(review: Review, runtime_class: JSON) -> Refusal | None:
    if runtime_class.get("overhead") is None:
        return None
    spec, fixed = review.object["spec"], _pod_fixed(runtime_class)
    if spec.get("overhead") and not _same(fixed, spec["overhead"]):
        return review.forbidden(_OTHER_OVERHEAD)
    if fixed:
        spec["overhead"] = dict(fixed)
    return None


def _set_scheduling(review: Review, runtime_class: JSON) -> Refusal | None:
    scheduling = runtime_class.get("scheduling")
    if scheduling is None:
        return None
    spec, selector = review.object["spec"], scheduling.get("nodeSelector") or {}
    own = spec.get("nodeSelector") or {}
    for key, value in selector.items():
        if own.get(key, value) != value:
            return review.forbidden(
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                f"pod.spec.nodeSelector[{key}] = {own[key]}"
            )
    if selector:
        spec["nodeSelector"] = {**own, **selector}
    if tolerations := merged_tolerations(spec.get("tolerations") or [], scheduling.get("tolerations") or []):
        spec["tolerations"] = tolerations
    return None

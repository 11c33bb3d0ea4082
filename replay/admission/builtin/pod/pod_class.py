"""Plugins about the classes of a pod: its priority number, and the overhead and scheduling of its runtime class.

Sources: `plugin/pkg/admission/{priority,runtimeclass}/admission.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from replay.admission.builtin.plugin import CREATE, WRITES, Plugin, Refusal, Review, known
from replay.admission.builtin.pod.toleration import merged_tolerations
from replay.json import JSON
from replay.kube.attributes import Operation
from replay.kube.gvk import GroupVersionKind
from replay.kube.plugin import PREEMPT, PRIORITY_CLASS, global_default
from replay.kube.quantity import parse_quantity


class _Established(NamedTuple):
    """Result of a pod's priority class."""

    class_name: str
    priority: int
    preemption_policy: str | None


class Priority(Plugin):
    """Requires that a pod's number is that of its class. Without a class, the global default or 0 applies.

    Pod groups pass: their feature gate is off.
    """

    name = "Priority"
    operations = WRITES
    concerns = (("", ("pods",)), ("scheduling.k8s.io", ("priorityclasses",)))
    looks_up = (("scheduling.k8s.io", "PriorityClass"),)

    def admit(self, review: Review) -> Refusal | None:
        """Set priority, class and preemption policy of a new pod. An update keeps those of the old pod."""
        if not review.is_resource("", "pods"):
            return None
        if review.attributes.operation is Operation.CREATE:
            return _admit_pod(review)
        if review.attributes.operation is Operation.UPDATE:
            old = review.old_object["spec"]
            # The fields are immutable, so an update without them would fail validation.
            for field in ("priority", "preemptionPolicy"):
                if review.object["spec"].get(field) is None and old.get(field) is not None:
                    review.object["spec"][field] = old[field]
        return None

    def validate(self, review: Review) -> Refusal | None:
        """Refuse a second global default."""
        is_class = review.is_resource("scheduling.k8s.io", "priorityclasses")
        operation = review.attributes.operation
        if not is_class or operation is Operation.DELETE or not review.object.get("globalDefault"):
            return None
        default = _default_class(review)
        if default is None or (operation is Operation.UPDATE and _name(default) == _name(review.object)):
            return None
        return review.forbidden(
            f"PriorityClass {_name(default)} is already marked as default. Only one default can exist"
        )


def _admit_pod(review: Review) -> Refusal | None:
    spec = review.object["spec"]
    class_priority = _established(review, spec.get("priorityClassName") or "")
    if class_priority is None:
        return review.forbidden(f"no PriorityClass with name {spec['priorityClassName']} was found")
    if class_priority.class_name:
        spec["priorityClassName"] = class_priority.class_name
    priority = spec.get("priority")
    if priority is not None and priority != class_priority.priority:
        return review.forbidden(
            f"the integer value of priority ({priority}) must not be provided in pod spec; "
            f"priority admission controller computed {class_priority.priority} from the given PriorityClass name"
        )
    spec["priority"] = class_priority.priority
    if class_priority.preemption_policy is not None:
        policy = spec.get("preemptionPolicy")
        if policy is not None and policy != class_priority.preemption_policy:
            return review.forbidden(
                f"the string value of PreemptionPolicy ({policy}) must not be provided in pod spec; "
                f"priority admission controller computed {class_priority.preemption_policy} from the given PriorityClass name"
            )
        spec["preemptionPolicy"] = class_priority.preemption_policy
    return None


def _established(review: Review, name: str) -> _Established | None:
    """Return the result of a class, or of the default if none is named, or None for a missing class."""
    if name:
        named = known(review.cluster.get(PRIORITY_CLASS, "", name))
        return None if named is None else _Established(name, named.get("value") or 0, named.get("preemptionPolicy"))
    default = _default_class(review)
    if default is None:
        return _Established("", 0, PREEMPT)
    return _Established(_name(default), default.get("value") or 0, default.get("preemptionPolicy"))


def _default_class(review: Review) -> JSON | None:
    return global_default(known(review.cluster.list(PRIORITY_CLASS)))


def _name(obj: JSON) -> str:
    return str(obj["metadata"]["name"])


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

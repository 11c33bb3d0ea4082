"""Priority (`plugin/pkg/admission/priority/admission.go`): the priority number of a pod, from its class."""

from __future__ import annotations

from typing import NamedTuple

from replay.admission.builtin.plugin import WRITES, Plugin, Refusal, Review, known
from replay.json import JSON
from replay.kube.attributes import Operation
from replay.kube.plugin import PREEMPT, PRIORITY_CLASS, global_default


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

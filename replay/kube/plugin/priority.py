"""The PriorityClass of a pod (`plugin/pkg/admission/priority/admission.go`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from replay.json import JSON
from replay.kube.gvk import GroupVersionKind

PRIORITY_CLASS: Final = GroupVersionKind("scheduling.k8s.io", "v1", "PriorityClass")
FIELDS: Final = ("priorityClassName", "priority", "preemptionPolicy")
"""The fields of a pod's spec that the plugin sets."""
PREEMPT: Final = "PreemptLowerPriority"
"""The preemption policy of a pod without a class, and of a class that states none."""
SYSTEM_CLASSES: Final[Mapping[str, JSON]] = {
    "system-cluster-critical": {"value": 2_000_000_000, "preemptionPolicy": PREEMPT},
    "system-node-critical": {"value": 2_000_001_000, "preemptionPolicy": PREEMPT},
}
"""The classes that the server creates when it starts. They cannot be changed."""


def global_default(classes: Iterable[JSON]) -> JSON | None:
    """Return the global default class. Of several, it is the one with the lowest value, then the first in the list."""
    marked = [each for each in classes if each.get("globalDefault")]
    return min(marked, key=lambda each: each.get("value") or 0, default=None)

"""Additions to every new object: StorageObjectInUseProtection and TaintNodesByCondition.

Sources: `plugin/pkg/admission/storage/storageobjectinuseprotection`, `plugin/pkg/admission/nodetaint`.
"""

from __future__ import annotations

from typing import Final

from replay.json import JSON
from replay.kube.plugin.toleration import NOT_READY

FINALIZERS: Final = {
    ("", "persistentvolumes"): "kubernetes.io/pv-protection",
    ("", "persistentvolumeclaims"): "kubernetes.io/pvc-protection",
    ("storage.k8s.io", "volumeattributesclasses"): "kubernetes.io/vac-protection",
}
"""Finalizer of objects that stay while they are in use, by group and resource."""
_TAINT: Final = {"key": NOT_READY, "effect": "NoSchedule"}


def with_finalizer(metadata: JSON, finalizer: str) -> dict[str, JSON]:
    """Return the changed field of the metadata, empty if nothing changes."""
    finalizers = metadata.get("finalizers") or ()
    return {} if finalizer in finalizers else {"finalizers": [*finalizers, finalizer]}


def with_not_ready_taint(spec: JSON) -> dict[str, JSON]:
    """Return the changed field of a node's spec, empty if nothing changes.

    A taint of that key and effect stays as it is.
    """
    taints = spec.get("taints") or ()
    has_it = any((each.get("key"), each.get("effect")) == tuple(_TAINT.values()) for each in taints)
    return {} if has_it else {"taints": [*taints, dict(_TAINT)]}

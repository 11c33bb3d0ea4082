"""A Namespace as Gatekeeper's client holds it: through Go's type, which has no other fields and no null ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from replay.json import JSON

_METADATA = (
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
)


def typed_namespace(value: Mapping[str, JSON]) -> dict[str, Any]:
    """The object after decoding and encoding (`k8s.io/api/core/v1.Namespace`)."""
    metadata = {
        name: item for name in _METADATA if (item := (value.get("metadata") or {}).get(name)) not in (None, "", {}, [])
    }
    spec, status = value.get("spec") or {}, value.get("status") or {}
    return {
        "kind": "Namespace",
        "apiVersion": "v1",
        "metadata": metadata,
        "spec": {"finalizers": spec["finalizers"]} if spec.get("finalizers") else {},
        "status": {name: status[name] for name in ("phase", "conditions") if status.get(name)},
    }

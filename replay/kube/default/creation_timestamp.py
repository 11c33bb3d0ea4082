"""`metadata.creationTimestamp` without a value.

It is null until Kubernetes 1.33, and absent since then (apimachinery `omitzero`).
"""

from __future__ import annotations

from typing import Any

from replay.kube.attributes import PartialObject

WRITTEN_UNTIL = 33
"""The last minor version whose Go types write a zero time."""


def with_creation_timestamps(value: Any) -> Any:
    """Return an object of a built-in kind, or a part of one, with null for each unset `creationTimestamp`.

    In built-in kinds, a field `metadata` is always object metadata: their own, or that of a pod, job or claim template.
    Unchanged parts are not copied.
    """
    if isinstance(value, PartialObject):
        return PartialObject(with_creation_timestamps(value.value), value.missing)
    if isinstance(value, list):
        items = [with_creation_timestamps(item) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    if not isinstance(value, dict):
        return value
    changed = {}
    for name, inner in value.items():
        new = with_creation_timestamps(inner)
        if name == "metadata" and isinstance(new, dict) and "creationTimestamp" not in new:
            new = {**new, "creationTimestamp": None}
        if new is not inner:
            changed[name] = new
    return {**value, **changed} if changed else value

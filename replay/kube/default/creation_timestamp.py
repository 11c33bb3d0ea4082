"""`metadata.creationTimestamp` where it is not set: null until Kubernetes 1.33, absent since (apimachinery `omitzero`)."""

from __future__ import annotations

from typing import Any

from replay.kube.attributes import PartialObject

WRITTEN_UNTIL = 33
"""The last minor whose Go types write a time that is zero."""


def with_creation_timestamps(value: Any) -> Any:
    """An object of a built-in kind, or a part of one, with all its `creationTimestamp`s, null where they are not set.

    Built-in kinds have no field `metadata` but for object metadata: their own, and that of pods, jobs and claims that they are
    templates of. What does not change is not copied.
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

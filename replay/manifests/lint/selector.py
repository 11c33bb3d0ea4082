"""Matching of selectors for warnings. Requests are matched by `replay.matching`."""

from __future__ import annotations

from replay.json import JSON


def selects(selector: JSON, obj: JSON) -> bool:
    """Return whether a valid label selector matches an object by its labels."""
    labels = (obj.get("metadata") or {}).get("labels") or {}
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_fits(requirement, labels) for requirement in selector.get("matchExpressions") or ())


def _fits(requirement: JSON, labels: dict[str, str]) -> bool:
    key, values = requirement["key"], requirement.get("values") or ()
    match requirement["operator"]:
        case "In":
            return key in labels and labels[key] in values
        case "NotIn":
            return key not in labels or labels[key] not in values
        case "Exists":
            return key in labels
    return key not in labels

"""Owner of a namespace: the value of one of its labels."""

from __future__ import annotations

from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject
from replay.kube.gvk import GroupVersionKind
from replay.kube.lister import Lister

OWNER_LABEL = "team"
"""The label that is read by default."""
_NAMESPACE = GroupVersionKind("", "v1", "Namespace")


def owner(namespace: str, label: str, lister: Lister) -> str:
    """Return the value of a namespace's label at a lister's time. It is empty if the label is absent or unknown."""
    return owner_of(lister.get(_NAMESPACE, "", namespace), label) if namespace else ""


def owner_of(namespace_object: JSON | PartialObject | Missing | None, label: str) -> str:
    """Return the value of a namespace's label. It is empty if the label is absent or unknown."""
    metadata = namespace_object.get("metadata") if label and isinstance(namespace_object, dict) else None
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    value = labels.get(label) if isinstance(labels, dict) else None
    return value if isinstance(value, str) else ""

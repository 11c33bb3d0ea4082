"""Who owns a namespace: what one of its labels says."""

from __future__ import annotations

from replay.kube.gvk import GroupVersionKind
from replay.kube.lister import Lister

OWNER_LABEL = "team"
"""The label that is read where no other is named."""
_NAMESPACE = GroupVersionKind("", "v1", "Namespace")


def owner(namespace: str, label: str, lister: Lister) -> str:
    """The value of a namespace's label at the instant of a lister; empty where there is none, or it is not known."""
    if not (namespace and label):
        return ""
    namespace_object = lister.get(_NAMESPACE, "", namespace)
    metadata = namespace_object.get("metadata") if isinstance(namespace_object, dict) else None
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    value = labels.get(label) if isinstance(labels, dict) else None
    return value if isinstance(value, str) else ""

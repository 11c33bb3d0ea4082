"""`namespaceObject` of CEL (`k8s.io/apiserver/pkg/admission/plugin/cel.CreateNamespaceObject`)."""

from __future__ import annotations

from typing import Any

from replay.json import JSON
from replay.kube.attributes import Attributes, Missing, PartialObject
from replay.kube.gvk import GroupVersionKind

NAMESPACE_KIND = GroupVersionKind("", "v1", "Namespace")

_METADATA = frozenset(
    {
        "name",
        "generateName",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "labels",
        "annotations",
        "finalizers",
    }
)


def namespace_object(attributes: Attributes) -> JSON | PartialObject | Missing | None:
    """Return the namespace for expressions: some metadata, `spec` and `status`.

    It is null for cluster-scoped requests and, by a rule of the dispatchers, for requests about Namespaces. For a
    missing namespace the server answers 404 elsewhere, so here it is unknown.
    """
    if not attributes.namespace or attributes.kind == NAMESPACE_KIND:
        return None
    namespace = attributes.namespace_object
    if namespace is None:
        return Missing("namespaceObject", f"no namespace `{attributes.namespace}` is known at the time of the request")
    if isinstance(namespace, Missing):
        return namespace
    if isinstance(namespace, PartialObject):
        return PartialObject(_exposed(namespace.value), namespace.missing)
    return _exposed(namespace)


def _exposed(namespace: dict[str, Any]) -> dict[str, Any]:
    """Return the exposed parts. `spec` and `status` are present even if they are empty."""
    metadata = namespace.get("metadata") or {}
    if not isinstance(metadata, Missing):
        metadata = {name: value for name, value in metadata.items() if name in _METADATA}
    return {"metadata": metadata, "spec": namespace.get("spec") or {}, "status": namespace.get("status") or {}}

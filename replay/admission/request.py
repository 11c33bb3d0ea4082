"""`request` of CEL, which is an AdmissionRequest.

Source: `k8s.io/apiserver/pkg/admission/plugin/cel.CreateAdmissionRequest`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from replay.json import JSON
from replay.kube.attributes import Attributes, Missing, PartialObject
from replay.kube.gvk import GroupVersionKind, GroupVersionResource

# `namespaceObject` of CEL (`k8s.io/apiserver/pkg/admission/plugin/cel.CreateNamespaceObject`).

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
        return Missing("namespaceObject", f"Namespace `{attributes.namespace}` is not known at the time of the request")
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


def admission_request(
    attributes: Attributes, resource: GroupVersionResource, kind: GroupVersionKind
) -> JSON | PartialObject:
    """Return the request with the matched `resource` and `kind`.

    `requestResource` and `requestKind` are those that were sent. As in the Go struct, empty strings, lists and maps are
    absent. `uid`, `object` and `oldObject` exist, empty, although the declared type lacks these fields. `options` is
    null if the operation has none.
    """
    request: dict[str, Any] = {
        "uid": "",
        "kind": _fields(kind),
        "resource": _fields(resource),
        "requestKind": _fields(attributes.kind),
        "requestResource": _fields(attributes.resource),
        "operation": str(attributes.operation),
        "userInfo": attributes.user_info.value,
        "object": None,
        "oldObject": None,
        "dryRun": attributes.dry_run,
        "options": attributes.options,
    }
    if attributes.subresource:
        request["subResource"] = request["requestSubResource"] = attributes.subresource
    if attributes.name:
        request["name"] = attributes.name
    if attributes.namespace:
        request["namespace"] = attributes.namespace
    unknown = [attributes.options] if isinstance(attributes.options, Missing) else []
    for missing in attributes.missing:
        *above, name = missing.path.split(".")[1:]
        (request[above[0]] if above else request)[name] = missing
        unknown.append(missing)
    return PartialObject(request, tuple(unknown)) if unknown else request


@lru_cache(maxsize=1024, typed=True)
def _fields(value: GroupVersionKind | GroupVersionResource) -> dict[str, str]:
    """Return the fields as JSON that must not be changed."""
    return value._asdict()

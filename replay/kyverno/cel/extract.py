"""Pods inside objects of custom kinds (`pkg/cel/autogen/extract`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject
from replay.kyverno.cel.request import CELRequest, Object
from replay.kyverno.rules.errors import UndeterminedError
from replay.kyverno.rules.go_value import as_map

_POD = {"group": "", "version": "v1", "kind": "Pod"}
_PODS = {"group": "", "version": "v1", "resource": "pods"}


class ExtractionError(Exception):
    """Object without a pod template. `str()` is Kyverno's message."""


def extracted_requests(request: CELRequest) -> list[tuple[str, CELRequest]]:
    """Return a request for each pod template, with the template's path. Raises ExtractionError and UndeterminedError."""
    new, old = _whole(request.object), _whole(request.old_object)
    source = new or old
    if not source:
        raise ExtractionError("extraction mode: expected an unstructured object, got *unstructured.Unstructured")
    templates = dict(_templates(source.get("spec"), "spec"))
    if not templates:
        kind = f"{source.get('apiVersion') or ''}/{source.get('kind') or ''}"
        raise ExtractionError(f"extraction mode: no pod template found in {kind}")
    others = dict(_templates(old.get("spec"), "spec")) if new and old else {}
    made = []
    for path, template in templates.items():
        pods = [_pod(template, request), _pod(others[path], request) if path in others else None]
        if not new:
            # Without a new object, the pod was made from the old one.
            pods.reverse()
        made.append((path, _for_pod(request, *pods)))
    return made


def _whole(obj: Object) -> dict[str, Any]:
    if isinstance(obj, Missing | PartialObject):
        missing = obj if isinstance(obj, Missing) else obj.missing[0]
        raise UndeterminedError(f"{missing.path}: {missing.reason}")
    return as_map(obj)


def _templates(node: JSON, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the pod templates below a node, but none within a template.

    Kyverno walks maps in Go's random order. Here the keys are sorted.
    """
    if isinstance(node, dict):
        if _is_template(node):
            yield path, node
            return
        for key in sorted(node):
            yield from _templates(node[key], f"{path}.{key}")
    elif isinstance(node, list):
        for index, item in enumerate(node):
            yield from _templates(item, f"{path}[{index}]")


def _is_template(node: dict[str, Any]) -> bool:
    containers = as_map(node.get("spec")).get("containers")
    return (
        isinstance(node.get("metadata", {}), dict)
        and isinstance(containers, list)
        and bool(containers)
        and all(
            isinstance(each, dict)
            and isinstance(each.get("name"), str)
            and each["name"]
            and isinstance(each.get("image"), str)
            for each in containers
        )
    )


def _pod(template: dict[str, Any], request: CELRequest) -> JSON:
    metadata = dict(template.get("metadata") or {})
    for key, value in (("name", request.name), ("namespace", request.namespace)):
        if not isinstance(metadata.get(key), str) or not metadata[key]:
            metadata[key] = value
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def _for_pod(request: CELRequest, new: JSON, old: JSON) -> CELRequest:
    """Return the request as one for a pod. An absent object is null here."""
    metadata = as_map((new or old)["metadata"])
    named = {
        **request.request,
        "kind": _POD,
        "requestKind": _POD,
        "resource": _PODS,
        "requestResource": _PODS,
        "requestSubResource": request.subresource,
        "name": metadata["name"],
        "namespace": metadata["namespace"],
        "object": new,
        "oldObject": old,
    }
    made = CELRequest(named, request.namespace_object, request.time)
    made.object, made.old_object = new, old
    return made

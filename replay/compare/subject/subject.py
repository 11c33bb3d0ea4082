"""Subject of a request: the object, without the operation."""

from __future__ import annotations

from replay.kube.attributes import Attributes
from replay.kube.object_ref import ObjectRef


def subject(attributes: Attributes) -> ObjectRef:
    """Return the subject of a request from its attributes. A Namespace has no namespace."""
    body = attributes.object if isinstance(attributes.object, dict) else attributes.old_object
    metadata = body.get("metadata") if isinstance(body, dict) else None
    name = attributes.name or (metadata.get("name") if isinstance(metadata, dict) else None)
    group, _, resource = attributes.resource
    namespace = "" if resource == "namespaces" and not group else attributes.namespace
    return ObjectRef(group, resource, namespace, str(name or ""), attributes.workspace)

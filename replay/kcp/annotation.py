"""Annotations by which kcp distinguishes logical clusters, and their visibility on an object.

A shard's store adds `kcp.io/cluster` to every object that is read from it. So a stored object has the annotation, and
so has the result of a patch. An object from a client has it only if the client sent it. A creation succeeds with the
annotation only if the client sent the right one.
"""

from __future__ import annotations

from typing import Any

from replay.json import JSON
from replay.kube.attributes import Attributes, Missing, Operation, PartialObject

CLUSTER = "kcp.io/cluster"
"""The annotation with the logical cluster of an object, or of a request (an audit annotation)."""
PATH = "kcp.io/path"
"""The annotation with the readable path of a workspace."""
NO_CLUSTER = (
    f"its event has no audit annotation `{CLUSTER}` (`tenancy.kcp.io/workspace` or `tenancy.kcp.dev/workspace` of older releases), "
    "which names the workspace"
)
"""The reason why the policies that decide about a request to a shard are unknown."""
OWN_PREFIXES = ("kcp.io/", "tenancy.kcp.io/", "tenancy.kcp.dev/", "request.auth.kcp.io/", "sar.auth.kcp.io/")
"""The prefixes of audit annotations that a shard writes itself. No policy writes such keys."""


def annotation(obj: JSON, key: str) -> str:
    """Return the value of an annotation of an object, empty without one."""
    metadata = obj.get("metadata") if isinstance(obj, dict) else None
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    value = annotations.get(key) if isinstance(annotations, dict) else None
    return value if isinstance(value, str) else ""


def workspace_of(obj: JSON) -> str:
    """Return the logical cluster of a snapshot's object, empty if it does not say."""
    return annotation(obj, CLUSTER)


def annotated(obj: JSON, workspace: str) -> JSON:
    """Return an object as the store of a shard has it."""
    metadata = obj.get("metadata") or {}
    annotations = {**(metadata.get("annotations") or {}), CLUSTER: workspace}
    return {**obj, "metadata": {**metadata, "annotations": annotations}}


def shown_to_webhook(attributes: Attributes) -> Any:
    """Return `object` as sent to webhooks.

    A new object already has the annotation there, which validating policies do not see.
    """
    value = attributes.object
    if not attributes.workspace or attributes.operation is not Operation.CREATE:
        return value
    if value is None or isinstance(value, Missing | PartialObject):
        return value
    return annotated(value, attributes.workspace)

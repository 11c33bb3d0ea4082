"""The request that most rows begin with: jane creates an object in the namespace `shop`."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from replay.json import JSON
from replay.kube.attributes import Attributes, Operation, UserInfo
from replay.kube.gvk import GroupVersionKind, GroupVersionResource

SHOP: JSON = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}


def _creation(kind: str, resource: str, name: str, value: Any) -> Attributes:
    return Attributes(
        operation=Operation.CREATE,
        kind=GroupVersionKind("", "v1", kind),
        resource=GroupVersionResource("", "v1", resource),
        subresource="",
        namespace="shop",
        name=name,
        user_info=UserInfo("jane"),
        object=value,
        namespace_object=SHOP,
    )


def creation_of_pod(value: Any, **changes: Any) -> Attributes:
    """Of the pod `web`, with other attributes where they are given."""
    return replace(_creation("Pod", "pods", "web", value), **changes)


def creation_of_config_map(value: Any, **changes: Any) -> Attributes:
    """Of the ConfigMap `settings`, with other attributes where they are given."""
    return replace(_creation("ConfigMap", "configmaps", "settings", value), **changes)

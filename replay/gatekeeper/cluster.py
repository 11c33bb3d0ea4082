"""Cluster objects as policies see them: the namespace of a request, and `data.inventory` (`gatekeeper/pkg/target`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from replay.gatekeeper.constraint import stored
from replay.gatekeeper.policy_set import GatekeeperPolicies
from replay.gatekeeper.rego.value import UNDEFINED, Value
from replay.json import JSON
from replay.kube.schema import OBJECT_META_FIELDS


def typed_namespace(value: Mapping[str, JSON]) -> dict[str, Any]:
    """Return a Namespace as Gatekeeper's client decodes it into Go's type (`k8s.io/api/core/v1`).

    Fields that the type does not have, and empty ones, are dropped.
    """
    metadata = {
        name: item
        for name in OBJECT_META_FIELDS
        if (item := (value.get("metadata") or {}).get(name)) not in (None, "", {}, [])
    }
    spec, status = value.get("spec") or {}, value.get("status") or {}
    return {
        "kind": "Namespace",
        "apiVersion": "v1",
        "metadata": metadata,
        "spec": {"finalizers": spec["finalizers"]} if spec.get("finalizers") else {},
        "status": {name: status[name] for name in ("phase", "conditions") if status.get(name)},
    }


def inventory_of(policies: GatekeeperPolicies, objects: Iterable[Mapping[str, JSON]]) -> Value:
    """Return the inventory of a set: the cluster's synchronized objects by namespace, apiVersion, kind and name."""
    return inventory_of_all(value for value in objects if _is_synced(policies, value))


def _is_synced(policies: GatekeeperPolicies, value: Mapping[str, JSON]) -> bool:
    group, _, version = str(value.get("apiVersion") or "").rpartition("/")
    kind = str(value.get("kind") or "")
    return (group, version, kind) in policies.synced and not policies.excludes_synced(group, kind, value)


def inventory_of_all(objects: Iterable[Mapping[str, JSON]]) -> Value:
    """Return the inventory of these objects, or undefined if there are none."""
    found: dict[str, Any] = {}
    for value in objects:
        api_version, kind = str(value.get("apiVersion") or ""), str(value.get("kind") or "")
        metadata = value.get("metadata") or {}
        namespace, name = metadata.get("namespace") or "", metadata.get("name") or ""
        scope = (
            found.setdefault("namespace", {}).setdefault(namespace, {})
            if namespace
            else found.setdefault("cluster", {})
        )
        scope.setdefault(api_version, {}).setdefault(kind, {})[name] = stored(value)
    return found or UNDEFINED

"""`data.inventory`: the objects of synced kinds, by namespace or in the cluster, group and version, kind, name (`gatekeeper/pkg/target`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from replay.gatekeeper.constraint import stored
from replay.gatekeeper.policy_set import GatekeeperPolicies
from replay.gatekeeper.rego.value import Value
from replay.json import JSON


def inventory_of(policies: GatekeeperPolicies, objects: Iterable[Mapping[str, JSON]]) -> Value:
    """The inventory that a set's synchronization makes of the cluster's objects."""
    found: dict[str, Any] = {}
    for value in objects:
        api_version, kind = str(value.get("apiVersion") or ""), str(value.get("kind") or "")
        group, _, version = api_version.rpartition("/")
        metadata = value.get("metadata") or {}
        namespace, name = metadata.get("namespace") or "", metadata.get("name") or ""
        if (group, version, kind) not in policies.synced or policies.excludes(
            "sync", name if (group, kind) == ("", "Namespace") else namespace
        ):
            continue
        scope = (
            found.setdefault("namespace", {}).setdefault(namespace, {})
            if namespace
            else found.setdefault("cluster", {})
        )
        scope.setdefault(api_version, {}).setdefault(kind, {})[name] = stored(value)
    return found

"""The rules of a policy or webhook configuration: operations and resources."""

from __future__ import annotations

from collections.abc import Iterator

from replay.json import JSON
from replay.kube.discovery import APIResource, Discovery
from replay.kube.gvk import GroupVersionResource
from replay.manifests.loader import LoadedObject

_OPERATIONS = frozenset({"CREATE", "UPDATE", "DELETE", "CONNECT"})


def operations_of(loaded: LoadedObject) -> frozenset[str]:
    """Return the operations in the rules of a policy, or of any webhook of a configuration."""
    named = {operation for rule in rules_of(loaded) for operation in rule.get("operations") or ()}
    return _OPERATIONS if "*" in named else frozenset(named)


def rules_of(loaded: LoadedObject) -> list[JSON]:
    """Return the rules of a policy, or of all webhooks of a configuration."""
    if loaded.kind.endswith("WebhookConfiguration"):
        return [rule for webhook in loaded.value.get("webhooks") or () for rule in webhook.get("rules") or ()]
    constraints = loaded.value["spec"].get("matchConstraints") or {}
    return list(constraints.get("resourceRules") or ())


def named_resources(loaded: LoadedObject, discovery: Discovery) -> Iterator[tuple[APIResource | None, str]]:
    """Yield each resource of the rules with its subresource. The resource is None for a wildcard or if unknown."""
    for rule in rules_of(loaded):
        for group in rule.get("apiGroups") or ():
            for version in rule.get("apiVersions") or ():
                for entry in rule.get("resources") or ():
                    resource, _, subresource = entry.partition("/")
                    yield discovery.resource(GroupVersionResource(group, version, resource)), subresource

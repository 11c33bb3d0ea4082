"""A warning that a comment can silence, and the context of all lints."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property

from msgspec import Struct

from replay.cellib.version import KubernetesVersion
from replay.json import JSON
from replay.kube.discovery import APIResource, Discovery
from replay.kube.gvk import GroupResource, GroupVersionResource
from replay.kube.schema import Schemas
from replay.manifests.finding import Finding, Severity
from replay.manifests.loader import LoadedObject
from replay.manifests.served import NO_GATES, Gates
from replay.manifests.type_check import TypeChecker

# The rules of a policy or webhook configuration: operations and resources.

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
    """Yield each resource of the rules with its subresource. The resource is None for a wildcard or if unknown.

    Any version stands for all that the server has.
    """
    for rule in rules_of(loaded):
        for group in rule.get("apiGroups") or ():
            for version in rule.get("apiVersions") or ():
                for entry in rule.get("resources") or ():
                    resource, _, subresource = entry.partition("/")
                    if version != "*":
                        yield discovery.resource(GroupVersionResource(group, version, resource)), subresource
                        continue
                    wanted = GroupResource(group, resource)
                    versions = [each for each in discovery if each.resource.group_resource == wanted]
                    yield from ((each, subresource) for each in versions or (None,))


_SILENCE = re.compile(r"#\s*replay:\s*silence\s+([a-z-]+(?:\s*,\s*[a-z-]+)*)")


class SilenceableWarning(Struct, frozen=True):
    """A warning, with the names that a comment in its document silences."""

    finding: Finding
    silenced: frozenset[str] = frozenset()


class LintContext(Struct, frozen=True, dict=True):
    """The context of lints: everything that they read besides the object. `namespaces` is None without a snapshot."""

    objects: Sequence[LoadedObject]
    discovery: Discovery
    version: KubernetesVersion
    gates: Gates = NO_GATES
    namespaces: Sequence[JSON] | None = None
    crds: Sequence[JSON] = ()

    @cached_property
    def schemas(self) -> Schemas:
        """The schemas of all kinds of the server version. They are only loaded if a set reads fields."""
        return Schemas(self.crds, self.version.minor)

    @cached_property
    def type_checker(self) -> TypeChecker:
        """The type checker of policies."""
        return TypeChecker(self.discovery, self.schemas, self.version)

    def bindings(self, policy: LoadedObject) -> list[LoadedObject]:
        """Return the bindings of a policy."""
        kind = f"{policy.kind}Binding"
        return [
            loaded
            for loaded in self.objects
            if loaded.kind == kind and loaded.value["spec"].get("policyName") == policy.name
        ]


def warned(
    loaded: LoadedObject, name: str, message: str, field_path: str, severity: Severity = Severity.WARNING
) -> SilenceableWarning:
    """Return a warning about a field of an object."""
    subject = f"{loaded.kind}/{loaded.name}"
    position = loaded.position(field_path)
    finding = Finding(severity, name, message, loaded.path, position, field_path, subject)
    return SilenceableWarning(finding, silenced_names(loaded.text))


def silenced_names(text: str) -> frozenset[str]:
    """Return the names in comments `# replay: silence NAME, NAME` of a document."""
    return frozenset(name.strip() for match in _SILENCE.finditer(text) for name in match[1].split(","))

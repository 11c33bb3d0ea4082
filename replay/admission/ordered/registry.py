"""All plugins in the server's order (`k8s.io/kubernetes/pkg/kubeapiserver/options/plugins.go`, `AllOrderedPlugins`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from replay.admission.ordered.plugin import AdmissionPlugin, Unit
from replay.admission.ordered.policies import MutatingAdmissionPolicyPlugin, ValidatingAdmissionPolicyPlugin
from replay.admission.ordered.webhooks import WebhookPlugin
from replay.admission.reads import PolicyReads
from replay.cellib.version import KubernetesVersion
from replay.kube.admissionregistration import ManifestSet, MatchResources
from replay.kube.attributes import Operation
from replay.matching.rules import ANY

ALL_ORDERED_PLUGINS: Final[tuple[AdmissionPlugin, ...]] = (
    MutatingAdmissionPolicyPlugin(),
    WebhookPlugin("mutating"),
    ValidatingAdmissionPolicyPlugin(),
    WebhookPlugin("validating"),
)
"""In the order in which the server asks them."""


def units_of(manifests: ManifestSet, plugins: Iterable[AdmissionPlugin] = ALL_ORDERED_PLUGINS) -> Iterator[Unit]:
    """What a set has for some plugins."""
    for plugin in plugins:
        yield from plugin.units(manifests)


def criteria_of(sets: Iterable[ManifestSet]) -> Iterator[MatchResources]:
    """Which requests may concern any plugin of some sets."""
    for manifests in sets:
        yield from (unit.match for unit in units_of(manifests))


def mutating_criteria(sets: Iterable[ManifestSet]) -> Iterator[MatchResources]:
    """Which requests may concern a plugin of some sets that changes objects."""
    mutating = [plugin for plugin in ALL_ORDERED_PLUGINS if plugin.mutates]
    for manifests in sets:
        yield from (unit.match for unit in units_of(manifests, mutating))


def unseen_criteria(manifests: ManifestSet, operation: Operation) -> Iterator[MatchResources]:
    """Which requests of an operation a plugin of a set may have changed without a trace in the log."""
    unseen = [plugin for plugin in ALL_ORDERED_PLUGINS if plugin.mutates and not plugin.leaves_trace]
    for unit in units_of(manifests, unseen):
        rules = tuple(rule for rule in unit.match.resource_rules if {ANY, operation} & set(rule.operations))
        if rules or not unit.match.resource_rules:
            yield replace(unit.match, resource_rules=rules)


def reads_of(manifests: ManifestSet, version: KubernetesVersion) -> Iterator[PolicyReads]:
    """What the plugins of a set read of requests: of policies that have a binding, and of webhooks."""
    for plugin in ALL_ORDERED_PLUGINS:
        yield from plugin.reads(manifests, version)


def webhook_mutators(manifests: ManifestSet) -> frozenset[str]:
    """The names, as decisions have them, of what changes objects with a trace in the log."""
    plugins = (plugin for plugin in ALL_ORDERED_PLUGINS if plugin.mutates and plugin.leaves_trace)
    return frozenset(name for plugin in plugins for name in plugin.names(manifests))


def has_mutators(manifests: ManifestSet) -> bool:
    """Whether a set has anything for a plugin that changes objects."""
    return any(True for plugin in ALL_ORDERED_PLUGINS if plugin.mutates for _ in plugin.names(manifests))


def policy_names(manifests: ManifestSet, *, mutating: bool | None = None) -> frozenset[str]:
    """The names of what a response names where it refuses: of all but webhooks. `mutating`: of those that do, or do not."""
    plugins = (plugin for plugin in ALL_ORDERED_PLUGINS if not plugin.leaves_trace)
    chosen = (plugin for plugin in plugins if mutating is None or plugin.mutates is mutating)
    return frozenset(name for plugin in chosen for name in plugin.names(manifests))

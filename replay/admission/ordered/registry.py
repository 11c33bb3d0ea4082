"""All plugins in the server's order (`k8s.io/kubernetes/pkg/kubeapiserver/options/plugins.go`, `AllOrderedPlugins`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec.structs import replace

from replay.admission.builtin.plugin import Plugin
from replay.admission.builtin.registry import PLUGINS
from replay.admission.ordered.builtin import BuiltinPlugin, rules_of
from replay.admission.ordered.custom_resources import CustomResourcePlugin
from replay.admission.ordered.plugin import AdmissionPlugin, Unit
from replay.admission.ordered.policies import MutatingAdmissionPolicyPlugin, ValidatingAdmissionPolicyPlugin
from replay.admission.ordered.webhooks import WebhookPlugin
from replay.admission.reads import AUTHORIZER, NAMESPACE, PARAMS, PolicyReads
from replay.cellib.version import KubernetesVersion
from replay.json import JSON
from replay.kube.admissionregistration import (
    ManifestSet,
    MatchResources,
    Sets,
)
from replay.kube.attributes import Operation
from replay.kube.discovery import APIResource, Discovery
from replay.kube.overlay import objects_by_kind
from replay.matching.rules import ANY

# The server runs these after the webhooks (`AllOrderedPlugins`, `pkg/kubeapiserver/options/plugins.go`).
_LAST: Final = ("ResourceQuota", "AlwaysDeny")
BUILTIN_PLUGINS: Final = tuple(BuiltinPlugin(each) for each in PLUGINS)
ALL_ORDERED_PLUGINS: Final[tuple[AdmissionPlugin, ...]] = (
    *(each for each in BUILTIN_PLUGINS if each.name not in _LAST),
    MutatingAdmissionPolicyPlugin(),
    WebhookPlugin("mutating"),
    # `rest.BeforeCreate` validates an object before `Store.Create` calls validating admission.
    CustomResourcePlugin(),
    ValidatingAdmissionPolicyPlugin(),
    WebhookPlugin("validating"),
    *(each for each in BUILTIN_PLUGINS if each.name in _LAST),
)
"""Plugins in the server's order."""
MUTATING_PLUGINS: Final = tuple(plugin for plugin in ALL_ORDERED_PLUGINS if plugin.mutates)
POLICY_PLUGINS: Final = tuple(
    plugin
    for plugin in ALL_ORDERED_PLUGINS
    if isinstance(plugin, MutatingAdmissionPolicyPlugin | ValidatingAdmissionPolicyPlugin)
)
"""The plugins that evaluate policies."""
SHARD_ORDERED_PLUGINS: Final[tuple[AdmissionPlugin, ...]] = (
    WebhookPlugin("mutating"),
    MutatingAdmissionPolicyPlugin(),
    ValidatingAdmissionPolicyPlugin(),
    WebhookPlugin("validating"),
)
"""Plugins of a kcp shard (`kcp-dev/kcp/pkg/admission/plugins.go`, `AllOrderedPlugins`) that manifests can describe."""


def units_of(manifests: ManifestSet, plugins: Iterable[AdmissionPlugin] = ALL_ORDERED_PLUGINS) -> Iterator[Unit]:
    """Yield a set's units for some plugins."""
    for plugin in plugins:
        yield from plugin.units(manifests)


def criteria_of(sets: Iterable[ManifestSet]) -> Iterator[MatchResources]:
    """Yield the match criteria of all plugins of some sets."""
    for manifests in sets:
        yield from (unit.match for unit in units_of(manifests))


def mutating_criteria(sets: Iterable[ManifestSet]) -> Iterator[MatchResources]:
    """Yield the match criteria of the mutating plugins of some sets."""
    for manifests in sets:
        yield from (unit.match for unit in units_of(manifests, MUTATING_PLUGINS))


def unseen_criteria(manifests: ManifestSet, operation: Operation) -> Iterator[MatchResources]:
    """Yield criteria of the requests that a set's plugins may have changed without a trace, for one operation."""
    unseen = [plugin for plugin in ALL_ORDERED_PLUGINS if plugin.mutates and not plugin.is_visible_in_log]
    for unit in units_of(manifests, unseen):
        rules = tuple(rule for rule in unit.match.resource_rules if {ANY, operation} & set(rule.operations))
        if rules or not unit.match.resource_rules:
            yield replace(unit.match, resource_rules=rules)


def rules_criteria(plugin: type[Plugin]) -> tuple[MatchResources, ...]:
    """Return the match criteria of a built-in plugin."""
    rules = rules_of(plugin)
    return (MatchResources(resource_rules=rules),) if rules else ()


def reads_of(manifests: ManifestSet, version: KubernetesVersion) -> Iterator[PolicyReads]:
    """Yield the inputs that a set's plugins read of requests: policies with a binding, and webhooks."""
    for plugin in ALL_ORDERED_PLUGINS:
        yield from plugin.reads(manifests, version)


def looked_up_kinds(manifests: ManifestSet) -> frozenset[tuple[str, str]]:
    """Return the kinds (group and name) of objects that a set's plugins look up, besides the request."""
    return frozenset(kind for plugin in ALL_ORDERED_PLUGINS for kind in plugin.looked_up(manifests))


def looked_up_resources(sets: Iterable[ManifestSet], discovery: Discovery) -> Iterator[APIResource]:
    """Return the resources of objects that the plugins of some sets look up, besides the request."""
    kinds = {kind for manifests in sets for kind in looked_up_kinds(manifests)}
    return (each for each in discovery if (each.kind.group, each.kind.kind) in kinds)


def webhook_mutators(manifests: ManifestSet) -> frozenset[str]:
    """Return the names, as in decisions, of everything that changes objects with a trace in the log."""
    plugins = (plugin for plugin in ALL_ORDERED_PLUGINS if plugin.mutates and plugin.is_visible_in_log)
    return frozenset(name for plugin in plugins for name in plugin.names(manifests))


def has_mutators(manifests: ManifestSet) -> bool:
    """Return whether a set uses a mutating plugin."""
    return any(True for plugin in ALL_ORDERED_PLUGINS if plugin.mutates for _ in plugin.names(manifests))


def policy_names(manifests: ManifestSet, *, mutating: bool | None = None) -> frozenset[str]:
    """Return the names that the message of a denial may contain, without webhooks.

    `mutating` selects the mutating plugins or the others. None selects all.
    """
    plugins = (plugin for plugin in ALL_ORDERED_PLUGINS if not plugin.is_visible_in_log)
    chosen = (plugin for plugin in plugins if mutating is None or plugin.mutates is mutating)
    return frozenset(name for plugin in chosen for name in plugin.names(manifests))


_NOT_REPRODUCED: Final = frozenset(
    {"AlwaysPullImages", "ExtendedResourceToleration", "PodNodeSelector", "PodTolerationRestriction"}
)
"""Mutating plugins that are off by default. Their effect is not rebuilt in the object before mutation."""


def without_shared_plugins(sets: Sets, names: frozenset[str] = frozenset()) -> Sets:
    """Return both sets without built-in plugins that are equal in both, including their objects, except for some names.

    The recorded objects show the effect of such a plugin, and the candidate's would be the same. It runs again only if
    a mutation after it must see its result.
    """
    current, candidate = sets
    # A mutation in a set must see the effect of these plugins, which the object before mutation lacks.
    mutates = any(each.phase == "mutating" for manifests in sets for each in manifests.registrations)
    again = _NOT_REPRODUCED if mutates else frozenset()
    kinds, bare = changed_kinds(current, candidate), changed_kinds(current, candidate, bare=True)
    shared = {
        each.name
        for each in BUILTIN_PLUGINS
        if each.name not in again | names
        and each.is_alike(*sets)
        and not (bare if each.type.ignores_metadata else kinds) & set(each.type.looks_up)
    }
    return _without(current, shared), _without(candidate, shared)


def with_shared_plugins(sets: Sets, reproduced: frozenset[str]) -> Sets:
    """Return both sets with all plugins.

    Equal plugins do not repeat the changes of `reproduced` ones that the objects show.
    """
    differing = {each.name for manifests in without_shared_plugins(sets) for each in manifests.builtin}
    settled = reproduced - differing
    set_pair = []
    for manifests in sets:
        plugins = (replace(each, admits=False) if each.name in settled else each for each in manifests.builtin)
        set_pair.append(replace(manifests, builtin=tuple(plugins)))
    return set_pair[0], set_pair[1]


def _without(manifests: ManifestSet, names: set[str]) -> ManifestSet:
    return replace(manifests, builtin=tuple(each for each in manifests.builtin if each.name not in names))


def names_decided_alike(sets: Sets, version: KubernetesVersion, *, with_lookups: bool) -> frozenset[str]:
    """Return the names of policies and plugins that decide about equal requests alike in both sets.

    They are equal in both. `with_lookups` says that the sets also see equal objects and authorizers. Otherwise policies
    and plugins that read more than the request do not count. `version` is the minor of both servers.
    """
    current, candidate = sets
    digests, others = _digests(current), _digests(candidate)
    policies = {name for name, own in digests.items() if others.get(name) == own}
    if not with_lookups:
        reads = (each for plugin in POLICY_PLUGINS for each in plugin.reads(current, version))
        policies -= {each.policy for each in reads if not each.inputs.isdisjoint((NAMESPACE, PARAMS, AUTHORIZER))}
    plugins = {
        each.name
        for each in BUILTIN_PLUGINS
        if each.is_alike(*sets) and not each.type.is_stateful and (with_lookups or not each.type.looks_up)
    }
    return frozenset(policies | plugins)


def _digests(manifests: ManifestSet) -> dict[str, list[str]]:
    """Return the digests of a set's policies by name. A mutating and a validating policy may share a name."""
    digests: dict[str, list[str]] = {}
    for unit in units_of(manifests, POLICY_PLUGINS):
        digests.setdefault(unit.name, []).append(unit.digest)
    return digests


def changed_kinds(current: ManifestSet, candidate: ManifestSet, *, bare: bool = False) -> set[tuple[str, str]]:
    """Return the kinds of objects that two sets lay over the cluster differently.

    `bare` ignores metadata. An object that only the candidate has then counts as an existing one.
    """
    if current.objects == candidate.objects and not candidate.removed:
        return set()
    current_objects = objects_by_kind((*candidate.removed, *current.objects))
    candidate_objects = objects_by_kind(candidate.objects)
    if not bare:
        return {
            kind
            for kind in {*current_objects, *candidate_objects}
            if current_objects.get(kind) != candidate_objects.get(kind)
        }
    return {
        kind
        for kind, objects in current_objects.items()
        for name, obj in objects.items()
        if _content(candidate_objects.get(kind, {}).get(name)) != _content(obj)
    } | {kind for kind, objects in candidate_objects.items() if any(_content(obj) for obj in objects.values())}


def _content(obj: JSON) -> JSON:
    """Return an object's content without identity and metadata, or None for no object."""
    return None if obj is None else {key: obj[key] for key in obj if key not in ("apiVersion", "kind", "metadata")}


def counts_requests(sets: Iterable[ManifestSet]) -> bool:
    """Return whether a plugin in some sets depends on earlier requests."""
    stateful = [plugin for plugin in BUILTIN_PLUGINS if plugin.type.counts_requests]
    return any(plugin.settings(manifests) is not None for manifests in sets for plugin in stateful)


def without_books(manifests: ManifestSet) -> ManifestSet:
    """Return a set without the plugins that depend on earlier requests."""
    stateful = {plugin.name for plugin in BUILTIN_PLUGINS if plugin.type.counts_requests}
    return _without(manifests, stateful)


def check_plugins(manifests: ManifestSet) -> None:
    """Raise ManifestError with the server's text for a plugin configuration with which the server would not start."""
    for plugin in BUILTIN_PLUGINS:
        plugin.plugin(manifests)

"""Targets of policies: known resources, custom ones that rules allow, and the parameters that bindings look up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import Any

from msgspec import Struct

from replay.json import JSON
from replay.kube.admissionregistration import MatchResources, ParamKind, ParamRef, Rule
from replay.kube.attributes import Attributes, Operation, UserInfo
from replay.kube.discovery import APIResource, Discovery
from replay.kube.gvk import GroupVersionKind, GroupVersionResource, split_api_version
from replay.matching.matcher import Matcher
from replay.matching.rules import EquivalentResourceMapper, is_excluded_from_policies
from replay.prove.request import Target
from replay.prove.search.admissible import is_admissible
from replay.prove.search.skeleton import ValidSkeletons

NAMESPACE = "default"
"""Placeholder for parameters in the namespace of the request."""


class ParamSlot(Struct, frozen=True):
    """Parameter object: its kind and identity, and the labels that a selector needs."""

    kind: GroupVersionKind
    namespace: str
    name: str
    labels: tuple[tuple[str, str], ...] = ()

    def least(self) -> JSON:
        """Return the parameter without content."""
        metadata: dict[str, Any] = {"name": self.name}
        if self.namespace:
            metadata["namespace"] = self.namespace
        if self.labels:
            metadata["labels"] = dict(self.labels)
        return {"apiVersion": self.kind.api_version, "kind": self.kind.kind, "metadata": metadata}

    def settled(self, param: JSON, skeletons: ValidSkeletons) -> JSON | None:
        """Return the parameter with its identity, as a server writes it, or None if it refuses it."""
        identity = self.least()
        served = skeletons.as_served(self.kind, {**param, **identity})
        schema = skeletons.schemas.for_kind(self.kind)
        return served if served is not None and is_admissible(schema, self.kind, served) else None


def slot_of(kind: ParamKind, ref: ParamRef, discovery: Discovery, namespace: str) -> ParamSlot:
    """Return the parameter that a binding looks up. For a selector it has the `matchLabels` and required keys."""
    gvk = GroupVersionKind(*split_api_version(kind.api_version), kind.kind)
    api_resource = discovery.of_kind(gvk)
    is_namespaced = api_resource is None or api_resource.namespaced
    labels: dict[str, str] = {}
    if ref.selector is not None:
        labels.update(ref.selector.match_labels)
        for each in ref.selector.match_expressions:
            if each.operator in {"In", "Exists"}:
                labels[each.key] = each.values[0] if each.values else "x"
    return ParamSlot(
        gvk, (ref.namespace or namespace) if is_namespaced else "", ref.name or "example", tuple(labels.items())
    )


FRESH_GROUP = "other.example.com"
FRESH_RESOURCE = "things"
FRESH_VERSION = "v1"
_OBJECT_OPERATIONS = (Operation.CREATE, Operation.UPDATE, Operation.DELETE)
_CONNECTED = frozenset({"exec", "attach", "portforward", "proxy"})
_CREATED = frozenset({"binding", "eviction", "token"})
_CREATED_ONLY = frozenset({"bindings", "localsubjectaccessreviews", "subjectaccessreviews", "tokenreviews"})
_READ_ONLY = frozenset({"componentstatuses"})


class CustomResources(Struct, frozen=True):
    """Possible custom resources if nothing is known about them: the served versions, and the scope."""

    versions: tuple[str, ...]
    namespaced: bool


def worlds_of(discovery: Discovery, rules: Sequence[Rule]) -> Iterator[CustomResources]:
    """Yield the sets of custom versions that rules can distinguish: every choice of named versions and one more."""
    groups = {each.resource.group for each in discovery if not each.custom}
    custom = [rule for rule in rules if any(group not in groups for group in rule.api_groups)]
    if all("*" in rule.api_versions and rule.scope == "*" for rule in custom):
        return
    named = dict.fromkeys(version for rule in custom for version in rule.api_versions if version != "*")
    fresh = next(version for version in (FRESH_VERSION, "v2", "v3", *_other_versions(named)) if version not in named)
    versions = (*named, fresh)
    for size in range(1, len(versions) + 1):
        for chosen in combinations(versions, size):
            yield from (CustomResources(chosen, namespaced) for namespaced in (True, False))


def _other_versions(named: Iterable[str]) -> Iterator[str]:
    yield f"v{len(tuple(named)) + 4}"


def with_custom_kinds(
    discovery: Discovery, rules: Sequence[Rule], *, apart: bool, world: CustomResources | None = None
) -> Discovery:
    """Return the discovery with a custom resource for each unknown resource that the rules name or allow.

    With `apart`, policies are compared, so every group is combined with every resource that any rule names.
    """
    group_resources = {each.resource.group_resource for each in discovery}
    groups = {each.resource.group for each in discovery if not each.custom}
    named_rules: dict[GroupVersionResource, Rule] = {}
    for rule in rules:
        for resource in _custom_resources(rule, groups, rules if apart else (rule,)):
            if resource.group_resource not in group_resources:
                named_rules.setdefault(resource, rule)
    subresources = {each.partition("/")[2] for rule in rules for each in rule.resources if "/" in each}
    served = [
        (resource if version is None else resource._replace(version=version), rule)
        for resource, rule in named_rules.items()
        for version in (world.versions if world is not None else (None,))
    ]
    custom = [_custom(resource, rule, subresources - {"*"}, world) for resource, rule in served]
    return Discovery([*discovery, *custom]) if custom else discovery


def _custom_resources(rule: Rule, builtin_groups: set[str], among: Sequence[Rule]) -> Iterator[GroupVersionResource]:
    plain = dict.fromkeys(name.partition("/")[0] for other in among for name in other.resources)
    for group in dict.fromkeys(name for other in among for name in other.api_groups):
        name = FRESH_GROUP if group == "*" else group
        if name in builtin_groups:
            continue
        version = next((each for each in rule.api_versions if each != "*"), FRESH_VERSION)
        for resource in plain:
            yield GroupVersionResource(name, version, FRESH_RESOURCE if resource == "*" else resource)


def _custom(
    resource: GroupVersionResource, rule: Rule, subresources: set[str], world: CustomResources | None
) -> APIResource:
    kind = GroupVersionKind(resource.group, resource.version, _kind_name(resource.resource))
    scale = GroupVersionKind("autoscaling", "v1", "Scale")
    kinds = {name: scale if name == "scale" else kind for name in sorted(subresources)}
    namespaced = rule.scope != "Cluster" if world is None else world.namespaced
    return APIResource(resource, kind, namespaced, kinds, custom=True)


def _kind_name(plural: str) -> str:
    singular = plural[:-3] + "y" if plural.endswith("ies") else plural.removesuffix("s")
    return singular[:1].upper() + singular[1:] or "Thing"


def all_targets(discovery: Discovery) -> Iterator[Target]:
    """Yield all targets that a server with these resources offers to policies."""
    for each in discovery:
        if is_excluded_from_policies(each.resource) or each.resource.resource in _READ_ONLY:
            continue
        operations = (Operation.CREATE,) if each.resource.resource in _CREATED_ONLY else _OBJECT_OPERATIONS
        for operation in operations:
            yield Target(each.resource, "", each.kind, operation, each.namespaced)
        for subresource, kind in each.subresources.items():
            yield Target(each.resource, subresource, kind, _operation(subresource), each.namespaced)


def _operation(subresource: str) -> Operation:
    if subresource in _CONNECTED:
        return Operation.CONNECT
    return Operation.CREATE if subresource in _CREATED else Operation.UPDATE


def matched_targets(discovery: Discovery, matches: Sequence[MatchResources | None]) -> list[Target]:
    """Return the targets that the rules of one of the match sections may match."""
    matcher = Matcher(EquivalentResourceMapper(discovery))
    criteria = [matcher.criteria(each) for each in matches if each is not None]
    return [
        target
        for target in all_targets(discovery)
        if any(each.may_match(matcher.request_class(attributes_of(target))) for each in criteria)
    ]


def attributes_of(target: Target) -> Attributes:
    """Return the smallest attributes that match rules need for a target."""
    namespaced = target.namespaced or target.resource.resource == "namespaces"
    return Attributes(
        operation=target.operation,
        kind=target.kind,
        resource=target.resource,
        subresource=target.subresource,
        namespace="default" if namespaced else "",
        name="",
        user_info=UserInfo(),
    )

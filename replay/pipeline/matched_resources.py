"""The resources that each policy of a set is for, by the names of policies: what tells which policies take each other's place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from replay.kube.admissionregistration import ManifestSet
from replay.kube.discovery import Discovery, builtin_discovery
from replay.kube.engine_policy import policy_name, policy_names, rule_name
from replay.kyverno.kind_selector import selected_resources
from replay.kyverno.rules.go_value import as_map

_PODS: Final = "/pods"
_OF_PODS: Final = frozenset(
    {
        *(
            "apps/daemonsets",
            "apps/deployments",
            "apps/replicasets",
            "apps/statefulsets",
            "batch/cronjobs",
            "batch/jobs",
        ),
        *("/replicationcontrollers", "/pods/ephemeralcontainers"),
    }
)
"""What counts as pods in a policy for pods: it may name them, or leave them to Kyverno."""


def matched_resources(manifests: ManifestSet) -> dict[str, frozenset[str]]:
    """`group/resource` of all that each policy matches; a policy that cannot be read so has none."""
    found = {
        each.name: _resources((rule.api_groups, rule.resources) for rule in each.match_constraints.resource_rules)
        for each in manifests.validating_policies
        if each.match_constraints is not None
    }
    discovery = builtin_discovery()
    for value in manifests.engine_objects:
        found.update(_of_engine(value, discovery))
    return found


def _of_engine(value: Mapping[str, Any], discovery: Discovery) -> Iterator[tuple[str, frozenset[str]]]:
    if not policy_names(value) or ".gatekeeper.sh/" in str(value.get("apiVersion")):
        return
    spec = as_map(value.get("spec"))
    if value.get("kind") in ("ClusterPolicy", "Policy"):
        for rule in spec.get("rules") or ():
            yield rule_name(value, rule.get("name")), _of_rule(rule, discovery)
        return
    rules = as_map(spec.get("matchConstraints")).get("resourceRules") or ()
    yield policy_name(value), _resources((each.get("apiGroups") or (), each.get("resources") or ()) for each in rules)


def _of_rule(rule: Mapping[str, Any], discovery: Discovery) -> frozenset[str]:
    match = as_map(rule.get("match"))
    filters = (match, *(match.get("any") or ()), *(match.get("all") or ()))
    kinds = [str(kind) for each in filters for kind in as_map(each.get("resources")).get("kinds") or ()]
    selected = selected_resources(discovery, kinds)
    return _resources(((group,), (f"{name}/{sub}" if sub else name,)) for group, _, name, sub in selected)


def _resources(rules: Iterable[tuple[Iterable[str], Iterable[str]]]) -> frozenset[str]:
    found = frozenset(
        f"{group}/{resource}" for groups, resources in rules for group in groups for resource in resources
    )
    return found - _OF_PODS if _PODS in found else found

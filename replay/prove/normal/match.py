"""Normal forms of match sections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from replay.kube.admissionregistration import MatchResources
from replay.prove.unit import BoundPolicy


def match_alike(units: Sequence[BoundPolicy]) -> bool:
    """Whether all units have the same match sections: then the same requests meet them as the same versions."""
    first = units[0]
    return all(
        canonical(unit.policy.match_constraints) == canonical(first.policy.match_constraints)
        and {canonical(each.match_resources) for each in unit.bindings}
        == {canonical(each.match_resources) for each in first.bindings}
        for unit in units
    )


def canonical(value: Any) -> Any:
    """A hashable form of frozen values; rules in the order of the manifest, requirements and names in any."""
    if isinstance(value, MatchResources):
        return (
            canonical(value.namespace_selector),
            canonical(value.object_selector),
            _rules(value.resource_rules),
            _rules(value.exclude_resource_rules),
            str(value.match_policy),
        )
    if isinstance(value, Mapping):
        return tuple(sorted((key, canonical(item)) for key, item in value.items()))
    if isinstance(value, tuple):
        return tuple(canonical(item) for item in value)
    if isinstance(value, Struct):
        return (type(value).__name__, *(canonical(getattr(value, name)) for name in value.__struct_fields__))
    return value


def _rules(rules: tuple[Any, ...]) -> Any:
    """The lists inside a rule are sets; the order of rules is kept, for it may decide about the version."""
    return tuple(
        (
            frozenset(rule.operations),
            frozenset(rule.api_groups),
            frozenset(rule.api_versions),
            frozenset(rule.resources),
            rule.scope,
            frozenset(rule.resource_names),
        )
        for rule in rules
    )

"""Match criteria as an SQL predicate over the `request` table, for the requests that any policy may match.

It reads verb, group, resource, subresource and name as the log has them. It selects too much, never too little.
Conditions on the objects, the namespace or the version are left to the matcher.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from msgspec import Struct
from msgspec.structs import astuple

from replay.kube.admissionregistration import MatchPolicy, MatchResources, Rule
from replay.kube.gvk import GroupResource
from replay.matching.rules import ANY, EquivalentResourceMapper

CONNECT_SUBRESOURCES = ("attach", "exec", "portforward", "proxy")
"""The subresources whose requests are CONNECT, with any verb."""

_VERBS = {
    "CREATE": ("create", "update", "patch"),  # an update or an apply creates an object that does not exist
    "UPDATE": ("update", "patch"),
    "DELETE": ("delete", "deletecollection"),
}
_EVERY_VERB = tuple(dict.fromkeys(verb for verbs in _VERBS.values() for verb in verbs))


class Predicate(NamedTuple):
    """An SQL expression over the columns of `request`, and the values of its `?` in order."""

    sql: str
    parameters: tuple[str, ...]


class CoarseClass(Struct, frozen=True, order=True, array_like=True):
    """All requests that a policy without `resourceNames` cannot distinguish by the columns of the log."""

    verb: str
    api_group: str
    resource: str
    subresource: str


class Classed(Protocol):
    """Value with the columns of a class: a request, or the class itself."""

    @property
    def verb(self) -> str:
        """Return the verb of the request."""

    @property
    def api_group(self) -> str:
        """Return the API group of the resource."""

    @property
    def resource(self) -> str:
        """Return the resource."""

    @property
    def subresource(self) -> str:
        """Return the subresource, empty if there is none."""


class _Pattern(NamedTuple):
    """The part of a rule that the log's columns can answer; an empty tuple matches everything."""

    verbs: tuple[str, ...]
    connect: bool
    groups: tuple[str, ...]
    resource: str
    subresource: str
    names: tuple[str, ...]


def coarse_predicate(
    criteria: Iterable[MatchResources],
    mapper: EquivalentResourceMapper,
    *,
    excluded: frozenset[GroupResource] = frozenset(),
) -> Predicate:
    """Return a predicate of the requests that any of some criteria may match. Resources in `excluded` never match.

    `mapper` is for `matchPolicy: Equivalent`: a rule also matches the groups of equivalent resources.
    """
    patterns: dict[_Pattern, None] = {}
    for match_resources in criteria:
        if not match_resources.resource_rules:
            return _without_excluded(Predicate("true", ()), excluded)
        for rule in match_resources.resource_rules:
            patterns.update(dict.fromkeys(_patterns(rule, match_resources.match_policy, mapper)))
    if not patterns:
        return Predicate("false", ())
    predicates = [_predicate(pattern, resources) for pattern, resources in _by_resource(patterns)]
    return _without_excluded(_joined(" or ", predicates), excluded)


def may_select(
    match_resources: MatchResources,
    mapper: EquivalentResourceMapper,
    excluded: frozenset[GroupResource] = frozenset(),
) -> Callable[[CoarseClass], bool]:
    """Return whether `coarse_predicate` can select a request of a class for these criteria, with any name."""
    rules = match_resources.resource_rules
    patterns = [pattern for rule in rules for pattern in _patterns(rule, match_resources.match_policy, mapper)]

    def selects(requests: CoarseClass) -> bool:
        if (requests.api_group, requests.resource) in excluded:
            return False
        return not rules or any(_selects(pattern, requests) for pattern in patterns)

    return selects


def of_classes(classes: Iterable[CoarseClass]) -> Predicate:
    """Return a predicate of the requests of some classes."""
    columns = ", ".join(CoarseClass.__struct_fields__)
    class_list = tuple(classes)
    if not class_list:
        return Predicate("false", ())
    marks = ", ".join(["(?, ?, ?, ?)"] * len(class_list))
    return Predicate(f"(({columns}) in ({marks}))", tuple(value for each in class_list for value in astuple(each)))


def both(one: Predicate, other: Predicate) -> Predicate:
    """Return the conjunction of two predicates."""
    return _joined(" and ", (one, other))


def _selects(pattern: _Pattern, requests: CoarseClass) -> bool:
    """Return the result of `_predicate`, without names."""
    return (
        (requests.verb in pattern.verbs or (pattern.connect and requests.subresource in CONNECT_SUBRESOURCES))
        and (not pattern.groups or requests.api_group in pattern.groups)
        and pattern.resource in (ANY, requests.resource)
        and pattern.subresource in (ANY, requests.subresource)
    )


def _patterns(rule: Rule, match_policy: MatchPolicy, mapper: EquivalentResourceMapper) -> Iterable[_Pattern]:
    """Yield one pattern for each resource of a rule."""
    operations = (*_VERBS, "CONNECT") if ANY in rule.operations else rule.operations
    verbs = {verb for operation in operations for verb in _VERBS.get(operation, ())}
    for resource in rule.resources:
        name, _, subresource = resource.partition("/")
        yield _Pattern(
            verbs=tuple(verb for verb in _EVERY_VERB if verb in verbs),
            connect="CONNECT" in operations,
            groups=_groups(rule, name, match_policy, mapper),
            resource=name,
            subresource=subresource,
            names=rule.resource_names,
        )


def _groups(rule: Rule, resource: str, match_policy: MatchPolicy, mapper: EquivalentResourceMapper) -> tuple[str, ...]:
    """Return the groups that a rule can match, with those of equivalent resources. Empty stands for any group."""
    if ANY in rule.api_groups:
        return ()
    if match_policy is not MatchPolicy.EQUIVALENT:
        return rule.api_groups
    if resource == ANY:
        return () if mapper.crosses_groups(rule.api_groups) else rule.api_groups
    groups = dict.fromkeys(rule.api_groups)
    for group in rule.api_groups:
        groups.update(dict.fromkeys(mapper.equivalent_groups(group, resource)))
    return tuple(groups)


def _by_resource(patterns: Iterable[_Pattern]) -> Iterable[tuple[_Pattern, tuple[str, ...]]]:
    """Return patterns that differ only in their resources as one.

    DuckDB plans a long predicate more slowly than it runs it.
    """
    resources: dict[_Pattern, list[str]] = {}
    for pattern in patterns:
        if pattern.resource == ANY:
            resources[pattern] = []
        else:
            resources.setdefault(pattern._replace(resource=""), []).append(pattern.resource)
    return ((pattern, tuple(names)) for pattern, names in resources.items())


def _predicate(pattern: _Pattern, resources: tuple[str, ...]) -> Predicate:
    """Return one pattern as SQL for some resources; no resources mean all."""
    parts = [_verb_predicate(pattern)]
    if pattern.groups:
        parts.append(_any_of("api_group", pattern.groups))
    if resources:
        parts.append(_any_of("resource", resources))
    if pattern.subresource != ANY:
        parts.append(Predicate("subresource = ?", (pattern.subresource,)))
    if pattern.names:
        # The log has no name for a deletecollection, nor for a generated name, which is only in the response.
        parts.append(_any_of("name", ("", *pattern.names)))
    return _joined(" and ", parts)


def _verb_predicate(pattern: _Pattern) -> Predicate:
    """Return the verbs of the operations as SQL. A CONNECT is known by its subresource."""
    parts = [_any_of("verb", pattern.verbs)] if pattern.verbs else []
    if pattern.connect:
        parts.append(_any_of("subresource", CONNECT_SUBRESOURCES))
    return _joined(" or ", parts) if parts else Predicate("false", ())


def _without_excluded(predicate: Predicate, excluded: frozenset[GroupResource]) -> Predicate:
    """Exclude requests that no policy and no webhook ever evaluates."""
    resources: dict[str, list[str]] = {}
    for group, resource in sorted(excluded):
        resources.setdefault(group, []).append(resource)
    if not resources:
        return predicate
    groups = [
        _joined(" and ", (_any_of("api_group", (group,)), _any_of("resource", names)))
        for group, names in resources.items()
    ]
    never = _joined(" or ", groups)
    # `_joined` has set parentheses, so `not` applies to all of it.
    return Predicate(f"{predicate.sql} and not {never.sql}", predicate.parameters + never.parameters)


def _any_of(column: str, values: Sequence[str]) -> Predicate:
    """Return a predicate that a column has one of the values. Columns are names of this module, never input."""
    marks = ", ".join("?" * len(values))
    return Predicate(f"{column} in ({marks})", tuple(values))


def _joined(operator: str, predicates: Sequence[Predicate]) -> Predicate:
    """Return predicates joined by `and` or `or`, in parentheses."""
    parameters = tuple(value for predicate in predicates for value in predicate.parameters)
    return Predicate(f"({operator.join(predicate.sql for predicate in predicates)})", parameters)

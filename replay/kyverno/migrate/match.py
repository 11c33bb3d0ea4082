"""`match` and `exclude` of a rule as CEL (see `replay.kyverno.rules.match`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from replay.kube.discovery import APIResource, Discovery
from replay.kube.gvk import GroupVersionResource
from replay.kube.schema import Schema, Schemas
from replay.kyverno.migrate.formula import (
    COMPARISON,
    FALSE,
    TRUE,
    Formula,
    NoEquivalentError,
    all_of,
    any_of,
    compared,
    fits_any_wildcard,
    fits_wildcard,
    literal,
    negated,
)
from replay.kyverno.rules.go_value import as_map
from replay.kyverno.rules.match import SelectorError, is_empty_description, matches_selector
from replay.kyverno.wildcard import has_wildcard, parse_kind_selector, selected_resources

Resource = tuple[str, str, str, str]
"""Group, version, resource and subresource."""

_PODS: Resource = ("", "v1", "pods", "")
_EPHEMERAL: Resource = ("", "v1", "pods", "ephemeralcontainers")
_NAMESPACES: Resource = ("", "v1", "namespaces", "")
_USER = ("subjects", "roles", "clusterRoles")


class Reading(Struct, frozen=True):
    """Expressions that read the parts of a request.

    `is_before` reads the old object as if the request created it.
    """

    object: str
    operation: str = "request.operation"
    is_before: bool = False


class Match(Struct, frozen=True):
    """Everything that a rule matches: resources with their schemas, operations and further conditions."""

    resources: tuple[Resource, ...]
    operations: tuple[str, ...]
    schemas: tuple[Schema, ...]
    filters: tuple[_Filter, ...]
    is_all: bool
    exclude: Mapping[str, Any]
    discovery: Discovery

    @property
    def is_namespaced(self) -> bool:
        """Whether each request that matches has a namespace."""
        kinds = (self.discovery.resource(GroupVersionResource(*each[:3])) for each in self.resources)
        return all(each is not None and each.namespaced for each in kinds)

    def rules(self) -> list[dict[str, Any]]:
        """Return `resourceRules`."""
        grouped: dict[tuple[str, str], list[str]] = {}
        for group, version, resource, subresource in self.resources:
            name = f"{resource}/{subresource}" if subresource else resource
            grouped.setdefault((group, version), []).append(name)
        return [
            {
                "apiGroups": [group],
                "apiVersions": [version],
                "operations": list(self.operations),
                "resources": resources,
            }
            for (group, version), resources in grouped.items()
        ]

    def condition(self, reading: Reading) -> Formula:
        """Return the conditions besides resources and operations. Raises UnsaidError."""
        shown = [self._filter(each, reading, is_only=len(self.filters) == 1) for each in self.filters]
        matched = all_of(*shown) if self.is_all else any_of(*shown)
        return all_of(matched, negated(self._excluded(reading)))

    @property
    def root(self) -> str:
        """Expression of the object that the rule evaluates: on DELETE it is the old object."""
        if "DELETE" not in self.operations:
            return "object"
        return "oldObject" if self.operations == ("DELETE",) else "(request.operation == 'DELETE' ? oldObject : object)"

    def _excluded(self, reading: Reading) -> Formula:
        exclude = self.exclude
        if exclude.get("any"):
            return any_of(*(self._exclusion(each, reading) for each in exclude["any"]))
        if exclude.get("all"):
            return all_of(*(self._exclusion(each, reading) for each in exclude["all"]))
        return self._exclusion({key: each for key, each in exclude.items() if key not in ("any", "all")}, reading)

    def _exclusion(self, block: Mapping[str, Any], reading: Reading) -> Formula:
        resources = as_map(block.get("resources"))
        if is_empty_description(resources) and not any(block.get(key) for key in _USER):
            return FALSE
        kinds = tuple(resources.get("kinds") or ())
        filter_ = _Filter(block, _resources(self.discovery, kinds) if kinds else None)
        user = _user(block) if not reading.is_before or not block.get("subjects") else FALSE
        return all_of(self._description(filter_, reading, is_only=False), user)

    def _filter(self, filter_: _Filter, reading: Reading, *, is_only: bool) -> Formula:
        user = _user(filter_.block) if not reading.is_before else TRUE
        return all_of(self._description(filter_, reading, is_only=is_only), user)

    def _description(self, filter_: _Filter, reading: Reading, *, is_only: bool) -> Formula:
        resources = as_map(filter_.block.get("resources"))
        conditions: list[Formula] = []
        own = filter_.resources
        if own is not None and not is_only and not set(self.resources) <= set(own):
            conditions.append(_is_one_of([each for each in own if each in self.resources], self.resources))
        operations = resources.get("operations")
        if operations:
            if reading.is_before:
                conditions.append(TRUE if "CREATE" in operations else FALSE)
            elif not set(self.operations) <= set(operations):
                conditions.append(Formula(f"request.operation in {literal(list(operations))}", COMPARISON))
        conditions += _named(resources, reading, self._is_for(_NAMESPACES, own))
        selector = resources.get("selector")
        if selector is not None:
            conditions.append(_selected(selector, f"{reading.object}.?metadata.?labels"))
        selector = resources.get("namespaceSelector")
        if selector is not None:
            conditions.append(self._namespace_selected(selector, own))
        return all_of(*conditions)

    def _is_for(self, resource: Resource, own: tuple[Resource, ...] | None) -> bool | None:
        """Return whether a filter is only for a resource (True), never for it (False), or for it among others (None)."""
        names = {each for each in own if each in self.resources} if own is not None else set(self.resources)
        return resource in names if len(names) == 1 or resource not in names else None

    def _namespace_selected(self, selector: Mapping[str, Any], own: tuple[Resource, ...] | None) -> Formula:
        """Return the condition on the labels of the namespace.

        A cluster-scoped object has no such labels. A Namespace is never selected.
        """
        is_namespace = self._is_for(_NAMESPACES, own)
        if is_namespace:
            return FALSE
        labels = "(namespaceObject == null ? {} : namespaceObject.?metadata.?labels.orValue({}))"
        selected = _selected(selector, labels)
        return (
            selected if is_namespace is False else all_of(compared("request.kind.kind", "!=", "'Namespace'"), selected)
        )


class _Filter(Struct, frozen=True):
    """Filter of `match` or `exclude`, with the resources of its kinds. They are None if it names no kinds."""

    block: Mapping[str, Any]
    resources: tuple[Resource, ...] | None


def match_of(rule: Mapping[str, Any], default: Sequence[str], discovery: Discovery, schemas: Schemas) -> Match:
    """Return what a rule matches. `default` are the operations of a filter without any. Raises UnsaidError."""
    match = as_map(rule.get("match"))
    is_all = not match.get("any") and bool(match.get("all"))
    blocks = match.get("any") or match.get("all") or [{k: v for k, v in match.items() if k not in ("any", "all")}]
    filters: list[_Filter] = []
    found: dict[Resource, None] = {}
    operations: dict[str, None] = {}
    for block in blocks:
        resources = as_map(block.get("resources"))
        kinds = tuple(resources.get("kinds") or ())
        if not kinds:
            raise NoEquivalentError("a filter of `match` names no kinds")
        own = _resources(discovery, kinds)
        filters.append(_Filter(block, own))
        found.update(dict.fromkeys(own))
        operations.update(dict.fromkeys(resources.get("operations") or default))
    return Match(
        tuple(found),
        tuple(each for each in ("CREATE", "UPDATE", "DELETE", "CONNECT") if each in operations),
        tuple(_schemas(found, discovery, schemas)),
        tuple(filters),
        is_all,
        as_map(rule.get("exclude")),
        discovery,
    )


def _resources(discovery: Discovery, kinds: Iterable[str]) -> tuple[Resource, ...]:
    """Return the resources that kinds select, in order. Raises UnsaidError."""
    found: dict[Resource, None] = {}
    for kind in kinds:
        if has_wildcard(parse_kind_selector(kind).kind):
            raise NoEquivalentError(f"the kind `{kind}` has wildcards")
        own = sorted(selected_resources(discovery, [kind]))
        if not own:
            raise NoEquivalentError(f"the kind `{kind}` is not known: give its CustomResourceDefinition in --cluster")
        found.update(dict.fromkeys(own))
    if _PODS in found:
        # Kyverno adds this subresource to its webhook for each rule about pods.
        found[_EPHEMERAL] = None
    return tuple(found)


def _schemas(resources: Iterable[Resource], discovery: Discovery, schemas: Schemas) -> Iterable[Schema]:
    for group, version, name, subresource in resources:
        served: APIResource | None = discovery.resource(GroupVersionResource(group, version, name))
        schema = schemas.for_kind(served.kind) if served is not None else None
        if schema is not None and (not subresource or subresource == "ephemeralcontainers"):
            yield schema


def _is_one_of(own: Sequence[Resource], of: Sequence[Resource]) -> Formula:
    """Return the shortest condition that a request is for one of `own` among the resources `of`."""
    names = {resource for _, _, resource, _ in own}
    rest = [each for each in of if each not in own]
    named = fits_any_wildcard(sorted(names), "request.resource.resource")
    if not any(resource in names for _, _, resource, _ in rest):
        return named
    subresource = "request.?subResource.orValue('')"
    return any_of(
        *(
            all_of(
                compared("request.resource.group", "==", literal(group)),
                compared("request.resource.version", "==", literal(version)),
                compared("request.resource.resource", "==", literal(resource)),
                compared(subresource, "==", literal(sub)),
            )
            for group, version, resource, sub in own
        )
    )


def _named(resources: Mapping[str, Any], reading: Reading, is_namespace: bool | None) -> list[Formula]:
    """Return the conditions on names, namespaces and annotations."""
    metadata = f"{reading.object}.?metadata"
    generated = f"{metadata}.?generateName.orValue('')"
    name = f"{metadata}.?name.orValue({generated})"
    conditions = []
    if resources.get("name"):
        conditions.append(fits_wildcard(str(resources["name"]), name))
    if resources.get("names"):
        conditions.append(fits_any_wildcard(map(str, resources["names"]), name))
    if resources.get("namespaces"):
        names = list(map(str, resources["namespaces"]))
        own, of_namespace = f"{metadata}.?name.orValue('')", f"{metadata}.?namespace.orValue('')"
        if is_namespace is None:
            text = f"(request.kind.kind == 'Namespace' ? {own} : {of_namespace})"
        else:
            text = own if is_namespace else of_namespace
        conditions.append(fits_any_wildcard(names, text))
    for key, value in as_map(resources.get("annotations")).items():
        if has_wildcard(key):
            raise NoEquivalentError(f"the annotation `{key}` has wildcards in its key")
        place = f"{metadata}.?annotations[?{literal(key)}]"
        fits = fits_wildcard(str(value), f"{place}.orValue('')")
        conditions.append(all_of(Formula(f"{place}.hasValue()"), fits))
    return conditions


def _selected(selector: Mapping[str, Any], labels: str) -> Formula:
    """Return the condition that a selector selects labels. `labels` is the expression of an optional or of a map."""
    wanted = as_map(selector.get("matchLabels"))
    if any(has_wildcard(key) or has_wildcard(str(value)) for key, value in wanted.items()):
        raise NoEquivalentError("a label selector has wildcards")
    try:
        matches_selector(selector, {})
    except SelectorError as error:
        raise NoEquivalentError(f"the label selector is wrong: {error}") from None
    conditions = []

    def place(key: str) -> str:
        return f"{labels}[?{literal(key)}]"

    for key, value in wanted.items():
        found = f"{place(key)}.orValue('')"
        # A value that is not empty differs from the default, so the label need not be tested for.
        has = TRUE if value else Formula(f"{place(key)}.hasValue()")
        conditions.append(all_of(has, compared(found, "==", literal(str(value)))))
    for each in selector.get("matchExpressions") or ():
        key, operator = str(each["key"]), each["operator"]
        has = Formula(f"{place(key)}.hasValue()")
        if operator in ("In", "NotIn"):
            values = [str(value) for value in each["values"]]
            has_it = all_of(has, Formula(f"{place(key)}.orValue('') in {literal(values)}", COMPARISON))
            conditions.append(has_it if operator == "In" else negated(has_it))
        else:
            conditions.append(has if operator == "Exists" else negated(has))
    return all_of(*conditions)


def _user(block: Mapping[str, Any]) -> Formula:
    """Return the condition that the user is one of the subjects. Raises UnsaidError for roles."""
    for field in ("roles", "clusterRoles"):
        if block.get(field):
            raise NoEquivalentError(f"`{field}` are those of bindings, which CEL does not see")
    subjects = block.get("subjects")
    if not subjects:
        return TRUE
    users: list[str] = []
    groups: list[str] = []
    for each in subjects:
        kind, name = each.get("kind"), str(each.get("name") or "")
        if kind == "ServiceAccount":
            users.append(f"system:serviceaccount:{each.get('namespace') or ''}:{name}")
        elif kind == "User":
            users.append(name)
        elif kind == "Group":
            groups.append(name)
    conditions = [fits_any_wildcard(users, "request.?userInfo.?username.orValue('')")] if users else []
    if groups:
        fits = fits_any_wildcard(groups, "group")
        conditions.append(Formula(f"request.?userInfo.?groups.orValue([]).exists(group, {fits.text})"))
    return any_of(*conditions)

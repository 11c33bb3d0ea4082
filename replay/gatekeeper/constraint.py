"""Constraints: refusals, matching, and actions on violations (`constraint/pkg/client`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

from replay.gatekeeper.rego.value import Value, number_of
from replay.gatekeeper.template import ConstraintTemplate, RefusedError
from replay.go.format import aggregate, float_text
from replay.json import JSON
from replay.kube.admissionregistration import LabelSelector, LabelSelectorRequirement
from replay.kube.attributes import Missing
from replay.kube.custom_schema import defaulted, problems, pruned, unknown_fields
from replay.kube.engine_policy import group_of
from replay.manifests.match_validation import validate_label_selector
from replay.matching.selectors import MatchSelectorError, Selector, selector_from_label_selector

# `match` of constraints and mutators (`gatekeeper/pkg/mutation/match`, `pkg/target/matcher.go`, `pkg/wildcard`).

ORIGINAL, GENERATED, ALL = "Original", "Generated", "All"


class MatchError(Exception):
    """Object that cannot be matched. `str()` is Gatekeeper's message."""


class NotKnownError(Exception):
    """Match that is unknown. `str()` is the reason."""


class Matchable(Struct, frozen=True):
    """Object with its namespace and origin. `namespace` is None for a cluster-scoped object."""

    object: Mapping[str, JSON]
    namespace: Mapping[str, JSON] | None = None
    source: str = ORIGINAL


class Match(Struct, frozen=True):
    """Match criteria. Empty fields match everything."""

    kinds: tuple[tuple[frozenset[str], frozenset[str]], ...] = ()
    scope: str = ""
    namespaces: tuple[str, ...] = ()
    excluded_namespaces: tuple[str, ...] = ()
    label_selector: Selector | str | None = None
    namespace_selector: Selector | str | None = None
    name: str = ""
    source: str = ""

    def matches(self, target: Matchable) -> bool:
        """Return whether an object matches. Raises MatchError and NotKnownError."""
        return (
            self.may_match(*group_kind_of(target.object))
            and self._scope_matches(target)
            # None, for a cluster-scoped object, passes both tests.
            and (not self.namespaces or self._namespace_is_one_of(self.namespaces, target) is not False)
            and (
                not self.excluded_namespaces or self._namespace_is_one_of(self.excluded_namespaces, target) is not True
            )
            and (self.label_selector is None or _selected(self.label_selector, labels_of(target.object)))
            and (self.namespace_selector is None or self._namespace_selected(self.namespace_selector, target))
            and (not self.name or self._name_matches(target))
            and self._source_matches(target)
        )

    def may_match(self, group: str, kind: str) -> bool:
        """Return whether objects of a kind can match."""
        return not self.kinds or any(
            (not kinds or "*" in kinds or kind in kinds) and (not groups or "*" in groups or group in groups)
            for groups, kinds in self.kinds
        )

    def _scope_matches(self, target: Matchable) -> bool:
        has_namespace = bool(_metadata(target.object, "namespace")) or target.namespace is not None
        if self.scope == "Cluster":
            return is_namespace(target.object) or not has_namespace
        if self.scope == "Namespaced":
            return not is_namespace(target.object) and has_namespace
        return True

    def _namespace_is_one_of(self, patterns: tuple[str, ...], target: Matchable) -> bool | None:
        """Return whether the namespace fits one of the patterns, or None for an object without a namespace."""
        if is_namespace(target.object):
            name = _metadata(target.object, "name")
        elif target.namespace is not None:
            name = _metadata(target.namespace, "name")
        elif not (name := _metadata(target.object, "namespace")):
            return None
        return any(fits(pattern, name) for pattern in patterns)

    def _namespace_selected(self, selector: Selector | str, target: Matchable) -> bool:
        of_namespace = is_namespace(target.object)
        if not of_namespace and target.namespace is None and not _metadata(target.object, "namespace"):
            return True
        if isinstance(selector, str):
            raise MatchError(selector)
        if of_namespace:
            return _selected(selector, labels_of(target.object))
        if target.namespace is None:
            raise MatchError("namespace selector for namespace-scoped object but missing Namespace")
        return _selected(selector, labels_of(target.namespace))

    def _name_matches(self, target: Matchable) -> bool:
        if fits(self.name, _metadata(target.object, "name")):
            return True
        # The API server appends to `generateName`, so only a pattern with an open end can match it.
        if not self.name.endswith("*"):
            return False
        return fits(self.name, _metadata(target.object, "generateName"))

    def _source_matches(self, target: Matchable) -> bool:
        wanted = self.source or ALL
        if wanted not in (ORIGINAL, GENERATED, ALL):
            raise MatchError(f'invalid source field "{wanted}"')
        if not target.source and wanted != ALL:
            raise MatchError(f"source field not specified for resource {_metadata(target.object, 'name')}")
        return wanted in (ALL, target.source)


def match_of(value: JSON) -> Match:
    """Return the match criteria of a constraint or mutator."""
    value = value if isinstance(value, dict) else {}
    return Match(
        kinds=tuple(
            (frozenset(each.get("apiGroups") or ()), frozenset(each.get("kinds") or ()))
            for each in value.get("kinds") or ()
        ),
        scope=value.get("scope") or "",
        namespaces=tuple(value.get("namespaces") or ()),
        excluded_namespaces=tuple(value.get("excludedNamespaces") or ()),
        label_selector=_selector(value.get("labelSelector")),
        namespace_selector=_selector(value.get("namespaceSelector")),
        name=value.get("name") or "",
        source=value.get("source") or "",
    )


def _selector(value: JSON) -> Selector | str | None:
    """Return a parsed selector, or the error text of an invalid one."""
    if value is None:
        return None
    expressions = tuple(
        LabelSelectorRequirement(each.get("key") or "", each.get("operator") or "", tuple(each.get("values") or ()))
        for each in value.get("matchExpressions") or ()
    )
    try:
        return selector_from_label_selector(LabelSelector(dict(value.get("matchLabels") or {}), expressions))
    except MatchSelectorError as error:
        return str(error)


def _selected(selector: Selector | str, labels: Mapping[str, Any]) -> bool:
    if isinstance(selector, str):
        raise MatchError(selector)
    found = selector.matches(labels)
    if isinstance(found, Missing):
        raise NotKnownError(found.reason)
    return found


def fits(pattern: str, text: str) -> bool:
    """Return whether a text fits a pattern, which can begin and end with `*` (`wildcard.Matches`)."""
    if pattern.startswith("*") and pattern.endswith("*"):
        return pattern.removeprefix("*").removesuffix("*") in text
    if pattern.startswith("*"):
        return text.endswith(pattern[1:])
    return text.startswith(pattern[:-1]) if pattern.endswith("*") else pattern == text


def group_kind_of(value: Mapping[str, JSON]) -> tuple[str, str]:
    """Return the group and kind of an object."""
    return group_of(value), str(value.get("kind") or "")


def is_namespace(value: Mapping[str, JSON]) -> bool:
    """Return whether an object is a Namespace."""
    return value.get("kind") == "Namespace" and not group_of(value)


def _metadata(value: Mapping[str, JSON], name: str) -> str:
    found = known_field(value, name)
    return found if isinstance(found, str) else ""


def known_field(value: Mapping[str, JSON], name: str) -> JSON:
    """Return a field of an object's metadata. Raises NotKnownError."""
    metadata = value.get("metadata")
    if isinstance(metadata, Missing):
        raise NotKnownError(metadata.reason)
    found = metadata.get(name) if isinstance(metadata, dict) else None
    if isinstance(found, Missing):
        raise NotKnownError(found.reason)
    return found


def labels_of(value: Mapping[str, JSON]) -> Mapping[str, Any]:
    """Return the labels of an object, or none if one of them is not a string, as Go's `GetLabels` does."""
    found = known_field(value, "labels")
    if not isinstance(found, dict) or any(not isinstance(item, str | Missing) for item in found.values()):
        return {}
    return found


GROUP = "constraints.gatekeeper.sh"
WEBHOOK, AUDIT, GATOR, NATIVE = "validation.gatekeeper.sh", "audit.gatekeeper.sh", "gator.gatekeeper.sh", "vap.k8s.io"
ACTIONS = ("deny", "warn", "dryrun")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)


class Constraint(Struct, frozen=True):
    """Constraint of a template."""

    template: ConstraintTemplate
    name: str
    object: JSON
    match: Match | None
    """Match criteria. None matches every object."""
    action: str
    scoped: dict[str, tuple[str, ...]]
    """Actions by enforcement point, if the action is `scoped`."""
    parameters: Value

    @property
    def key(self) -> str:
        """Kind and name."""
        return f"{self.template.kind}/{self.name}"

    def actions_at(self, point: str) -> tuple[str, ...]:
        """Return the actions of a violation at an enforcement point.

        There are none if the constraint is not enforced there.
        """
        if self.action != "scoped":
            return (self.action,)
        return self.scoped.get(point, ())


def constraint_of(value: JSON, template: ConstraintTemplate, *, prune: bool = False) -> Constraint:
    """Return a constraint. Raises RefusedError.

    `prune` drops unknown fields first, as the API server does.
    """
    metadata = value.get("metadata") or {}
    name = metadata.get("name") or ""
    if not name:
        raise RefusedError("invalid Constraint: missing metadata.name")
    if prune:
        value = pruned(template.schema, value, is_root=True)
    match = ((value.get("spec") or {}).get("match")) if isinstance(value.get("spec"), dict | None) else None
    for field in ("labelSelector", "namespaceSelector"):
        _check_selector((match or {}).get(field) if isinstance(match, dict) else None)
    # The order of these checks is Gatekeeper's: only the first error is reported.
    if not _SUBDOMAIN.fullmatch(name) or len(name) > 253:
        raise RefusedError(
            "invalid Constraint: invalid name: \"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end "
            "with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')\""
        )
    if value.get("kind") != template.kind:
        raise RefusedError(
            f'invalid Constraint: wrong kind "{value.get("kind")}" for constraint "{name}"; want "{template.kind}"'
        )
    version = str(value.get("apiVersion") or "").rpartition("/")[2]
    if version not in ("v1alpha1", "v1beta1"):
        raise RefusedError(
            f'invalid Constraint: unsupported version "{version}" for Constraint "{name}"; supported versions: map[v1alpha1:true v1beta1:true]'
        )
    found = list(problems(template.schema, _with_floats(value)))
    if found:
        raise RefusedError("schema validation failed: " + aggregate(f"[].{each}" for each in found))
    unknown = list(unknown_fields(template.schema, value, is_root=True))
    if unknown:
        raise RefusedError(f"invalid Constraint: unknown fields: [{' '.join(unknown)}]")
    value = defaulted(template.schema, value)
    spec = value.get("spec") or {}
    action = spec.get("enforcementAction", "deny")
    parameters = spec.get("parameters")
    return Constraint(
        template=template,
        name=name,
        object=value,
        match=None if spec.get("match") is None else match_of(spec["match"]),
        action=action,
        scoped=_scoped(spec) if action == "scoped" else {},
        parameters={} if parameters is None else stored(parameters),
    )


def _check_selector(value: JSON) -> None:
    if not isinstance(value, dict):
        return
    expressions = [
        {"key": each.get("key") or "", "operator": each.get("operator") or "", "values": each.get("values")}
        for each in value.get("matchExpressions") or ()
    ]
    selector = {"matchLabels": value.get("matchLabels"), "matchExpressions": expressions}
    # Gatekeeper names `labelSelector` for both selectors, and not `match` above it.
    if found := aggregate(validate_label_selector(selector, "spec.labelSelector")):
        raise RefusedError(f"invalid Constraint: {found}")


def _scoped(spec: JSON) -> dict[str, tuple[str, ...]]:
    """Return the actions by enforcement point (`GetEnforcementActionsForEP`). Raises RefusedError."""
    given = spec.get("scopedEnforcementActions")
    if not isinstance(given, list):
        raise RefusedError("missing required field: spec.scopedEnforcementActions must be defined")
    found: dict[str, dict[str, None]] = {point: {} for point in (WEBHOOK, AUDIT, GATOR, NATIVE)}
    for each in given:
        action = str(each.get("action") or "")
        for point in each.get("enforcementPoints") or ():
            name = point.get("name") or ""
            if name == "*":
                for actions in found.values():
                    actions[action] = None
                break
            if name in found:
                found[name][action] = None
    return {point: tuple(actions) for point, actions in found.items()}


def stored(value: Any) -> Value:
    """Return a value as it is in OPA's storage: written as JSON, with integers in full."""
    if isinstance(value, dict):
        return {key: stored(item) for key, item in value.items()}
    if isinstance(value, list):
        return [stored(item) for item in value]
    return number_of(float_text(value)) if isinstance(value, float) else value


def _with_floats(value: JSON) -> JSON:
    """Return a value with all numbers as float64, as Gatekeeper validates it against the schema."""
    if isinstance(value, dict):
        return {key: _with_floats(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_with_floats(each) for each in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


GroupKind = tuple[str, str]
ActionsByConstraint = tuple[tuple[Constraint, tuple[str, ...]], ...]
"""Constraints with the actions on a violation."""
_MOST_CACHED: Final = 4096
"""Size limit of the cache by kinds, operation and enforcement point. The kinds come from untrusted objects."""


class ConstraintIndex:
    """Constraints of a set, indexed by the kind, operation and enforcement point that they may match."""

    def __init__(self, constraints: Iterable[Constraint]) -> None:
        """Keep the constraints in the given order."""
        self._constraints = tuple(constraints)
        self._cached: dict[tuple[frozenset[GroupKind], str, str], ActionsByConstraint] = {}

    def constraints_for(self, kinds: frozenset[GroupKind], operation: str, point: str) -> ActionsByConstraint:
        """Return the constraints that are enforced at a point and may match one of the kinds and the operation."""
        key = kinds, operation, point
        asked = self._cached.get(key)
        if asked is None:
            if len(self._cached) >= _MOST_CACHED:
                self._cached.clear()
            asked = self._cached[key] = tuple(
                (each, actions)
                for each in self._constraints
                if (actions := each.actions_at(point))
                and (point != WEBHOOK or each.template.handles(operation))
                and (each.match is None or not kinds or any(each.match.may_match(*kind) for kind in kinds))
            )
        return asked

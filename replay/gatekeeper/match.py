"""`match` of constraints and mutators (`gatekeeper/pkg/mutation/match`, `pkg/target/matcher.go`, `pkg/wildcard`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from replay.json import JSON
from replay.kube.admissionregistration import LabelSelector, LabelSelectorRequirement
from replay.kube.attributes import Missing
from replay.matching.selectors import MatchSelectorError, Selector, selector_from_label_selector

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


def group_of(value: Mapping[str, JSON]) -> str:
    """Return the group of an object's `apiVersion`."""
    group, slash, _ = str(value.get("apiVersion") or "").rpartition("/")
    return group if slash else ""


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

"""Match of a rule and a request: `match` and `exclude` (`pkg/engine/utils/match.go`, `pkg/utils/match`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from replay.json import JSON
from replay.kube.gvk import GroupVersionKind
from replay.kyverno.kind_selector import matches_kind
from replay.kyverno.rules.errors import UndeterminedError
from replay.kyverno.rules.go_value import as_map, known, sprint
from replay.kyverno.rules.selector import SelectorError, matches_selector
from replay.kyverno.wildcard import matches_wildcard

_OF_RESOURCE = ("kinds", "name", "names", "namespaces", "annotations", "operations")
_OF_USER = ("roles", "clusterRoles", "subjects")


class Requester(Struct, frozen=True):
    """User with roles from bindings (`kyvernov2.RequestInfo`). `unknown` is the reason if the roles are unknown."""

    username: str = ""
    groups: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    cluster_roles: tuple[str, ...] = ()
    is_empty: bool = False
    unknown: str = ""


class Subject(Struct, frozen=True):
    """Facts that a rule matches besides the object: kind, subresource, operation and user."""

    kind: GroupVersionKind
    subresource: str
    operation: str
    requester: Requester
    namespace_labels: Mapping[str, str]


def matches_rule(rule: Mapping[str, Any], obj: JSON, subject: Subject, policy_namespace: str) -> bool:
    """Return whether a rule matches an object (`MatchesResourceDescription`)."""
    if obj is None:
        return False
    if policy_namespace and policy_namespace != _namespace(obj):
        return False
    match = as_map(rule.get("match"))
    if match.get("any"):
        matched = any(_matches_filter(each, obj, subject) for each in match["any"])
    elif match.get("all"):
        matched = all(_matches_filter(each, obj, subject) for each in match["all"])
    else:
        matched = _matches_filter(_own_filter(match), obj, subject)
    return matched and not _is_excluded(as_map(rule.get("exclude")), obj, subject)


def why_unmatched(rule: Mapping[str, Any], obj: JSON, subject: Subject) -> str:
    """Return why a rule does not match: the first unmet part of `match`, or `exclude`."""
    match = as_map(rule.get("match"))
    field = "any" if match.get("any") else "all" if match.get("all") else ""
    filters = match[field] if field else [_own_filter(match)]
    reasons = []
    for index, filter_ in enumerate(filters):
        if _matches_filter(filter_, obj, subject):
            continue
        place = f"match.{field}[{index}]" if field else "match"
        resources = as_map(filter_.get("resources"))
        parts = [({"resources": {key: resources[key]}}, f"resources.{key}", resources[key]) for key in resources]
        parts += [({key: filter_[key]}, key, filter_[key]) for key in _OF_USER if filter_.get(key)]
        wrong = next((each for each in parts if not _matches_filter(each[0], obj, subject)), None)
        reasons.append(f"{place}.{wrong[1]} is {sprint(wrong[2])}" if wrong is not None else f"{place} is empty")
    if len(reasons) == len(filters) or (reasons and field == "all"):
        return reasons[0]
    return "`exclude` leaves the request out"


def _own_filter(block: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the filter directly in `match` or `exclude`, as in old policies."""
    return {key: value for key, value in block.items() if key not in ("any", "all")}


def _is_excluded(exclude: Mapping[str, Any], obj: JSON, subject: Subject) -> bool:
    if exclude.get("any"):
        return any(_excludes(each, obj, subject) for each in exclude["any"])
    if exclude.get("all"):
        return all(_excludes(each, obj, subject) for each in exclude["all"])
    return _excludes(_own_filter(exclude), obj, subject)


def is_empty_description(resources: Mapping[str, Any]) -> bool:
    """Return whether a filter says nothing about objects."""
    return not any(resources.get(field) for field in _OF_RESOURCE) and not any(
        resources.get(field) is not None for field in ("selector", "namespaceSelector")
    )


def _has_user(filter_: Mapping[str, Any]) -> bool:
    return any(filter_.get(field) for field in _OF_USER)


def _matches_filter(filter_: Mapping[str, Any], obj: JSON, subject: Subject) -> bool:
    resources = as_map(filter_.get("resources"))
    # Where there is no user, as in background scans, `match` ignores users. `exclude` does not.
    with_user = _has_user(filter_) and not subject.requester.is_empty
    if is_empty_description(resources) and not with_user:
        return False
    return _matches_resources(resources, obj, subject) and (not with_user or _matches_user(filter_, subject.requester))


def _excludes(filter_: Mapping[str, Any], obj: JSON, subject: Subject) -> bool:
    resources = as_map(filter_.get("resources"))
    if is_empty_description(resources) and not _has_user(filter_):
        return False
    return _matches_resources(resources, obj, subject) and _matches_user(filter_, subject.requester)


def _matches_resources(resources: Mapping[str, Any], obj: JSON, subject: Subject) -> bool:
    operations = resources.get("operations")
    if operations and subject.operation not in operations:
        return False
    selector = resources.get("namespaceSelector")
    if selector is not None:
        kind = _kind(obj)
        if kind == "Namespace":
            return False
        if (kind or "*" in (resources.get("kinds") or ())) and not _selects(selector, subject.namespace_labels):
            return False
    return matches_description(resources, obj, subject)


def matches_description(resources: Mapping[str, Any], obj: JSON, subject: Subject) -> bool:
    """Return whether kinds, names, namespaces, annotations and labels match. Missing fields match."""
    kinds = resources.get("kinds")
    if kinds and not matches_kind(kinds, subject.kind, subject.subresource):
        return False
    name = _name(obj) if resources.get("name") or resources.get("names") else ""
    if resources.get("name") and not matches_wildcard(resources["name"], name):
        return False
    if resources.get("names") and not any(matches_wildcard(each, name) for each in resources["names"]):
        return False
    if resources.get("namespaces"):
        namespace = _metadata_text(obj, "name") if _kind(obj) == "Namespace" else _namespace(obj)
        if not any(matches_wildcard(each, namespace) for each in resources["namespaces"]):
            return False
    if resources.get("annotations") and not _has_annotations(resources["annotations"], texts_of(obj, "annotations")):
        return False
    return resources.get("selector") is None or _selects(resources["selector"], texts_of(obj, "labels"))


def _selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    try:
        return matches_selector(selector, labels)
    except SelectorError:
        return False


def _has_annotations(expected: Mapping[str, str], actual: Mapping[str, str]) -> bool:
    return all(
        any(matches_wildcard(key, own_key) and matches_wildcard(value, own) for own_key, own in actual.items())
        for key, value in expected.items()
    )


def _matches_user(filter_: Mapping[str, Any], requester: Requester) -> bool:
    for field, own in (("roles", requester.roles), ("clusterRoles", requester.cluster_roles)):
        if filter_.get(field):
            if requester.unknown:
                raise UndeterminedError(requester.unknown)
            if not set(filter_[field]) & set(own):
                return False
    return not filter_.get("subjects") or matches_subjects(filter_["subjects"], requester)


def matches_user(filter_: Mapping[str, Any], requester: Requester) -> bool:
    """Return whether roles, cluster roles and subjects match. Missing fields match."""
    return _matches_user(filter_, requester)


def matches_subjects(subjects: Sequence[Mapping[str, Any]], requester: Requester) -> bool:
    """Return whether one of the subjects, possibly with wildcards, is the user."""
    for subject in subjects:
        kind, name = subject.get("kind"), str(subject.get("name") or "")
        if kind == "ServiceAccount":
            username = f"system:serviceaccount:{subject.get('namespace') or ''}:{name}"
            if matches_wildcard(username, requester.username):
                return True
        elif (kind == "User" and matches_wildcard(name, requester.username)) or (
            kind == "Group" and any(matches_wildcard(name, group) for group in requester.groups)
        ):
            return True
    return False


def _metadata_text(obj: JSON, field: str) -> str:
    value = known(as_map(known(obj.get("metadata"))).get(field))
    return value if isinstance(value, str) else ""


def _name(obj: JSON) -> str:
    return _metadata_text(obj, "name") or _metadata_text(obj, "generateName")


def _namespace(obj: JSON) -> str:
    return _metadata_text(obj, "namespace")


def _kind(obj: JSON) -> str:
    kind = obj.get("kind")
    return kind if isinstance(kind, str) else ""


def texts_of(obj: JSON, field: str) -> Mapping[str, str]:
    """Return labels or annotations, or none if one value is not a string, as unstructured objects do."""
    texts = as_map(known(as_map(known(obj.get("metadata"))).get(field)))
    return texts if all(isinstance(known(value), str) for value in texts.values()) else {}

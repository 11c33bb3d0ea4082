"""Match of a rule and a request: `match` and `exclude` (`pkg/engine/utils/match.go`, `pkg/utils/match`)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from replay.json import JSON
from replay.kube.gvk import GroupVersionKind
from replay.kyverno.rules.go_value import as_map, known, sprint
from replay.kyverno.rules.response import UndeterminedError
from replay.kyverno.wildcard import has_wildcard, matches_kind, matches_wildcard

# Label selectors with wildcards (`pkg/engine/wildcards`, `metav1.LabelSelectorAsSelector`).

_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)
_PREFIX = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_LONGEST_NAME, _LONGEST_PREFIX = 63, 253


class SelectorError(Exception):
    """Selector with a key, value or operator that Kubernetes does not accept."""


def matches_selector(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Return whether labels match a selector whose `matchLabels` can have wildcards. Raises SelectorError."""
    wanted: dict[str, str] = {}
    for key, value in (selector.get("matchLabels") or {}).items():
        is_pattern = has_wildcard(key) or has_wildcard(value)
        wanted_key, wanted_value = _expanded(key, value, labels) if is_pattern else (key, value)
        wanted[wanted_key] = wanted_value
    return matches_plain_selector({**selector, "matchLabels": wanted}, labels)


def matches_plain_selector(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Return whether labels match a selector as the API server has it, without wildcards. Raises SelectorError."""
    wanted, expressions = selector.get("matchLabels") or {}, selector.get("matchExpressions") or ()
    _check(wanted, expressions)
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        _holds(each, labels) for each in expressions
    )


def _expanded(key: str, value: str, labels: Mapping[str, str]) -> tuple[str, str]:
    """Return the first label that fits. If none fits, wildcards become `0`, which is a valid label value."""
    for own_key in sorted(labels):
        if matches_wildcard(key, own_key) and matches_wildcard(value, labels[own_key]):
            return own_key, labels[own_key]
    return key.translate(_ZEROS), value.translate(_ZEROS)


_ZEROS = str.maketrans("*?", "00")


def _check(wanted: Mapping[str, str], expressions: Any) -> None:
    for key, value in wanted.items():
        _check_key(key)
        _check_value(value)
    for expression in expressions:
        _check_key(str(expression.get("key") or ""))
        operator, values = expression.get("operator"), expression.get("values") or ()
        if operator in ("In", "NotIn"):
            if not values:
                raise SelectorError(f"values of `{operator}` are empty")
        elif operator not in ("Exists", "DoesNotExist") or values:
            raise SelectorError(f"`{operator}` is not an operator, or takes no values")
        for value in values:
            _check_value(str(value))


def _check_key(key: str) -> None:
    prefix, slash, name = key.rpartition("/")
    if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        raise SelectorError(f"`{key}` is not a label key")
    if slash and (not _PREFIX.fullmatch(prefix) or len(prefix) > _LONGEST_PREFIX):
        raise SelectorError(f"`{key}` is not a label key")


def _check_value(value: str) -> None:
    if value and (not _NAME.fullmatch(value) or len(value) > _LONGEST_NAME):
        raise SelectorError(f"`{value}` is not a label value")


def _holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, operator, values = expression["key"], expression["operator"], expression.get("values") or ()
    if operator == "Exists":
        return key in labels
    if operator == "DoesNotExist":
        return key not in labels
    return (labels.get(key) in values if key in labels else False) is (operator == "In")


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

"""Aggregated cluster roles, whose rules a controller collects.

Source: `k8s.io/kubernetes/pkg/controller/clusterroleaggregation`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from replay.json import JSON

_MOST_ROUNDS = 32
"""The greatest number of rounds in which roles collect from roles that collect. No chain is that long."""


def aggregated(cluster_roles: Iterable[JSON]) -> list[JSON]:
    """Return the cluster roles, sorted by name, with the rules that the controller collects (`aggregationRule`).

    A role whose selectors match no known role keeps its own rules.
    """
    roles = {str(role["metadata"]["name"]): role for role in cluster_roles}
    for _ in range(_MOST_ROUNDS):
        changed = {
            name: {**role, "rules": rules}
            for name, role in roles.items()
            if role.get("aggregationRule")
            and (rules := _collected(role, roles)) is not None
            and rules != (role.get("rules") or [])
        }
        if not changed:
            break
        roles |= changed
    return [roles[name] for name in sorted(roles)]


def _collected(role: JSON, roles: Mapping[str, JSON]) -> list[JSON] | None:
    """Return the rules of all roles that a selector matches, each once, or None if no role matches."""
    own, rules, is_match = role["metadata"]["name"], [], False
    for selector in role["aggregationRule"].get("clusterRoleSelectors") or ():
        for name in sorted(roles):
            labels = roles[name]["metadata"].get("labels") or {}
            if name == own or not _matches(selector, labels):
                continue
            is_match = True
            rules += [rule for rule in _rules(roles[name]) if rule not in rules]
    return rules if is_match else None


def is_collected(role: JSON, cluster_roles: Iterable[JSON]) -> bool:
    """Return whether a role with an `aggregationRule` collects the rules of a cluster role."""
    labels = role["metadata"].get("labels") or {}
    selectors = (
        selector
        for each in cluster_roles
        if each.get("aggregationRule") and each["metadata"]["name"] != role["metadata"]["name"]
        for selector in each["aggregationRule"].get("clusterRoleSelectors") or ()
    )
    return any(_matches(selector, labels) for selector in selectors)


def _rules(role: JSON) -> Sequence[JSON]:
    rules: Sequence[JSON] = role.get("rules") or ()
    return rules


def _matches(selector: JSON, labels: Mapping[str, str]) -> bool:
    """Return whether a label selector matches (`metav1.LabelSelectorAsSelector`).

    An empty selector matches everything, an unknown operator nothing.
    """
    match_labels = selector.get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in match_labels.items()):
        return False
    return all(_meets(each, labels) for each in selector.get("matchExpressions") or ())


def _meets(expression: JSON, labels: Mapping[str, str]) -> bool:
    key, values = expression.get("key"), expression.get("values") or ()
    match expression.get("operator"):
        case "In":
            return key in labels and labels[key] in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    return False

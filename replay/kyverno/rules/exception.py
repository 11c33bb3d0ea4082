"""PolicyExceptions (kyverno.io/v2) for requests exempt from rules (`pkg/engine/utils/exceptions.go`, `pkg/exceptions`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from replay.json import JSON
from replay.kyverno.naming import key_of
from replay.kyverno.rules.condition import evaluate_conditions
from replay.kyverno.rules.go_value import as_map, with_floats
from replay.kyverno.rules.match import (
    SelectorError,
    is_empty_description,
    matches_description,
    matches_selector,
    matches_user,
)
from replay.kyverno.rules.request import Request
from replay.kyverno.rules.response import RuleError
from replay.kyverno.wildcard import matches_wildcard

PolicyException = Mapping[str, Any]


class PolicyExceptions:
    """Exceptions in force."""

    def __init__(self, exceptions: Sequence[JSON] = ()) -> None:
        """`exceptions` are whole objects."""
        self._exceptions = [with_floats(each) for each in exceptions]

    def matching(self, policy: Mapping[str, Any], rule: str, request: Request) -> list[PolicyException]:
        """Return the exceptions that exempt a request from a rule, in the given order."""
        if not self._exceptions:
            return []
        name = key_of(policy)
        return [each for each in self._exceptions if _names(each, name, rule) and _falls_under(each, request)]


def _names(exception: PolicyException, policy: str, rule: str) -> bool:
    return any(
        each.get("policyName") == policy
        and any(matches_wildcard(str(name), rule) for name in each.get("ruleNames") or ())
        for each in as_map(exception.get("spec")).get("exceptions") or ()
    )


def _falls_under(exception: PolicyException, request: Request) -> bool:
    spec = as_map(exception.get("spec"))
    match = as_map(spec.get("match"))
    resource = request.resource
    if resource is None:
        return False
    if match.get("any"):
        matched = any(_matches(each, resource, request) for each in match["any"])
    else:
        matched = bool(match.get("all")) and all(_matches(each, resource, request) for each in match["all"])
    if not matched:
        return False
    if spec.get("conditions") is None:
        return True
    try:
        return evaluate_conditions(request.context, spec["conditions"]).holds
    except RuleError:
        return False


def _matches(filter_: Mapping[str, Any], resource: JSON, request: Request) -> bool:
    resources = as_map(filter_.get("resources"))
    if is_empty_description(resources) and not any(filter_.get(key) for key in ("roles", "clusterRoles", "subjects")):
        return False
    if not matches_description(resources, resource, request.subject()):
        return False
    selector = resources.get("namespaceSelector")
    if selector is not None and resource.get("kind") not in ("Namespace", "", None):
        try:
            if not matches_selector(selector, request.own_namespace_labels()):
                return False
        except SelectorError:
            return False
    return matches_user(filter_, request.requester)

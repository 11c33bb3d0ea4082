"""Match constraints of a policy (`pkg/cel/matching`).

They match as on the API server, except for absent objects and namespaces.
"""

from __future__ import annotations

from typing import Final

from replay.kube.admissionregistration import LabelSelector, MatchResources, Rule
from replay.kube.attributes import Missing, field_of
from replay.kyverno.cel.request import CELRequest
from replay.matching.matcher import INTERNAL_ERROR
from replay.matching.rules import NAMESPACES, RuleKey, matches_rule
from replay.matching.selectors import EVERYTHING, Labels, MatchSelectorError, Selector, selector_from_label_selector

_MOST_KEYS: Final = 1024


class MatchingError(Exception):
    """Failure to evaluate match constraints. `str()` is the message."""


class Constraints:
    """`matchConstraints` with parsed selectors."""

    def __init__(self, constraints: MatchResources) -> None:
        """Parse the selectors. An invalid selector is an error only for requests that everything else matches."""
        self._constraints = constraints
        self._namespaces = _selector(constraints.namespace_selector)
        self._objects = _selector(constraints.object_selector)
        self._has_selectors = not (_is_empty(self._namespaces) and _is_empty(self._objects))
        rules = (*constraints.resource_rules, *constraints.exclude_resource_rules)
        self._is_of_names = any(rule.resource_names for rule in rules)
        self._scopes: dict[RuleKey, bool] = {}

    def may_match(self, key: RuleKey) -> bool:
        """Return whether the rules match requests with this key, whatever the object's name is."""
        rules = self._constraints.resource_rules
        return not rules or any(matches_rule(rule, key) for rule in rules)

    def matches(self, request: CELRequest) -> bool | Missing:
        """Return whether a request matches, or `Missing` if unknown. Raises MatchingError."""
        # The rules are cheap, and decide most of the time; Kyverno asks the selectors first, to the same end.
        if not self._is_in_scope(request):
            return False
        if not self._has_selectors:
            return True
        is_clustered = not request.namespace and request.resource.resource != NAMESPACES.resource
        in_namespace = True if is_clustered else _selects(self._namespaces, request, "namespace_labels")
        if in_namespace is False:
            return False
        # An object that is absent counts as one without labels.
        selected = _selects(self._objects, request, "labels")
        if selected is not True:
            old = _selects(self._objects, request, "old_labels")
            selected = old if old is True or selected is False else selected
        if selected is False:
            return False
        for selector in (self._namespaces if not is_clustered else EVERYTHING, self._objects):
            if isinstance(selector, str):
                raise MatchingError(f"{INTERNAL_ERROR}{selector}")
        return next((each for each in (in_namespace, selected) if isinstance(each, Missing)), True)

    def _is_in_scope(self, request: CELRequest) -> bool:
        """Return whether the rules match a request. The result is cached by key unless a rule names objects."""
        if self._is_of_names:
            return self._in_scope(request)
        key = request.rule_key
        in_scope = self._scopes.get(key)
        if in_scope is None:
            if len(self._scopes) >= _MOST_KEYS:
                self._scopes.clear()
            in_scope = self._scopes[key] = self._in_scope(request)
        return in_scope

    def _in_scope(self, request: CELRequest) -> bool:
        rules = self._constraints.resource_rules
        if rules and not _matches_rules(rules, request):
            return False
        return not _matches_rules(self._constraints.exclude_resource_rules, request)


def _selector(selector: LabelSelector) -> Selector | str:
    """Return a parsed selector, or the error text of an invalid one."""
    try:
        return selector_from_label_selector(selector)
    except MatchSelectorError as error:
        return str(error)


def _is_empty(selector: Selector | str) -> bool:
    return not isinstance(selector, str) and selector.is_empty


def _selects(selector: Selector | str, request: CELRequest, which: str) -> bool | Missing:
    """Return whether a selector selects labels of the request. An invalid selector counts as selecting everything."""
    if isinstance(selector, str) or selector.is_empty:
        return True
    labels: Labels | Missing = getattr(request, which)
    return labels if isinstance(labels, Missing) else selector.matches(labels)


def _matches_rules(rules: tuple[Rule, ...], request: CELRequest) -> bool:
    key = request.rule_key
    return any(matches_rule(rule, key) and _is_named(rule, request) for rule in rules)


def _is_named(rule: Rule, request: CELRequest) -> bool:
    """Return whether a rule names the object. For a generated name, the prefix counts."""
    if not rule.resource_names or request.name:
        return not rule.resource_names or request.name in rule.resource_names
    prefix = field_of(request.object, "metadata", "generateName") if not isinstance(request.object, Missing) else ""
    return isinstance(prefix, str) and any(prefix.startswith(name) for name in rule.resource_names)

"""The first criterion that does not match a request, in the server's order, in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from replay.kube.admissionregistration import MatchResources, Rule, rule_text, selector_text
from replay.kube.attributes import Attributes, Missing
from replay.kube.lister import Lister
from replay.matching.matcher import Matcher, MatchError, RequestClass, labels_of, namespace_labels
from replay.matching.rules import ANY, RuleKey, matches_resource, matches_rule
from replay.matching.selectors import Labels, MatchSelectorError, Selector, selector_from_label_selector

_NONE = MatchResources()


def mismatch_reason(match_resources: MatchResources, matcher: Matcher, attributes: Attributes, lister: Lister) -> str:
    """Return why `match_resources` do not match a request, which they must be known not to.

    The order is that of `policy/matching.Matcher.Matches`: namespaceSelector, objectSelector, excludeResourceRules,
    resourceRules.
    """
    return (
        _namespace_reason(match_resources, attributes, lister)
        or _object_reason(match_resources, attributes)
        or _exclude_reason(match_resources, matcher, attributes)
        or _rule_reason(match_resources, matcher.request_class(attributes), attributes.name)
    )


def _selector(match_selector: Selector | MatchSelectorError | None) -> Selector | None:
    return match_selector if isinstance(match_selector, Selector) and not match_selector.is_empty else None


def _namespace_reason(match_resources: MatchResources, attributes: Attributes, lister: Lister) -> str:
    if not attributes.namespace and attributes.resource.resource != "namespaces":
        return ""  # cluster-scoped requests match every namespaceSelector
    try:
        selector = _selector(selector_from_label_selector(match_resources.namespace_selector))
    except MatchSelectorError:
        return ""
    labels = namespace_labels(attributes, lister)
    if selector is None or isinstance(labels, Missing | MatchError) or selector.matches(labels):
        return ""
    label_selector = match_resources.namespace_selector
    keys = [*label_selector.match_labels, *(each.key for each in label_selector.match_expressions)]
    return f"namespaceSelector: wants {selector_text(label_selector)}; the namespace has {_labels_text(labels, keys)}"


def _object_reason(match_resources: MatchResources, attributes: Attributes) -> str:
    try:
        selector = _selector(selector_from_label_selector(match_resources.object_selector))
    except MatchSelectorError:
        return ""
    if selector is None:
        return ""
    sides = {"object": attributes.object, "oldObject": attributes.old_object}
    present = {name: side for name, side in sides.items() if side is not None and not isinstance(side, Missing)}
    labels = {name: labels_of(side) for name, side in present.items()}
    if any(isinstance(each, Missing) or selector.matches(each) for each in labels.values()):
        return ""
    label_selector = match_resources.object_selector
    keys = [*label_selector.match_labels, *(each.key for each in label_selector.match_expressions)]
    labels_text = "; ".join(
        f"{name} has {_labels_text(each, keys)}" for name, each in labels.items() if not isinstance(each, Missing)
    )
    return f"objectSelector: wants {selector_text(label_selector)}; {labels_text or 'there is no object'}"


def _labels_text(labels: Labels, keys: Iterable[str]) -> str:
    """Return the labels that a selector reads."""
    texts = [
        f"{key}={'?' if isinstance(label, Missing) else label}"
        for key in dict.fromkeys(keys)
        if (label := labels.get(key))
    ]
    return ", ".join(texts) or "none of these labels"


def _exclude_reason(match_resources: MatchResources, matcher: Matcher, attributes: Attributes) -> str:
    request = matcher.request_class(attributes)
    for rule in match_resources.exclude_resource_rules:
        alone = replace(_NONE, resource_rules=(rule,), match_policy=match_resources.match_policy)
        if matcher.criteria(alone).match_rules(request, attributes.name) is not None:
            return f"excludeResourceRules: {rule_text(rule)}"
    return ""


def _rule_reason(match_resources: MatchResources, request: RequestClass, name: str) -> str:
    """Return the criterion at which the rule fails that gets furthest."""
    rules = match_resources.resource_rules
    keys = [request.key, *(key for key, _ in request.equivalents)]
    _, reason = max((_failure(rule, key, name) for rule in rules for key in keys), default=(0, "there are no rules"))
    if reason:
        return f"resourceRules: {reason}"
    return f"resourceRules: no rule for {_resource_text(request.key)}; they are for {_all(rules)}"


def _failure(rule: Rule, key: RuleKey, name: str) -> tuple[int, str]:
    """Return how far a rule gets, and the criterion that fails. The text is empty for rules of other resources."""
    resource = key.resource
    if not (
        _has(rule.api_groups, resource.group)
        and any(matches_resource(r, resource.resource, key.subresource) for r in rule.resources)
    ):
        return 0, ""
    what = _resource_text(key)
    if not _has(rule.api_versions, resource.version):
        return 1, f"the request uses version {resource.version} of {what}, the rule has {', '.join(rule.api_versions)}"
    if not _has(rule.operations, key.operation):
        return 2, f"the operation is {key.operation}, the rule for {what} has {', '.join(rule.operations)}"
    if not matches_rule(rule, key):
        return 3, f"{what} is not of scope {rule.scope}"
    return 4, f"the name is `{name}`, the rule has {', '.join(rule.resource_names)}"


def _has(items: Sequence[str], name: str) -> bool:
    return name in items or ANY in items


def _resource_text(key: RuleKey) -> str:
    name = f"{key.resource.resource}.{key.resource.group}".removesuffix(".")
    return f"{name}/{key.subresource}" if key.subresource else name


def _all(rules: Sequence[Rule]) -> str:
    return "; ".join(dict.fromkeys(rule_text(rule) for rule in rules))

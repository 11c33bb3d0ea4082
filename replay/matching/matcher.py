"""Whether a policy, a binding or a webhook matches a request, three-valued.

The rules are those of `k8s.io/apiserver/pkg/admission/plugin/policy/matching` and, for webhooks,
`pkg/admission/plugin/webhook/generic.ShouldCallHook`: namespaceSelector, objectSelector, excludeResourceRules,
resourceRules; a selector that cannot be evaluated is an error only if the rest matches. Labels that are not known make
the answer unknown, but only where all that is known matches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from replay.identity import IdentityMap
from replay.json import JSON
from replay.kube.admissionregistration import LabelSelector, MatchPolicy, MatchResources, Rule
from replay.kube.attributes import Attributes, Missing, Operation, PartialObject
from replay.kube.gvk import GroupVersionKind, GroupVersionResource
from replay.kube.lister import Lister
from replay.matching.equivalence import EquivalentResourceMapper
from replay.matching.rules import RuleKey, matches_rule
from replay.matching.selectors import EVERYTHING, Labels, MatchSelectorError, Selector, selector_from_label_selector

INTERNAL_ERROR = "Internal error occurred: "
"""Prefix that `apierrors.NewInternalError` adds to a text."""

NAMESPACE_KIND = GroupVersionKind("", "v1", "Namespace")
_NO_LABELS: Labels = {}


class Match(Struct, frozen=True):
    """The request matches, as `kind` and `resource`; `unknown` says what that depends on, if it is not certain."""

    resource: GroupVersionResource
    kind: GroupVersionKind
    unknown: Missing | None = None


class MatchError(Struct, frozen=True):
    """The criteria cannot be evaluated for the request; `message` is the server's text."""

    message: str
    is_not_found: bool = False


MatchResult = Match | MatchError | None
"""None: the request does not match."""


class RequestClass:
    """All requests that rules cannot distinguish except by name; interned by `Matcher`, so identity is equality."""

    __slots__ = ("equivalents", "key", "kind")

    def __init__(self, key: RuleKey, kind: GroupVersionKind, mapper: EquivalentResourceMapper) -> None:
        """Look up the equivalent resources, each with its rule key and kind."""
        self.key = key
        self.kind = kind
        self.equivalents = tuple(
            (key._replace(resource=resource), mapper.kind(resource, key.subresource))
            for resource in mapper.equivalents(key.resource, key.subresource)
        )


class Criteria:
    """A compiled `MatchResources`; build it with `Matcher.criteria` so that equal ones are one object."""

    __slots__ = (
        "_results",
        "exclude_rules",
        "has_names",
        "is_steady",
        "match_all",
        "namespace",
        "object",
        "policy",
        "rules",
    )

    def __init__(self, match_resources: MatchResources, *, match_all: bool) -> None:
        """Compile the selectors; `match_all`: whether an empty list of rules matches everything."""
        self.namespace = _compile(match_resources.namespace_selector)
        self.object = _compile(match_resources.object_selector)
        self.rules = match_resources.resource_rules
        self.exclude_rules = match_resources.exclude_resource_rules
        self.policy = match_resources.match_policy
        self.match_all = match_all and not self.rules
        self.has_names = any(rule.resource_names for rule in (*self.rules, *self.exclude_rules))
        self.is_steady = self.object is EVERYTHING and not self.has_names
        """Whether the answer is the same for all requests of a class in namespaces with the same labels."""
        self._results: dict[RequestClass, MatchResult] = {}

    def match_rules(self, request: RequestClass, name: str) -> MatchResult:
        """The answer of the rules alone; without `resource_names` it is computed once for each class of requests."""
        if self.has_names:
            return self._match_rules(request, name)
        if request not in self._results:
            self._results[request] = self._match_rules(request, name)
        return self._results[request]

    def may_match(self, request: RequestClass) -> bool:
        """Whether the rules match for some name; never False where `match_rules` matches or errs."""
        if not self.has_names:
            return self.match_rules(request, "") is not None
        keys = [request.key, *(key for key, _ in request.equivalents)]
        rules = (*self.rules, *self.exclude_rules)
        return self.match_all or any(matches_rule(rule, key) for rule in rules for key in keys)

    def _match_rules(self, request: RequestClass, name: str) -> MatchResult:
        """`matching.Matcher.Matches` without the selectors."""
        excluded = self._match_list(self.exclude_rules, request, name)
        if excluded is not None:
            return excluded if isinstance(excluded, MatchError) else None
        if self.match_all:
            return Match(request.key.resource, request.kind)
        return self._match_list(self.rules, request, name)

    def _match_list(self, rules: Sequence[Rule], request: RequestClass, name: str) -> MatchResult:
        """The first rule that matches: by the resource of the request first, then by its equivalents."""
        for rule in rules:
            if matches_rule(rule, request.key) and _matches_name(rule, name):
                return Match(request.key.resource, request.kind)
        if self.policy is not MatchPolicy.EQUIVALENT:
            return None
        for rule in rules:
            for key, kind in request.equivalents:
                if matches_rule(rule, key) and _matches_name(rule, name):
                    return _match_as(key.resource, kind)
        return None


class RequestMatcher:
    """One request against many criteria: labels are looked up once, equal criteria are evaluated once."""

    __slots__ = ("_attributes", "_class", "_lister", "_memo", "_namespace_labels")

    def __init__(self, attributes: Attributes, lister: Lister, request_class: RequestClass) -> None:
        """Nothing is looked up yet."""
        self._attributes = attributes
        self._lister = lister
        self._class = request_class
        self._memo: IdentityMap[Criteria, MatchResult] = IdentityMap()
        self._namespace_labels: Labels | Missing | MatchError | None = None

    def match(self, criteria: Criteria) -> MatchResult:
        """Whether the request matches; equal criteria give the same object."""
        if criteria not in self._memo:
            self._memo[criteria] = self._match(criteria)
        return self._memo[criteria]

    def _match(self, criteria: Criteria) -> MatchResult:
        """Rules before selectors: the answer is the same, and the rules are remembered.

        INVARIANT: a selector that says no wins over an error of the rules, and those over an error of a selector.
        """
        by_rules = criteria.match_rules(self._class, self._attributes.name)
        if by_rules is None or (criteria.namespace is EVERYTHING and criteria.object is EVERYTHING):
            return by_rules
        by_namespace = self._match_namespace(criteria.namespace)
        by_object = self._match_object(criteria.object) if by_namespace is not False else False
        if by_namespace is False or by_object is False:
            return None
        if isinstance(by_rules, MatchError):
            return by_rules
        for answer in (by_namespace, by_object):
            if isinstance(answer, MatchError):
                return answer
        for answer in (by_namespace, by_object):
            if isinstance(answer, Missing):
                return Match(by_rules.resource, by_rules.kind, answer)
        return by_rules

    def _match_namespace(self, selector: Selector | MatchSelectorError) -> bool | Missing | MatchError:
        """`predicates/namespace.Matcher.MatchNamespaceSelector`."""
        attributes = self._attributes
        if not attributes.namespace and attributes.resource.resource != "namespaces":
            return True
        if isinstance(selector, MatchSelectorError):
            return MatchError(f"{INTERNAL_ERROR}{selector}")
        if selector.is_empty:
            return True
        if self._namespace_labels is None:
            self._namespace_labels = namespace_labels(attributes, self._lister)
        labels = self._namespace_labels
        return labels if isinstance(labels, (Missing, MatchError)) else selector.matches(labels)

    def _match_object(self, selector: Selector | MatchSelectorError) -> bool | Missing | MatchError:
        """`predicates/object.Matcher.MatchObjectSelector`: either object matches."""
        if isinstance(selector, MatchSelectorError):
            return MatchError(f"{INTERNAL_ERROR}{selector}")
        if selector.is_empty:
            return True
        if self._attributes.operation is Operation.CONNECT:
            return False  # the object of a CONNECT request is its options, which have no labels
        answers = [_matches_object(selector, side) for side in (self._attributes.object, self._attributes.old_object)]
        if True in answers:
            return True
        return next((answer for answer in answers if isinstance(answer, Missing)), False)


class Matcher:
    """Compiles criteria, equal ones once, and matches requests with them."""

    def __init__(self, mapper: EquivalentResourceMapper) -> None:
        """`mapper` knows which resources are equivalent."""
        self._mapper = mapper
        self._criteria: dict[Any, Criteria] = {}
        self._classes: dict[tuple[RuleKey, GroupVersionKind], RequestClass] = {}

    def criteria(self, match_resources: MatchResources, *, match_all: bool = True) -> Criteria:
        """The compiled form; `match_all` is False for webhooks, where an empty list of rules matches nothing."""
        key = (_canonical(match_resources), match_all)
        if key not in self._criteria:
            self._criteria[key] = Criteria(match_resources, match_all=match_all)
        return self._criteria[key]

    def request_class(self, attributes: Attributes) -> RequestClass:
        """The class of a request; equal ones are one object."""
        resource, subresource, operation = attributes.resource, attributes.subresource, attributes.operation
        interned = (RuleKey(resource, subresource, operation, bool(attributes.namespace)), attributes.kind)
        request_class = self._classes.get(interned)
        if request_class is None:
            request_class = self._classes[interned] = RequestClass(*interned, self._mapper)
        return request_class

    def request(self, attributes: Attributes, lister: Lister) -> RequestMatcher:
        """The matcher of one request."""
        return RequestMatcher(attributes, lister, self.request_class(attributes))


def namespace_labels(attributes: Attributes, lister: Lister) -> Labels | Missing | MatchError:
    """The labels of the namespace of a request (`predicates/namespace.Matcher.GetNamespaceLabels`).

    A Namespace that is created or updated is looked at itself. For its subresources and its deletion the server asks
    its cache, which holds the object before the request.
    """
    if attributes.resource.resource != "namespaces":
        namespace = attributes.namespace_object
    elif not attributes.subresource and attributes.operation in (Operation.CREATE, Operation.UPDATE):
        namespace = attributes.object
    else:
        namespace = attributes.old_object
        if namespace is None or isinstance(namespace, Missing):
            namespace = lister.get(NAMESPACE_KIND, "", attributes.namespace)
    if isinstance(namespace, Missing):
        return namespace
    if namespace is None:
        return MatchError(f'namespaces "{attributes.namespace}" not found', is_not_found=True)
    return labels_of(namespace)


def steady_labels(attributes: Attributes) -> Labels | None:
    """Return the labels that steady criteria depend on, none for cluster scope; None if the request itself matters."""
    if attributes.resource.resource == "namespaces":
        return None
    if not attributes.namespace:
        return _NO_LABELS
    namespace = attributes.namespace_object
    if namespace is None or isinstance(namespace, Missing):
        return None
    labels = labels_of(namespace)
    if isinstance(labels, Missing) or (
        isinstance(namespace, PartialObject) and any(isinstance(label, Missing) for label in labels.values())
    ):
        return None
    return labels


def labels_of(obj: JSON | PartialObject) -> Labels | Missing:
    """Return `metadata.labels` of an object, empty if there are none, or why they are not fully known."""
    value: Any = obj.value if isinstance(obj, PartialObject) else obj
    for name in ("metadata", "labels"):
        value = value.get(name) or {}
        if isinstance(value, Missing):
            return value
    labels: Labels = value
    return labels


def _matches_object(selector: Selector, obj: JSON | PartialObject | Missing | None) -> bool | Missing:
    """Whether one side matches; no object never does."""
    if obj is None or isinstance(obj, Missing):
        return obj or False
    labels = labels_of(obj)
    return labels if isinstance(labels, Missing) else selector.matches(labels)


def _compile(label_selector: LabelSelector) -> Selector | MatchSelectorError:
    """A selector, or its error as a value: it counts only where the rest matches."""
    try:
        return selector_from_label_selector(label_selector)
    except MatchSelectorError as error:
        return error


def _matches_name(rule: Rule, name: str) -> bool:
    """No list of names matches every name; the name is empty where the server will generate it."""
    return not rule.resource_names or name in rule.resource_names


def _match_as(resource: GroupVersionResource, kind: GroupVersionKind | None) -> Match | MatchError:
    """A match through an equivalent resource."""
    if kind is None:
        group, version, name = resource
        return MatchError(f"unable to convert to {group}/{version}, Resource={name}: unknown kind")
    return Match(resource, kind)


def _canonical(value: Any) -> Any:
    """A hashable form of frozen values with mappings inside, equal for equal ones."""
    if isinstance(value, Mapping):
        return tuple(sorted(value.items()))
    if isinstance(value, tuple):
        return tuple(_canonical(item) for item in value)
    if isinstance(value, Struct):
        return (type(value).__name__, *(_canonical(getattr(value, name)) for name in value.__struct_fields__))
    return value

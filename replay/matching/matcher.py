"""The match of a policy, a binding or a webhook with a request, in three values.

The rules are those of `k8s.io/apiserver/pkg/admission/plugin/policy/matching` and, for webhooks,
`pkg/admission/plugin/webhook/generic.ShouldCallHook`: namespaceSelector, objectSelector, excludeResourceRules,
resourceRules. A selector that cannot be evaluated is an error only if the rest matches. Unknown labels make the result
unknown only if all known parts match.
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
from replay.matching.rules import EquivalentResourceMapper, RuleKey, matches_rule
from replay.matching.selectors import EVERYTHING, Labels, MatchSelectorError, Selector, selector_from_label_selector

INTERNAL_ERROR = "Internal error occurred: "
"""Prefix that `apierrors.NewInternalError` adds to a text."""

NAMESPACE_KIND = GroupVersionKind("", "v1", "Namespace")
NO_LABELS: Labels = {}


class Match(Struct, frozen=True):
    """A match of the request, as `kind` and `resource`. `unknown` is what an uncertain match depends on."""

    resource: GroupVersionResource
    kind: GroupVersionKind
    unknown: Missing | None = None


class MatchError(Struct, frozen=True):
    """An error in the evaluation of criteria for a request. `message` is the server's text."""

    message: str
    is_not_found: bool = False


MatchResult = Match | MatchError | None
"""The result of a match. None is no match."""


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
    """A compiled `MatchResources`. Create it with `Matcher.criteria`, so that equal ones are one object."""

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
        """Compile the selectors. `match_all` says that an empty list of rules matches everything."""
        self.namespace = _compile(match_resources.namespace_selector)
        self.object = _compile(match_resources.object_selector)
        self.rules = match_resources.resource_rules
        self.exclude_rules = match_resources.exclude_resource_rules
        self.policy = match_resources.match_policy
        self.match_all = match_all and not self.rules
        self.has_names = any(rule.resource_names for rule in (*self.rules, *self.exclude_rules))
        self.is_steady = self.object is EVERYTHING and not self.has_names
        """A flag that the result is the same for all requests of a class in namespaces with the same labels."""
        self._results: dict[RequestClass, MatchResult] = {}

    def match_rules(self, request: RequestClass, name: str) -> MatchResult:
        """Return the result of the rules alone.

        Without `resource_names` it is computed once for each class of requests.
        """
        if self.has_names:
            return self._match_rules(request, name)
        if request not in self._results:
            self._results[request] = self._match_rules(request, name)
        return self._results[request]

    def may_match(self, request: RequestClass) -> bool:
        """Return whether the rules match for some name. It is never False if `match_rules` matches or fails."""
        if not self.has_names:
            return self.match_rules(request, "") is not None
        keys = [request.key, *(key for key, _ in request.equivalents)]
        rules = (*self.rules, *self.exclude_rules)
        return self.match_all or any(matches_rule(rule, key) for rule in rules for key in keys)

    def _match_rules(self, request: RequestClass, name: str) -> MatchResult:
        """Return the result of `matching.Matcher.Matches` without the selectors."""
        excluded = self._match_list(self.exclude_rules, request, name)
        # An excluded request does not match. An error in the exclude rules ends the evaluation, as in the server.
        if excluded is not None:
            return excluded if isinstance(excluded, MatchError) else None
        if self.match_all:
            return Match(request.key.resource, request.kind)
        return self._match_list(self.rules, request, name)

    def _match_list(self, rules: Sequence[Rule], request: RequestClass, name: str) -> MatchResult:
        """Return the match of the first rule: by the request's own resource first, then by its equivalents."""
        # Two loops, as in `matchesResourceRules`: any rule for the request's own resource wins over an equivalent one.
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
    """The match of one request with many criteria. Labels are looked up once, and equal criteria are evaluated once."""

    __slots__ = ("_attributes", "_class", "_lister", "_memo", "_namespace_labels")

    def __init__(self, attributes: Attributes, lister: Lister, request_class: RequestClass) -> None:
        """Look up nothing yet."""
        self._attributes = attributes
        self._lister = lister
        self._class = request_class
        self._memo: IdentityMap[Criteria, MatchResult] = IdentityMap()
        self._namespace_labels: Labels | Missing | MatchError | None = None

    def match(self, criteria: Criteria) -> MatchResult:
        """Return whether the request matches. Equal criteria give the same object."""
        if criteria not in self._memo:
            self._memo[criteria] = self._match(criteria)
        return self._memo[criteria]

    def _match(self, criteria: Criteria) -> MatchResult:
        """Evaluate rules before selectors.

        The server does the opposite with the same result, but rules can be remembered.

        INVARIANT: a selector that does not match wins over an error of the rules, and that over an error of a selector.
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
        """Return the match of a namespaceSelector (`predicates/namespace.Matcher.MatchNamespaceSelector`)."""
        attributes = self._attributes
        if not attributes.namespace and attributes.resource.resource != "namespaces":
            return True
        if isinstance(selector, MatchSelectorError):
            return MatchError(f"{INTERNAL_ERROR}{selector}")
        # An empty selector matches before the labels are read, so that an unknown namespace is no error.
        if selector.is_empty:
            return True
        if self._namespace_labels is None:
            self._namespace_labels = namespace_labels(attributes, self._lister)
        labels = self._namespace_labels
        return labels if isinstance(labels, (Missing, MatchError)) else selector.matches(labels)

    def _match_object(self, selector: Selector | MatchSelectorError) -> bool | Missing | MatchError:
        """Return the match of an objectSelector (`predicates/object.Matcher.MatchObjectSelector`).

        One of both objects must match.
        """
        if isinstance(selector, MatchSelectorError):
            return MatchError(f"{INTERNAL_ERROR}{selector}")
        if selector.is_empty:
            return True
        if self._attributes.operation is Operation.CONNECT:
            return False  # the object of a CONNECT request is its options, which have no labels
        answers = [_matches_object(selector, side) for side in (self._attributes.object, self._attributes.old_object)]
        # A match of one object decides, even if the labels of the other are unknown.
        if True in answers:
            return True
        return next((answer for answer in answers if isinstance(answer, Missing)), False)


class Matcher:
    """A compiler of criteria, equal ones once, and the matcher of requests with them."""

    def __init__(self, mapper: EquivalentResourceMapper) -> None:
        """Keep the mapper of equivalent resources."""
        self._mapper = mapper
        self._criteria: dict[Any, Criteria] = {}
        self._classes: dict[tuple[RuleKey, GroupVersionKind], RequestClass] = {}

    def criteria(self, match_resources: MatchResources, *, match_all: bool = True) -> Criteria:
        """Return compiled criteria. `match_all` is False for webhooks, where an empty list of rules matches nothing."""
        key = (_canonical(match_resources), match_all)
        if key not in self._criteria:
            self._criteria[key] = Criteria(match_resources, match_all=match_all)
        return self._criteria[key]

    def request_class(self, attributes: Attributes) -> RequestClass:
        """Return the class of a request. Equal classes are one object."""
        resource, subresource, operation = attributes.resource, attributes.subresource, attributes.operation
        interned = (RuleKey(resource, subresource, operation, bool(attributes.namespace)), attributes.kind)
        request_class = self._classes.get(interned)
        if request_class is None:
            request_class = self._classes[interned] = RequestClass(*interned, self._mapper)
        return request_class

    def request(self, attributes: Attributes, lister: Lister) -> RequestMatcher:
        """Return the matcher of one request."""
        return RequestMatcher(attributes, lister, self.request_class(attributes))


def namespace_labels(attributes: Attributes, lister: Lister) -> Labels | Missing | MatchError:
    """Return the labels of a request's namespace (`predicates/namespace.Matcher.GetNamespaceLabels`).

    For the creation or update of a Namespace they are its own new labels. For its subresources and its deletion the
    server reads its cache, which has the object before the request.
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
    """Return the labels that steady criteria depend on.

    There are none for cluster scope. None means that the request itself matters.
    """
    # The selector reads the labels of the Namespace that is being written, so two requests may differ.
    if attributes.resource.resource == "namespaces":
        return None
    if not attributes.namespace:
        return NO_LABELS
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
        # Clients may send a null for either field. The server reads it as absent.
        value = value.get(name) or {}
        if isinstance(value, Missing):
            return value
    labels: Labels = value
    return labels


def _matches_object(selector: Selector, obj: JSON | PartialObject | Missing | None) -> bool | Missing:
    """Return whether one side matches. A missing object never does."""
    if obj is None or isinstance(obj, Missing):
        return obj or False
    labels = labels_of(obj)
    return labels if isinstance(labels, Missing) else selector.matches(labels)


def _compile(label_selector: LabelSelector) -> Selector | MatchSelectorError:
    """Return a selector, or its error as a value, because the error counts only if the rest matches."""
    try:
        return selector_from_label_selector(label_selector)
    except MatchSelectorError as error:
        return error


def _matches_name(rule: Rule, name: str) -> bool:
    """Return whether a rule matches a name. A rule without names matches all. A name to be generated is empty."""
    return not rule.resource_names or name in rule.resource_names


def _match_as(resource: GroupVersionResource, kind: GroupVersionKind | None) -> Match | MatchError:
    """Return the match through an equivalent resource."""
    if kind is None:
        group, version, name = resource
        return MatchError(f"unable to convert to {group}/{version}, Resource={name}: unknown kind")
    return Match(resource, kind)


def _canonical(value: Any) -> Any:
    """Return a hashable form of frozen values with mappings inside. Equal values have equal forms."""
    if isinstance(value, Mapping):
        return tuple(sorted(value.items()))
    if isinstance(value, tuple):
        return tuple(_canonical(item) for item in value)
    if isinstance(value, Struct):
        # The type's name keeps structs of different types with equal fields apart.
        return (type(value).__name__, *(_canonical(getattr(value, name)) for name in value.__struct_fields__))
    return value

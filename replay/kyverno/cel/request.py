"""AdmissionRequest as CEL policies see it (`pkg/utils/admission/resource.go`, `pkg/cel/engine`)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, cast

from replay.admission.alike import PlainBindings, Projection
from replay.cel.value.timestamp import Timestamp
from replay.json import JSON
from replay.kube.admissionregistration import LabelSelector, MatchResources, Rule
from replay.kube.attributes import Missing, PartialObject, field_of
from replay.kube.gvk import GroupVersionKind, GroupVersionResource
from replay.kyverno.rules.go_value import as_map
from replay.kyverno.rules.response import UndeterminedError
from replay.matching.matcher import INTERNAL_ERROR
from replay.matching.rules import NAMESPACES, RuleKey, matches_rule
from replay.matching.selectors import EVERYTHING, Labels, MatchSelectorError, Selector, selector_from_label_selector

if TYPE_CHECKING:
    from replay.kube.attributes import Operation


Object = JSON | PartialObject | Missing
_NO_TIME = Missing("time.now()", "the time of the request is not known")
_WRITTEN_IF_SET = ("subResource", "requestKind", "requestResource", "requestSubResource", "name", "namespace")


class CELRequest:
    """Parts of a request. An absent object is an empty map."""

    def __init__(self, request: Mapping[str, Any], namespace: Object, time: Timestamp | Missing = _NO_TIME) -> None:
        """`namespace` is the Namespace object of the request, or None. `time` is the time of the request."""
        self.request = request
        self.time = time
        self.operation = _text(request, "operation")
        self.name = _text(request, "name")
        self.namespace = _text(request, "namespace")
        self.subresource = _text(request, "subResource")
        kind, resource = as_map(request.get("kind")), as_map(request.get("resource"))
        self.kind = GroupVersionKind(_text(kind, "group"), _text(kind, "version"), _text(kind, "kind"))
        self.resource = GroupVersionResource(
            _text(resource, "group"), _text(resource, "version"), _text(resource, "resource")
        )
        self.namespace_object = namespace
        self._sent = self.object = self._extracted(request.get("object"))
        self.old_object = self._extracted(request.get("oldObject"))
        self.plain = _Plain(self)
        self.projections: dict[Projection, Hashable | None] = {}

    def with_object(self, value: Object) -> CELRequest:
        """Return the request with another `object`. `request.object` stays the original object."""
        made = CELRequest(self.request, self.namespace_object, self.time)
        made.object = value
        return made

    @cached_property
    def rule_key(self) -> RuleKey:
        """Key of the request for match rules."""
        return RuleKey(self.resource, self.subresource, cast("Operation", self.operation), bool(self.namespace))

    @cached_property
    def labels(self) -> Labels | Missing:
        """Labels of the object."""
        return _labels(self.object)

    @cached_property
    def old_labels(self) -> Labels | Missing:
        """Labels of the old object."""
        return _labels(self.old_object)

    @cached_property
    def namespace_labels(self) -> Labels | Missing:
        """Labels that a namespace selector sees.

        They are those of the object itself if a Namespace is written. An absent Namespace has only the label with its name.
        """
        is_written = self.operation in ("CREATE", "UPDATE") and not self.subresource
        if self.resource.resource == NAMESPACES.resource and is_written:
            return self.labels
        if self.namespace_object is None:
            return {"kubernetes.io/metadata.name": self.namespace}
        return _labels(self.namespace_object)

    def _extracted(self, obj: Object) -> Object:
        """Return an object with its kind and namespace taken from the request."""
        if isinstance(obj, Missing):
            return obj
        if isinstance(obj, PartialObject):
            return PartialObject(self._named(obj.value), obj.missing)
        if obj is not None and not isinstance(obj, dict):
            raise UndeterminedError("the object of the request is not a JSON object")
        return {} if obj is None else self._named(obj)

    def _named(self, obj: JSON) -> JSON:
        named = {**obj, "apiVersion": self.kind.api_version, "kind": self.kind.kind}
        metadata = obj.get("metadata")
        is_namespace = self.kind.kind == "Namespace"
        if isinstance(metadata, Missing) or (is_namespace and not as_map(metadata).get("namespace")):
            return named
        if is_namespace:
            named["metadata"] = {key: value for key, value in metadata.items() if key != "namespace"}
        elif self.namespace:
            named["metadata"] = {**as_map(metadata), "namespace": self.namespace}
        return named

    def shown(self, *, extracted: bool) -> JSON | PartialObject:
        """Return `request` without empty fields.

        With `extracted`, its objects have kind and namespace set as `object` has.
        """
        return self._shown_extracted if extracted else self._shown

    @cached_property
    def _shown(self) -> JSON | PartialObject:
        return self._made(extracted=False)

    @cached_property
    def _shown_extracted(self) -> JSON | PartialObject:
        return self._made(extracted=True)

    def _made(self, *, extracted: bool) -> JSON | PartialObject:
        request = self.request
        shown: dict[str, Any] = {
            "uid": request.get("uid") or "",
            "kind": self.kind._asdict(),
            "resource": self.resource._asdict(),
            "operation": self.operation,
            "userInfo": {key: value for key, value in as_map(request.get("userInfo")).items() if value},
            "object": self._sent if extracted else request.get("object"),
            "oldObject": self.old_object if extracted else request.get("oldObject"),
            "options": request.get("options"),
        }
        shown |= {name: request[name] for name in _WRITTEN_IF_SET if request.get(name)}
        if request.get("dryRun") is not None:
            shown["dryRun"] = request["dryRun"]
        unknown: list[Missing] = []
        for name in ("object", "oldObject", "options"):
            value = shown[name]
            if isinstance(value, PartialObject):
                shown[name] = value.value
                unknown += [Missing(f"request.{each.path}", each.reason, each.fix) for each in value.missing]
            elif isinstance(value, Missing):
                unknown.append(value)
        return PartialObject(shown, tuple(unknown)) if unknown else shown

    def projected(self, reads: Projection) -> Hashable | None:
        """Return the values that expressions read, with the kind, as a key. Return None if there is no such projection."""
        if reads not in self.projections:
            projected = reads(self.plain)
            self.projections[reads] = None if projected is None else (projected, self.kind)
        return self.projections[reads]

    @cached_property
    def shown_namespace(self) -> Object:
        """Return the value of `namespaceObject`."""
        namespace = self.namespace_object
        if namespace is None or isinstance(namespace, Missing):
            return namespace
        if isinstance(namespace, PartialObject):
            return PartialObject(_with_go_fields(namespace.value), namespace.missing)
        return _with_go_fields(namespace)


class _Plain(PlainBindings):
    """Values of the names that policies of the API server know too."""

    def __init__(self, request: CELRequest) -> None:
        self._request = request

    def __missing__(self, name: str) -> Any:
        """Compute and keep a binding."""
        request = self._request
        if name == "request":
            value = request.shown(extracted=False)
        elif name == "namespaceObject":
            value = request.shown_namespace
        else:
            value = request.object if name == "object" else request.old_object
        self[name] = value = self.known(name, value) if isinstance(value, (Missing, PartialObject)) else value
        return value


def _text(value: Mapping[str, Any], field: str) -> str:
    return str(value.get(field) or "")


def _labels(obj: Object) -> Labels | Missing:
    if isinstance(obj, Missing):
        return obj
    labels: JSON | Missing = field_of(obj, "metadata", "labels")
    if isinstance(labels, Missing):
        return labels
    if not isinstance(labels, dict) or not all(isinstance(each, str | Missing | None) for each in labels.values()):
        return {}  # Go reads labels as texts, or not at all
    return {key: "" if value is None else value for key, value in labels.items()}


def _with_go_fields(namespace: JSON) -> JSON:
    """Return a Namespace with the fields that Go's type always writes."""
    return {**namespace, "spec": namespace.get("spec") or {}, "status": namespace.get("status") or {}}


# Match constraints of a policy (`pkg/cel/matching`).
# They match as on the API server, except for absent objects and namespaces.

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

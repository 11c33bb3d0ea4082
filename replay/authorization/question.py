"""A question to a chain, in the form that each member needs.

A webhook gets a SubjectAccessReview. Its match conditions see it too.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from operator import attrgetter

from replay.json import JSON
from replay.kube.attributes import UserInfo
from replay.kube.authorizer import AuthorizationAttributes
from replay.kube.selector import Requirement

_RESOURCE_FIELDS = ("namespace", "verb", "group", "version", "resource", "subresource", "name")
_FIELD_OPERATORS = {"=": "In", "!=": "NotIn"}
_LABEL_OPERATORS = {
    "=": "In",
    "==": "In",
    "in": "In",
    "!=": "NotIn",
    "notin": "NotIn",
    "exists": "Exists",
    "!": "DoesNotExist",
}


def spec_from_attributes(attributes: AuthorizationAttributes) -> JSON:
    """Return the `spec` that a webhook gets, without empty fields."""
    spec: JSON = {}
    if attributes.is_resource_request:
        spec["resourceAttributes"] = _resource_attributes(attributes)
    else:
        spec["nonResourceAttributes"] = _set({"path": attributes.path, "verb": attributes.verb})
    return {**spec, **user_fields(attributes.user)}


def user_fields(user: UserInfo) -> JSON:
    """Return the fields `user`, `groups`, `uid` and `extra` that are not empty."""
    extra = {key: list(values) for key, values in user.extra.items()}
    return _set({"user": user.username, "groups": list(user.groups), "extra": extra, "uid": user.uid})


def _resource_attributes(attributes: AuthorizationAttributes) -> JSON:
    fields: JSON = {
        "namespace": attributes.namespace,
        "verb": attributes.verb,
        "group": attributes.api_group,
        "version": attributes.api_version,
        "resource": attributes.resource,
        "subresource": attributes.subresource,
        "name": attributes.name,
    }
    if attributes.field_selector:
        fields["fieldSelector"] = _selector(attributes.field_requirements, _FIELD_OPERATORS)
    if attributes.label_selector:
        fields["labelSelector"] = _selector(attributes.label_requirements, _LABEL_OPERATORS)
    return _set(fields)


def _selector(requirements: Sequence[Requirement], operators: dict[str, str]) -> JSON:
    """Return a selector with the requirements whose operator the API knows.

    Other requirements can be left out, because they only narrow a selection.
    """
    terms = [
        {
            "key": each.key,
            "operator": operators[each.operator],
            **({"values": list(each.values)} if each.values else {}),
        }
        for each in requirements
        if each.operator in operators
    ]
    return {"requirements": terms} if terms else {}


def _set(fields: JSON) -> JSON:
    return {name: value for name, value in fields.items() if value}


def _request_variable(spec: JSON, *, field_selector: bool, label_selector: bool) -> JSON:
    """Return the variable `request` of match conditions.

    It has all texts, even empty ones. It has selectors only if a condition names them.
    """
    request: JSON = {
        "user": spec.get("user", ""),
        "groups": spec.get("groups", []),
        "uid": spec.get("uid", ""),
        "extra": spec.get("extra", {}),
    }
    if "resourceAttributes" in spec:
        attributes = spec["resourceAttributes"]
        request["resourceAttributes"] = {name: attributes.get(name, "") for name in _RESOURCE_FIELDS}
        for name, is_shown in (("fieldSelector", field_selector), ("labelSelector", label_selector)):
            if is_shown and name in attributes:
                request["resourceAttributes"][name] = _selector_variable(attributes[name])
    if "nonResourceAttributes" in spec:
        attributes = spec["nonResourceAttributes"]
        request["nonResourceAttributes"] = {name: attributes.get(name, "") for name in ("verb", "path")}
    return request


def _selector_variable(selector: JSON) -> JSON:
    requirements = selector["requirements"]
    return {"requirements": [{**each, "values": each.get("values", [])} for each in requirements]}


_PLACES = {
    "user": "user.username",
    "uid": "user.uid",
    "groups": "user.groups",
    "resourceAttributes.namespace": "namespace",
    "resourceAttributes.verb": "verb",
    "resourceAttributes.group": "api_group",
    "resourceAttributes.version": "api_version",
    "resourceAttributes.resource": "resource",
    "resourceAttributes.subresource": "subresource",
    "resourceAttributes.name": "name",
    "resourceAttributes.fieldSelector": "field_selector",
    "resourceAttributes.labelSelector": "label_selector",
    "nonResourceAttributes.path": "path",
    "nonResourceAttributes.verb": "verb",
}
_EXTRA = "extra"

View = Callable[[AuthorizationAttributes], Hashable]
"""Function that returns the values of some fields of a question."""


class Question:
    """A question, with its SubjectAccessReview spec and the input of conditions. Both are built once for all webhooks."""

    __slots__ = ("_requests", "_spec", "attributes")

    def __init__(self, attributes: AuthorizationAttributes) -> None:
        """Start without a spec. It is built when the first webhook needs it."""
        self.attributes = attributes
        self._spec: JSON = None
        self._requests: dict[tuple[bool, bool], JSON] = {}

    @property
    def spec(self) -> JSON:
        """See `spec_from_attributes`."""
        if self._spec is None:
            self._spec = spec_from_attributes(self.attributes)
        return self._spec

    def request(self, selectors: tuple[bool, bool]) -> JSON:
        """Return the variable `request`, with or without field and label selectors. See `_request_variable`."""
        variable = self._requests.get(selectors)
        if variable is None:
            field_selector, label_selector = selectors
            variable = _request_variable(self.spec, field_selector=field_selector, label_selector=label_selector)
            self._requests[selectors] = variable
        return variable


def view_of(fields: Iterable[str]) -> View:
    """Return a function that takes the values of these fields. Questions with equal values are equal to a reader."""
    names = sorted(fields)
    of_resources, of_paths = (_values(names, kind) for kind in ("resourceAttributes.", "nonResourceAttributes."))

    def view(attributes: AuthorizationAttributes) -> Hashable:
        return (True, of_resources(attributes)) if attributes.is_resource_request else (False, of_paths(attributes))

    return view


def _values(fields: Iterable[str], kind: str) -> View:
    """Return a function that takes the values of those fields that a kind of question has."""
    own = [name for name in fields if name.startswith(kind) or "." not in name]
    places = [_PLACES[name] for name in own if name != _EXTRA]
    # A view is taken of every question, so that it is made of what needs no Python.
    values: View = attrgetter(*places) if places else _nothing
    if _EXTRA not in own:
        return values
    return lambda attributes: (values(attributes), tuple(attributes.user.extra.items()))


def _nothing(attributes: AuthorizationAttributes) -> Hashable:
    del attributes
    return None

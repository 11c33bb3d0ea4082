"""A question to a chain, in the form of each member."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from operator import attrgetter

from replay.authorization.subject_access_review import request_variable, spec_from_attributes
from replay.json import JSON
from replay.kube.authorizer import AuthorizationAttributes

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
"""The part of a question that a reader of some `request` fields sees."""


class Question:
    """A question, with its SubjectAccessReview spec and the conditions' input, each made once for all webhooks."""

    __slots__ = ("_requests", "_spec", "attributes")

    def __init__(self, attributes: AuthorizationAttributes) -> None:
        """Nothing is made before a webhook wants it."""
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
        """See `request_variable`; whether field and label selectors are shown."""
        variable = self._requests.get(selectors)
        if variable is None:
            field_selector, label_selector = selectors
            variable = request_variable(self.spec, field_selector=field_selector, label_selector=label_selector)
            self._requests[selectors] = variable
        return variable


def view_of(fields: Iterable[str]) -> View:
    """Return the view of these fields. Questions that look alike have equal views."""
    names = sorted(fields)
    of_resources, of_paths = (_values(names, kind) for kind in ("resourceAttributes.", "nonResourceAttributes."))

    def view(attributes: AuthorizationAttributes) -> Hashable:
        return (True, of_resources(attributes)) if attributes.is_resource_request else (False, of_paths(attributes))

    return view


def _values(fields: Iterable[str], kind: str) -> View:
    """The values of those fields that questions of a kind have."""
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

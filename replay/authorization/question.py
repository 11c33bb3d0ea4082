"""What is put to a chain, as its members look at it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from replay.authorization.subject_access_review import request_variable, spec_from_attributes
from replay.json import JSON
from replay.kube.authorizer import AuthorizationAttributes

_FIELDS: dict[str, Callable[[AuthorizationAttributes], Hashable]] = {
    "user": lambda asked: asked.user.username,
    "uid": lambda asked: asked.user.uid,
    "groups": lambda asked: asked.user.groups,
    "extra": lambda asked: tuple(asked.user.extra.items()),
    "resourceAttributes.namespace": lambda asked: asked.namespace,
    "resourceAttributes.verb": lambda asked: asked.verb,
    "resourceAttributes.group": lambda asked: asked.api_group,
    "resourceAttributes.version": lambda asked: asked.api_version,
    "resourceAttributes.resource": lambda asked: asked.resource,
    "resourceAttributes.subresource": lambda asked: asked.subresource,
    "resourceAttributes.name": lambda asked: asked.name,
    "resourceAttributes.fieldSelector": lambda asked: asked.field_selector,
    "resourceAttributes.labelSelector": lambda asked: asked.label_selector,
    "nonResourceAttributes.path": lambda asked: asked.path,
    "nonResourceAttributes.verb": lambda asked: asked.verb,
}


class Question:
    """What is asked, with the spec of its SubjectAccessReview and what conditions see of it, each made once for all webhooks."""

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
        found = self._requests.get(selectors)
        if found is None:
            field_selector, label_selector = selectors
            found = request_variable(self.spec, field_selector=field_selector, label_selector=label_selector)
            self._requests[selectors] = found
        return found

    def seen(self, fields: Sequence[str]) -> Hashable:
        """What somebody knows of it who reads these fields of `request` alone."""
        asked = self.attributes
        kind = "resourceAttributes." if asked.is_resource_request else "nonResourceAttributes."
        return kind, tuple(_FIELDS[name](asked) for name in fields if name.startswith(kind) or "." not in name)

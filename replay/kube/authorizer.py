"""Attributes and decision of an authorizer (`k8s.io/apiserver/pkg/authorization/authorizer`)."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from replay.kube.attributes import Missing, UserInfo
from replay.kube.selector import Requirement, SelectorError, parse_field_selector, parse_label_selector


class AuthorizationAttributes(Struct, frozen=True):
    """The action to authorize: a verb on a resource, or on a path.

    Selectors are texts as in a query. They only narrow a request, and RBAC ignores them. With `resource_request` None, a
    request is about a resource if `resource` is set. True is needed for a URI such as `/api/v1/watch`, which makes a
    resource request without a resource.
    """

    user: UserInfo
    verb: str
    path: str = ""
    api_group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    field_selector: str = ""
    label_selector: str = ""
    api_version: str = ""
    resource_request: bool | None = None

    @property
    def is_resource_request(self) -> bool:
        """Return whether the request is about a resource."""
        return bool(self.resource) if self.resource_request is None else self.resource_request

    @property
    def field_requirements(self) -> tuple[Requirement, ...]:
        """Return the terms of the field selector, none if it cannot be parsed."""
        try:
            return parse_field_selector(self.field_selector) if self.field_selector else ()
        except SelectorError:
            return ()

    @property
    def label_requirements(self) -> tuple[Requirement, ...]:
        """Return the terms of the label selector, none if it cannot be parsed."""
        try:
            return parse_label_selector(self.label_selector) if self.label_selector else ()
        except SelectorError:
            return ()


class AuthorizationDecision(Struct, frozen=True):
    """The decision of an authorizer. If all authorizers have no opinion, the request is denied.

    `error` is None without an error.
    """

    allowed: bool
    reason: str = ""
    error: str | None = None


class Authorizer(Protocol):
    """Protocol of an authorizer."""

    def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationDecision | Missing:
        """Return the decision, or why it is unknown."""
        ...

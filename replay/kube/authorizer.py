"""The question whether a user may do something, and its answer (`k8s.io/apiserver/pkg/authorization/authorizer`)."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from replay.kube.attributes import Missing, UserInfo
from replay.kube.selector import Requirement, SelectorError, parse_field_selector, parse_label_selector


class AuthorizationAttributes(Struct, frozen=True):
    """What is asked: a verb on a resource, or on a path.

    Selectors are texts as in a query; they only narrow a request, and RBAC does not look at them. `resource_request` None
    means that it is about a resource if `resource` is set: only a URL without its last part names none.
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
        """Whether it is about a resource."""
        return bool(self.resource) if self.resource_request is None else self.resource_request

    @property
    def field_requirements(self) -> tuple[Requirement, ...]:
        """The terms of the field selector; none where it cannot be parsed."""
        try:
            return parse_field_selector(self.field_selector) if self.field_selector else ()
        except SelectorError:
            return ()

    @property
    def label_requirements(self) -> tuple[Requirement, ...]:
        """The terms of the label selector; none where it cannot be parsed."""
        try:
            return parse_label_selector(self.label_selector) if self.label_selector else ()
        except SelectorError:
            return ()


class AuthorizationDecision(Struct, frozen=True):
    """The answer; "no opinion" of all authorizers is a refusal. `error` is None if nothing went wrong."""

    allowed: bool
    reason: str = ""
    error: str | None = None


class Authorizer(Protocol):
    """Protocol of an authorizer."""

    def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationDecision | Missing:
        """Return the decision, or why it is unknown."""
        ...

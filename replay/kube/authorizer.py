"""The question whether a user may do something, and its answer (`k8s.io/apiserver/pkg/authorization/authorizer`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from replay.kube.attributes import Missing, UserInfo


@dataclass(frozen=True, slots=True)
class AuthorizationAttributes:
    """What is asked: a verb on a resource, or on a path if `path` is set and `resource` is empty.

    Selectors only narrow a request; RBAC does not look at them.
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

    @property
    def is_resource_request(self) -> bool:
        """Whether it is about a resource."""
        return bool(self.resource)


@dataclass(frozen=True, slots=True)
class AuthorizationDecision:
    """The answer; "no opinion" of all authorizers is a refusal. `error` is empty if nothing went wrong."""

    allowed: bool
    reason: str = ""
    error: str = ""


class Authorizer(Protocol):
    """Who answers."""

    def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationDecision | Missing:
        """The decision, or why it is not known."""
        ...

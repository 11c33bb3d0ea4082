"""Request with everything that a decision depends on, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from replay.json import JSON
from replay.kube.attributes import Attributes, Operation, UserInfo
from replay.kube.authorizer import AuthorizationAttributes, AuthorizationDecision
from replay.kube.gvk import GroupVersionKind, GroupVersionResource
from replay.kube.lister import ObjectLister


class Target(Struct, frozen=True):
    """Target of requests: a resource or subresource in a version, one operation, and the scope."""

    resource: GroupVersionResource
    subresource: str
    kind: GroupVersionKind
    operation: Operation
    namespaced: bool

    def __str__(self) -> str:
        """Return a name such as `CREATE pods` or `UPDATE deployments/scale.apps`."""
        name = f"{self.resource.resource}/{self.subresource}" if self.subresource else self.resource.resource
        return f"{self.operation} {name}{f'.{self.resource.group}' if self.resource.group else ''}"


class SymbolicRequest(Struct, frozen=True):
    """Request for policies. Its objects are never changed in place.

    `allowed` is the answer to every question of an `authorizer`. `params` are the parameter objects, None for one that
    does not exist.
    """

    target: Target
    name: str
    namespace: str
    user: UserInfo
    object: JSON = None
    old_object: JSON = None
    namespace_object: JSON = None
    params: tuple[JSON, ...] = ()
    allowed: bool = False
    dry_run: bool = False
    options: JSON = None

    def with_parts(self, parts: Mapping[str, Any]) -> SymbolicRequest:
        """Return the request with other values of some fields."""
        return replace(self, **parts)

    def attributes(self) -> Attributes:
        """Return the request's attributes."""
        return Attributes(
            operation=self.target.operation,
            kind=self.target.kind,
            resource=self.target.resource,
            subresource=self.target.subresource,
            namespace=self.namespace,
            name=self.name,
            user_info=self.user,
            dry_run=self.dry_run,
            options=self.options,
            object=self.object,
            old_object=self.old_object,
            namespace_object=self.namespace_object,
        )

    def lister(self) -> RequestLister:
        """Return the cluster at the time of the request."""
        namespaces = () if self.namespace_object is None else (self.namespace_object,)
        return RequestLister((*namespaces, *(each for each in self.params if each is not None)), allowed=self.allowed)


class RequestLister(ObjectLister):
    """Objects of a cluster, with the answer of its authorizers."""

    def __init__(self, objects: tuple[JSON, ...], *, allowed: bool) -> None:
        """`allowed` is the answer to every question."""
        super().__init__(objects)
        self.allowed = allowed


class OneAnswer:
    """Authorizer that gives the same answer to every question."""

    def __init__(self, lister: Any) -> None:
        """Take the answer from the lister."""
        self._allowed = bool(getattr(lister, "allowed", False))

    def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationDecision:  # noqa: ARG002
        """Return the answer."""
        return AuthorizationDecision(self._allowed, "as the case says")

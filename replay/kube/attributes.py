"""What admission is told about one request (`k8s.io/apiserver/pkg/admission.Attributes`).

`None` stands only where the API says null (`oldObject` on CREATE, `object` on DELETE, `namespaceObject` of a
cluster-scoped request). What the audit log does not hold is `Missing`, and becomes an unknown in CEL.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field

from replay.json import JSON
from replay.kube.gvk import GroupVersionKind, GroupVersionResource


class Operation(StrEnum):
    """The operation of an admission request."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    CONNECT = "CONNECT"


class Basis(StrEnum):
    """How a part of the attributes was known; the order is that of trust."""

    RECORDED = "recorded"
    RECONSTRUCTED = "reconstructed"
    SNAPSHOT = "snapshot"
    MISSING = "missing"
    UNREAD = "unread"
    """Not rebuilt, because no policy of either set can match the request."""


class Missing(Struct, frozen=True):
    """A part of the attributes that the log does not hold.

    `path` is the CEL path (`object`, `oldObject.spec`, `namespaceObject`, `params`, `authorizer`); `reason` says in one
    clause why it is not known, in words that can end the sentence "undetermined: ..."; `fix` says what would record it.
    """

    path: str
    reason: str
    fix: str = ""


class PerhapsAbsent(Missing, frozen=True):
    """An object that may not be there; `object` is what it is if it is."""

    object: JSON = None


class PartialObject(Struct, frozen=True):
    """An object that is known but for some paths.

    `value` is plain JSON with a `Missing` as leaf wherever a part is not known; in truth there may be any value or none
    at all (`has()` of it is unknown too). `missing` lists these leaves; their paths are `object.metadata.uid`,
    `object.spec.volumes[1].name` and the like. A consumer that cannot look at single paths treats the whole as missing,
    unless what it reads lies apart from all of them.
    """

    value: JSON
    missing: tuple[Missing, ...]


def field_of(obj: JSON | PartialObject, *path: str) -> JSON | Missing:
    """Return the value at a path of maps in an object: None if absent, `Missing` if unknown."""
    value = obj.value if isinstance(obj, PartialObject) else obj
    for name in path:
        if isinstance(value, Missing):
            break
        value = value.get(name) if isinstance(value, dict) else None
    return value


class UserInfo(Struct, frozen=True):
    """User that admission sees: the impersonated user if there is one; `missing` names unknown fields."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    missing: tuple[str, ...] = ()


class Attributes(Struct):
    """One admission request.

    `kind` and `resource` are those of the request as it came in (`requestKind`, `requestResource` of an
    AdmissionRequest); a matcher with `matchPolicy: Equivalent` derives the matched ones. Objects are plain JSON and
    are never changed in place: whoever mutates, copies. `missing` lists what is not known apart from the objects:
    `request.name` where a name was generated that the log does not hold (`name` is empty then), `request.userInfo.groups` and the
    like where the log is none of audit events.
    """

    operation: Operation
    kind: GroupVersionKind
    resource: GroupVersionResource
    subresource: str
    namespace: str
    name: str
    user_info: UserInfo
    dry_run: bool = False
    options: JSON | Missing | None = None
    object: JSON | PartialObject | Missing | None = None
    old_object: JSON | PartialObject | Missing | None = None
    namespace_object: JSON | PartialObject | Missing | None = None
    missing: tuple[Missing, ...] = ()
    workspace: str = ""
    """The logical cluster of kcp, empty in other servers."""

    def with_object(self, value: JSON | PartialObject | Missing | None) -> Attributes:
        """The same request with another object; `dataclasses.replace` takes several times as long."""
        return Attributes(
            operation=self.operation,
            kind=self.kind,
            resource=self.resource,
            subresource=self.subresource,
            namespace=self.namespace,
            name=self.name,
            user_info=self.user_info,
            dry_run=self.dry_run,
            options=self.options,
            object=value,
            old_object=self.old_object,
            namespace_object=self.namespace_object,
            missing=self.missing,
            workspace=self.workspace,
        )

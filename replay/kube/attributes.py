"""The attributes of one request for admission (`k8s.io/apiserver/pkg/admission.Attributes`).

`None` stands only for a null of the API: `oldObject` on CREATE, `object` on DELETE, `namespaceObject` of a
cluster-scoped request. A part that the audit log lacks is `Missing`, and becomes an unknown in CEL.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import cached_property, lru_cache

from msgspec import Struct, field

from replay.json import JSON, FieldPath
from replay.kube.gvk import GroupVersionKind, GroupVersionResource

_KEY = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\['([^']*)'\]")


class Operation(StrEnum):
    """The operation of an admission request."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    CONNECT = "CONNECT"


class Basis(StrEnum):
    """The source of a part of the attributes, the most trusted first."""

    RECORDED = "recorded"
    RECONSTRUCTED = "reconstructed"
    SNAPSHOT = "snapshot"
    MISSING = "missing"
    UNREAD = "unread"
    """Not rebuilt, because no policy of either set can match the request."""


class Missing(Struct, frozen=True):
    """A part of the attributes that the log lacks.

    `path` is the CEL path: `object`, `oldObject.spec`, `namespaceObject`, `params`, `authorizer`. `reason` is one
    clause on why it is unknown, to end the sentence "undetermined: ...". `fix` says how to record it.
    """

    path: str
    reason: str
    fix: str = ""


class PossiblyAbsent(Missing, frozen=True):
    """An object that may not exist. `object` is its value if it does."""

    object: JSON = None


class PartialObject(Struct, frozen=True, dict=True):
    """An object that is known except for some paths.

    `value` is plain JSON with a `Missing` as leaf for each unknown part. The part may have any value or be absent, so
    `has()` of it is unknown too. `missing` lists these leaves, with paths such as `object.metadata.uid` and
    `object.spec.volumes[1].name`. A reader that cannot look at single paths treats the whole as missing, unless it
    reads none of them.
    """

    value: JSON
    missing: tuple[Missing, ...]

    @cached_property
    def parts(self) -> tuple[tuple[FieldPath, Missing], ...]:
        """The missing parts with their places: where their own paths lead, otherwise by a search."""
        parts = []
        for missing in self.missing:
            part, value = _part(missing.path), self.value
            for key in part:
                if isinstance(value, list):
                    value = value[key] if isinstance(key, int) and key < len(value) else None
                else:
                    value = value.get(key) if isinstance(value, dict) else None
            # A path no longer leads to its part, so all of them are searched.
            if value is not missing:
                return tuple(_missing_parts(self.value, ()))
            parts.append((part, missing))
        return tuple(parts)


@lru_cache(maxsize=4096)
def _part(path: str) -> FieldPath:
    """Return the keys in the path of a `Missing`, after the name of the object: `.spec.volumes[1]['a.b']`."""
    segments = _KEY.findall(path)
    return tuple(name or quoted or int(index) for name, index, quoted in segments)


def _missing_parts(value: JSON, part: FieldPath) -> Iterator[tuple[FieldPath, Missing]]:
    """Yield the missing parts of a partly known value with their places."""
    if isinstance(value, Missing):
        yield part, value
    elif isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, (dict, list, Missing)):
                yield from _missing_parts(item, (*part, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            if isinstance(item, (dict, list, Missing)):
                yield from _missing_parts(item, (*part, index))


def field_of(obj: JSON | PartialObject, *path: str) -> JSON | Missing:
    """Return the value at a path of maps in an object: None if absent, `Missing` if unknown."""
    value = obj.value if isinstance(obj, PartialObject) else obj
    for name in path:
        if isinstance(value, Missing):
            break
        value = value.get(name) if isinstance(value, dict) else None
    return value


class UserInfo(Struct, frozen=True, dict=True):
    """User that admission sees: the impersonated user if there is one. `missing` names unknown fields."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    missing: tuple[str, ...] = ()

    @cached_property
    def value(self) -> dict[str, JSON]:
        """The user as `authentication/v1.UserInfo`, without empty fields. It must not be changed."""
        value: dict[str, JSON] = {"username": self.username, "uid": self.uid, "groups": list(self.groups)}
        value["extra"] = {key: list(values) for key, values in self.extra.items()}
        return {name: part for name, part in value.items() if part}


class Attributes(Struct):
    """One admission request.

    `kind` and `resource` are those of the request as it came in (`requestKind`, `requestResource` of an
    AdmissionRequest). A matcher with `matchPolicy: Equivalent` derives the matched ones. Objects are plain JSON and
    never changed in place: a mutation copies. `missing` lists unknown parts besides the objects. Examples are
    `request.name` for a generated name that the log lacks (`name` is then empty), and `request.userInfo.groups` if the
    log has no audit events.
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
    """The logical cluster of kcp, empty for other servers."""

    def with_object(self, value: JSON | PartialObject | Missing | None) -> Attributes:
        """Return the same request with another object. `dataclasses.replace` takes several times as long."""
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

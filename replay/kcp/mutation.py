"""The changes that kcp makes to an object between request and storage, besides those of an API server.

Its storage gives every object `kcp.io/cluster`. Its admission plugins label the objects that an APIExport may claim,
and the bindings to it (`kcp-dev/kcp/pkg/admission/permissionclaims`, `apibinding`). They set paths and owners
(`pathannotation`, `workspace`). They complete kcp's own kinds: finalizers of bindings and logical clusters,
initializers and phase of workspaces (`apibindingfinalizer`, `logicalclusterfinalizer`, `logicalcluster`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import orjson

from replay.json import JSON
from replay.kcp.annotation import CLUSTER, PATH, annotation
from replay.kcp.claim import CLAIMED, EXPORT
from replay.kcp.user import MASTERS
from replay.kube.attributes import Missing, Operation, UserInfo
from replay.kube.gvk import GroupResource

_ANNOTATIONS = ("metadata", "annotations")
_OWNER = "experimental.tenancy.kcp.io/owner"
REQUIRED_GROUPS = (*_ANNOTATIONS, "authorization.kcp.io/required-groups")
"""Groups that a new workspace inherits from the workspace in which it is created."""
_PLUGIN_KEYS = (CLAIMED, "internal.apis.kcp.io/", "experimental.tenancy.kcp.io/", PATH)
"""The prefixes of labels and annotations that admission plugins of kcp set."""
_OWN_GROUPS = frozenset({"apis.kcp.io", "core.kcp.io", "tenancy.kcp.io", "topology.kcp.io"})
_FINISHED = (("metadata", "finalizers"), ("status", "conditions"), ("status", "initializers"), ("status", "phase"))
_PATHS = frozenset(
    {
        GroupResource("apis.kcp.io", "apibindings"),
        GroupResource("apis.kcp.io", "apiexports"),
        GroupResource("cache.kcp.io", "clustercachedresources"),
        GroupResource("tenancy.kcp.io", "workspacetypes"),
    }
)
"""Kinds that get the path of their workspace. For other kinds, a path from the client is corrected."""
_OF_BINDING: tuple[tuple[str, ...], ...] = (("metadata", "labels", EXPORT), ("metadata", "finalizers"), ("status",))
_OF_LOGICAL_CLUSTER: tuple[tuple[str, ...], ...] = (("metadata", "finalizers"), ("status",))
_ESCAPED = re.compile(r"[<>&\u2028\u2029]")
"""Characters that Go escapes in JSON."""
_UNSEEN = Missing("", "a plugin of kcp sets it, and a request that stored nothing does not show to what")

BY_STORAGE = ("metadata", "annotations", CLUSTER)
"""The path that the storage sets on every object of a workspace."""


def set_unseen(
    resource: GroupResource, operation: Operation, user: UserInfo, path: str, obj: JSON
) -> dict[tuple[str, ...], JSON | Missing]:
    """Return what kcp's plugins set on a sent object, by path, except labels of claims and required groups.

    Only the stored object shows it. `path` is the path of the workspace.
    """
    values_set: dict[tuple[str, ...], JSON | Missing] = {}
    if resource in _PATHS or annotation(obj, PATH):
        values_set[*_ANNOTATIONS, PATH] = path or _UNSEEN
    if resource == GroupResource("apis.kcp.io", "apibindings"):
        values_set |= dict.fromkeys(_OF_BINDING, _UNSEEN)
    elif resource == GroupResource("core.kcp.io", "logicalclusters"):
        values_set = dict.fromkeys(_OF_LOGICAL_CLUSTER, _UNSEEN)
    elif creates_workspace(resource, operation):
        values_set["status",] = _UNSEEN
        values_set |= {} if MASTERS in user.groups else {(*_ANNOTATIONS, _OWNER): _owner(user)}
    return values_set


def creates_workspace(resource: GroupResource, operation: Operation) -> bool:
    """Return whether a request creates a workspace."""
    return resource == GroupResource("tenancy.kcp.io", "workspaces") and operation is Operation.CREATE


def _owner(user: UserInfo) -> str | Missing:
    """Return the creator of a workspace (`WorkspaceOwnerAnnotationValue`)."""
    extra = {key: list(values) for key, values in sorted(user.extra.items())}
    said = {"username": user.username, "uid": user.uid, "groups": list(user.groups), "extra": extra}
    text = orjson.dumps({key: value for key, value in said.items() if value}).decode()
    return _UNSEEN if _ESCAPED.search(text) else text


def set_by_plugins(group: str, attempt: JSON, stored: JSON) -> Iterator[tuple[str, ...]]:
    """Yield the paths that admission plugins of kcp set or remove, if either state of an object of a group has them."""
    for field, name in _FINISHED if group in _OWN_GROUPS else ():
        if name in ((stored or {}).get(field) or {}):
            yield field, name
    for obj in (attempt, stored):
        metadata = obj.get("metadata") if isinstance(obj, dict) else None
        for field in ("annotations", "labels"):
            keys = metadata.get(field) if isinstance(metadata, dict) else None
            for key in keys if isinstance(keys, dict) else ():
                if key.startswith(_PLUGIN_KEYS):
                    yield "metadata", field, key

"""A candidate's changes of a workspace besides policies: bindings, exports, parameters, namespaces."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from msgspec import Struct

from replay.json import JSON
from replay.kcp.annotation import CLUSTER, annotated
from replay.kube.admissionregistration import GROUP
from replay.kube.object_lister import ObjectKey
from replay.kube.overlay import Overlay
from replay.pipeline.kcp.folder import Folder, ShardFolders, WorkspaceNames
from replay.reconstruct.cluster import NAMESPACE, key_of

_OF_SERVER = frozenset(
    {"creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid", "ownerReferences"}
)
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_WITH_STATUS = ("apis.kcp.io", "APIBinding")
"""Kind whose status decides: its bound resources."""


class WorkspaceChange(Struct, frozen=True, dict=True):
    """Changed and new objects of a candidate, and the baseline's objects that they replace or remove."""

    objects: tuple[JSON, ...] = ()
    earlier: tuple[JSON, ...] = ()

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self.objects or self.earlier)

    def of_kind(self, group: str, kind: str) -> dict[str, JSON]:
        """The cluster-scoped objects of a kind that change, by name; null for what would be gone."""
        objects: dict[str, JSON] = {}
        for obj in self.earlier:
            if key_of(obj)[:2] == (group, kind):
                objects[key_of(obj)[3]] = None
        for obj in self.objects:
            if key_of(obj)[:2] == (group, kind):
                objects[key_of(obj)[3]] = obj
        return objects

    @cached_property
    def namespaces(self) -> WorkspaceChange:
        """Return the changes that requests to this workspace read."""
        return self._part(namespaces=True)

    @cached_property
    def lookups(self) -> WorkspaceChange:
        """Return the changes that this workspace's policies read."""
        return self._part(namespaces=False)

    def _part(self, *, namespaces: bool) -> WorkspaceChange:
        parts = ([obj for obj in each if _is_namespace(obj) is namespaces] for each in (self.objects, self.earlier))
        return WorkspaceChange(*map(tuple, parts))

    def over(self, other: WorkspaceChange) -> Overlay:
        """Return this change and another as an overlay."""
        return Overlay((*self.objects, *other.objects), (*self.earlier, *other.earlier))


NO_CHANGE = WorkspaceChange()


def changes_of(folders: ShardFolders, names: WorkspaceNames) -> dict[str, WorkspaceChange]:
    """Return the candidate's changes, by logical cluster."""
    changes = {}
    for path, planned in (folders.candidate or {}).items():
        current, snapshot = (folders.current or {}).get(path), folders.cluster.get(path)
        change = change_of(current, planned, snapshot, names.cluster(path))
        if change:
            changes[names.cluster(path)] = change
    return changes


def change_of(current: Folder | None, planned: Folder, snapshot: Folder | None, cluster: str) -> WorkspaceChange:
    """Return the candidate's changes of one workspace.

    The reference is the baseline, or the snapshot for kinds that the baseline lacks. A kind that the candidate lacks
    stays. Of a kind in both sets, objects that the candidate lacks are removed.
    """
    said, there, planned_objects = (_objects(each) for each in (current, snapshot, planned))
    said_kinds, kinds = {key[:2] for key in said}, {key[:2] for key in planned_objects}
    base = said | {key: obj for key, obj in there.items() if key[:2] not in said_kinds}
    changed = {key: obj for key, obj in planned_objects.items() if _intent(obj) != _intent(base.get(key))}
    gone = [key for key in said if key[:2] in kinds and key not in planned_objects]
    earlier = [base[key] for key in (*changed, *gone) if key in base]
    return WorkspaceChange(
        tuple(annotated(_without_server_fields(obj), cluster) for obj in changed.values()),
        tuple(annotated(_without_server_fields(obj), cluster) for obj in earlier),
    )


def _objects(folder: Folder | None) -> dict[ObjectKey, JSON]:
    return _by_key(folder.others if folder is not None else ())


def _by_key(objects: Iterable[JSON]) -> dict[ObjectKey, JSON]:
    """Objects by identity, without what registers policies and webhooks."""
    return {key_of(obj): obj for obj in objects if key_of(obj)[0] != GROUP}


def _is_namespace(obj: JSON) -> bool:
    return key_of(obj)[:2] == (NAMESPACE.group, NAMESPACE.kind)


def _intent(obj: JSON) -> JSON:
    """Return an object's intent, without status and system metadata."""
    if obj is None:
        return None
    bare = _without_server_fields(obj)
    metadata = bare["metadata"]
    ignored = {CLUSTER, _LAST_APPLIED}
    annotations = {key: text for key, text in (metadata.get("annotations") or {}).items() if key not in ignored}
    labels = {key: text for key, text in (metadata.get("labels") or {}).items() if key != "kubernetes.io/metadata.name"}
    return {**bare, "metadata": {**metadata, "annotations": annotations, "labels": labels}}


def _without_server_fields(obj: JSON) -> JSON:
    """An object without what the server alone writes of it."""
    metadata = {key: value for key, value in (obj.get("metadata") or {}).items() if key not in _OF_SERVER}
    fields = {key: value for key, value in obj.items() if key != "status" or key_of(obj)[:2] == _WITH_STATUS}
    return {**fields, "metadata": metadata}

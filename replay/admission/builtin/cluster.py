"""Cluster facts for built-in plugins: objects, permissions, kinds."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from replay.admission.builtin.partial import guarded
from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject
from replay.kube.authorizer import Authorizer
from replay.kube.discovery import Discovery
from replay.kube.gvk import GroupVersionKind
from replay.kube.lister import Lister

NAMESPACE = GroupVersionKind("", "v1", "Namespace")


class PluginCluster(Struct, frozen=True):
    """The cluster at the time of a request.

    Partly known objects are guarded: a plugin that reads an unknown field raises UnknownInputError.
    """

    lister: Lister
    authorizer: Authorizer
    discovery: Discovery

    def namespace(self, name: str) -> JSON | Missing | None:
        """Return the namespace object, None if there is none."""
        return self.get(NAMESPACE, "", name)

    def get(self, kind: GroupVersionKind, namespace: str, name: str) -> JSON | Missing | None:
        """Return an object, None if there is none. `namespace` is empty for cluster scope."""
        return _readable(self.lister.get(kind, namespace, name))

    def list(self, kind: GroupVersionKind, namespace: str | None = None) -> Sequence[JSON] | Missing:
        """Return all objects of a kind, in a namespace or in all."""
        objects = self.lister.list(kind, namespace)
        return objects if isinstance(objects, Missing) else [_readable(each) for each in objects]


def _readable(value: JSON | PartialObject | Missing | None) -> JSON | Missing | None:
    return guarded(value.value) if isinstance(value, PartialObject) else value

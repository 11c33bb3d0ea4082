"""What a built-in plugin may ask of the cluster: objects, who may do what, which kinds there are."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from replay.json import JSON
from replay.kube.attributes import Missing
from replay.kube.authorizer import Authorizer
from replay.kube.discovery import Discovery
from replay.kube.gvk import GroupVersionKind
from replay.kube.lister import Lister

NAMESPACE = GroupVersionKind("", "v1", "Namespace")


class PluginCluster(Struct, frozen=True):
    """The cluster at the instant of a request."""

    lister: Lister
    authorizer: Authorizer
    discovery: Discovery

    def namespace(self, name: str) -> JSON | Missing | None:
        """The namespace object, None if there is none."""
        return self.lister.get(NAMESPACE, "", name)

    def list(self, kind: GroupVersionKind, namespace: str | None = None) -> Sequence[JSON] | Missing:
        """All objects of a kind, in a namespace or in all."""
        return self.lister.list(kind, namespace)

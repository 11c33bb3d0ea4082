"""Where decisions find the objects of the cluster: namespaces, parameters, RBAC objects, CRDs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from replay.json import JSON
from replay.kube.attributes import Missing
from replay.kube.gvk import GroupVersionKind


class Lister(Protocol):
    """The objects of the cluster at the instant of one request, as plain JSON that nobody changes."""

    def get(self, kind: GroupVersionKind, namespace: str, name: str) -> JSON | Missing | None:
        """The object, None if it is known not to exist, or why that is not known; `namespace` is empty for cluster scope."""
        ...

    def list(self, kind: GroupVersionKind, namespace: str | None) -> Sequence[JSON] | Missing:
        """All objects of a kind in a namespace (None: in all), sorted by namespace and name, or why they are not known."""
        ...

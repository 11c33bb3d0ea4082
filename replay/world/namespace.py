"""Namespaces in the candidate's world."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from replay.audit.place import Place
from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject
from replay.kube.gvk import GroupVersionKind
from replay.kube.lister import Lister
from replay.reconstruct.cluster import NAMESPACE
from replay.reconstruct.record.known import Known, attribute, get
from replay.world.result import Blame
from replay.world.state import State, content
from replay.world.timeline import Change, branches_at

Namespaces = Mapping[str, Sequence[Change]]
"""The namespaces that differ at some time, with when they do."""


class NamespaceAt(NamedTuple):
    """The namespace of a request; `state` is None where it is that of the log, or where there is none."""

    state: State = None
    blame: Blame | None = None
    is_open: bool = False
    """Whether it may be in several states."""

    @property
    def differs(self) -> bool:
        """Whether it is not that of the log."""
        return self.state is not None

    @property
    def is_absent(self) -> bool:
        """Whether it is not there."""
        return isinstance(self.state, Known) and self.state.value is None

    @property
    def is_terminating(self) -> bool:
        """Whether it is being deleted: nothing new is let in."""
        return isinstance(self.state, Known) and bool(get(self.state.value, ("status", "phase")) == "Terminating")

    @property
    def value(self) -> JSON | PartialObject | Missing | None:
        """As policies see it."""
        return None if self.state is None else attribute(content(self.state), "namespaceObject")


SAME_NAMESPACE = NamespaceAt()


def namespaces_at(namespaces: Namespaces, name: str, place: Place) -> list[NamespaceAt]:
    """All that the namespace of a request may be."""
    changes = namespaces.get(name)
    if not name or not changes:
        return [SAME_NAMESPACE]
    branches = branches_at(changes, place)
    return [NamespaceAt(branch.state, branch.blame, len(branches) > 1) for branch in branches]


class WorldLister:
    """`replay.kube.lister.Lister` with a namespace of the candidate's world."""

    def __init__(self, lister: Lister, name: str, state: State) -> None:
        """All but the namespace is that of the log."""
        self._lister = lister
        self._name = name
        self._state = state

    def get(self, kind: GroupVersionKind, namespace: str, name: str) -> JSON | Missing | None:
        """See `Lister.get`."""
        if kind == NAMESPACE and name == self._name and self._state is not None:
            return attribute(content(self._state), "Namespace")
        return self._lister.get(kind, namespace, name)

    def list(self, kind: GroupVersionKind, namespace: str | None) -> Sequence[JSON] | Missing:
        """See `Lister.list`."""
        return self._lister.list(kind, namespace)

"""Namespaces under the candidate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from replay.audit.place import BETWEEN, LogPosition
from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject
from replay.reconstruct.record.known import Known, attribute, get
from replay.world.result import CausingRequest
from replay.world.state import State, content
from replay.world.timeline import WorldChange, branches_at, states_after_deletion

NamespaceChanges = Mapping[str, Sequence[WorldChange]]
"""Namespaces that differ at some time, by `namespace_key`, with the times of their changes."""


def namespace_key(name: str, workspace: str) -> str:
    """Return the key of a namespace: its name, with its workspace in kcp."""
    return f"{name}{BETWEEN}{workspace}" if workspace else name


class NamespaceAt(NamedTuple):
    """Namespace of a request under the candidate. `state` is None if it is as in the log or if there is none."""

    state: State = None
    causing_request: CausingRequest | None = None
    is_open: bool = False
    """True if the namespace may be in one of several states."""

    @property
    def differs(self) -> bool:
        """Return whether the namespace differs from the log."""
        return self.state is not None

    @property
    def is_absent(self) -> bool:
        """Return whether the namespace does not exist."""
        return isinstance(self.state, Known) and self.state.value is None

    @property
    def is_terminating(self) -> bool:
        """Return whether the namespace is being deleted, so that nothing can be created in it."""
        return isinstance(self.state, Known) and bool(get(self.state.value, ("status", "phase")) == "Terminating")

    @property
    def value(self) -> JSON | PartialObject | Missing | None:
        """Return the namespace as policies see it."""
        return None if self.state is None else attribute(content(self.state), "namespaceObject")


SAME_NAMESPACE = NamespaceAt()


def namespaces_at(
    namespaces: NamespaceChanges, name: str, place: LogPosition, workspace: str = ""
) -> list[NamespaceAt]:
    """Return all possible states of a request's namespace."""
    changes = namespaces.get(namespace_key(name, workspace))
    if not name or not changes:
        return [SAME_NAMESPACE]
    branches = branches_at(changes, place)
    if len(branches) > 1:
        branches = states_after_deletion(branches, place.microseconds)
    return [NamespaceAt(branch.state, branch.causing_request, len(branches) > 1) for branch in branches]

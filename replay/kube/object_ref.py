"""The identity of an object, the same for snapshot, history, lookups and findings."""

from __future__ import annotations

from typing import NamedTuple


class ObjectRef(NamedTuple):
    """Identity of an object without its UID, as `objectRef` of an event names it.

    A namespace has no namespace. `name` is empty if unknown. `workspace` is the logical cluster of kcp, and empty in
    the log of a Kubernetes API server.
    """

    group: str
    resource: str
    namespace: str
    name: str
    workspace: str = ""

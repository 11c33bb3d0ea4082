"""The identity of an object, the same for snapshot, history, lookups and findings."""

from __future__ import annotations

from typing import NamedTuple


class ObjectRef(NamedTuple):
    """What keeps an object apart from all others, its uid aside, as `objectRef` of an event names it.

    A namespace stands in no namespace. `name` is empty where it is not known. `workspace` is the logical cluster of kcp, in
    which the names of all others are free; it is empty in the log of a Kubernetes API server, which has one cluster.
    """

    group: str
    resource: str
    namespace: str
    name: str
    workspace: str = ""

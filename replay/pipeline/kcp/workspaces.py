"""Known workspaces of a shard."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from replay.json import JSON
from replay.pipeline.kcp.folder import WorkspaceNames
from replay.pipeline.kcp.planned import WorkspaceChange

Policies = Mapping[str, tuple[JSON, ...]]
"""By logical cluster the policies, bindings and webhook configurations, as the server holds them."""


class Workspaces(Struct, frozen=True):
    """Names and sets by workspace. A workspace without a set is unknown.

    `heard` are logical clusters with events in the log. Writes to others are unknown. The log begins at `began`, in
    microseconds.
    """

    names: WorkspaceNames = field(default_factory=WorkspaceNames)
    current: Policies = field(default_factory=dict)
    candidate: Policies = field(default_factory=dict)
    heard: frozenset[str] = frozenset()
    began: int = 0
    changes: Mapping[str, WorkspaceChange] = field(default_factory=dict)
    """By logical cluster what else the candidate changes."""
    only: frozenset[str] = frozenset()
    """Names of the only validating policies that run; empty for all."""

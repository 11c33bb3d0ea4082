"""Deciding policies if a candidate changes APIBindings or APIExports."""

from __future__ import annotations

from collections.abc import Iterable

from replay.json import JSON
from replay.kcp.binding import API_BINDING, API_EXPORT, bound_from, exported, is_local, is_system, reference_of
from replay.kube.attributes import Missing
from replay.kube.gvk import GroupResource
from replay.pipeline.kcp.planned import NO_CHANGE
from replay.pipeline.kcp.workspaces import Workspaces
from replay.reconstruct.shard.cluster import ShardCluster

_GIVE_EXPORTS = "give a snapshot with the APIExports of its workspace"


class Rebinding:
    """A candidate's bindings: those of the time, with its changes.

    A changed binding binds what its export offers, as kcp's controllers ensure.
    """

    def __init__(self, cluster: ShardCluster, workspaces: Workspaces) -> None:
        """`workspaces` have the changes of the candidate."""
        self._cluster, self._workspaces = cluster, workspaces
        self._exports = {
            (workspace, name): obj
            for workspace, change in workspaces.changes.items()
            for name, obj in change.of_kind(API_EXPORT.group, API_EXPORT.kind).items()
        }
        self._bindings = {
            workspace: bindings
            for workspace, change in workspaces.changes.items()
            if (bindings := change.of_kind(API_BINDING.group, API_BINDING.kind))
        }

    def policy_workspace(
        self, own: str | Missing, workspace: str, resource: GroupResource, start: int, end: int
    ) -> str | Missing:
        """Return whose policies would decide about a workspace's resource; `own` are those that did."""
        if not (self._exports or workspace in self._bindings) or is_local(resource) or is_system(workspace):
            return own
        bindings = self._cluster.bindings(workspace, start, end)
        changed = self._bindings.get(workspace, {})
        unchanged = [state for states in bindings.states for state in states if _name(states) not in changed]
        sources_of_bindings = [self._source(workspace, state, resource) for state in (*unchanged, *changed.values())]
        sources = {source for source in sources_of_bindings if isinstance(source, str)} - {""}
        if len(sources) == 1:
            return sources.pop()
        if sources:
            return Missing("", f"the candidate binds {resource} from several workspaces")
        unknown = next((source for source in sources_of_bindings if isinstance(source, Missing)), None)
        if unknown is not None:
            return unknown
        if not bindings.are_all or resource in self._cluster.defined(workspace):
            return own
        return Missing("", f"the candidate binds {resource} from nobody, and the workspace has none of its own")

    def _source(self, workspace: str, binding: JSON | Missing, resource: GroupResource) -> str | Missing:
        """The logical cluster that a binding would bind a resource from, empty if it would not."""
        if binding is None or isinstance(binding, Missing):
            return binding or ""
        path, name = reference_of(binding)
        home = self._workspaces.names.cluster(path) if path else workspace
        if (home, name) not in self._exports and not self._is_rebound(workspace, binding):
            return bound_from(binding, resource)
        export = self._exports[home, name] if (home, name) in self._exports else self._export(home, name)
        if isinstance(export, Missing):
            return export
        return home if resource in exported(export) else ""

    def _is_rebound(self, workspace: str, binding: JSON) -> bool:
        """Whether a binding is one of the candidate that refers to another export than before, or has no status yet."""
        name = _name([binding])
        planned = self._bindings.get(workspace, {}).get(name)
        if planned is None or binding is not planned:
            return False
        if not planned.get("status"):
            return True
        change = self._workspaces.changes.get(workspace, NO_CHANGE)
        earlier = next((obj for obj in change.earlier if _is_binding(obj, name)), None)
        return earlier is None or reference_of(earlier) != reference_of(planned)

    def _export(self, workspace: str, name: str) -> JSON | Missing:
        """The newest state of an export."""
        history = self._cluster.of(workspace).history(API_EXPORT, "", name)
        states = [effect.state for effect in history.effects if effect.state is not None] if history else []
        where = self._workspaces.names.path(workspace)
        return states[-1] if states else Missing("", f"what `{where}:{name}` exports is not known", _GIVE_EXPORTS)


def _name(states: Iterable[JSON | Missing]) -> str:
    """The name of a binding, empty where no state of it is known."""
    return next((str(state["metadata"]["name"]) for state in states if isinstance(state, dict)), "")


def _is_binding(obj: JSON, name: str) -> bool:
    return (obj["kind"], _name([obj])) == (API_BINDING.kind, name)

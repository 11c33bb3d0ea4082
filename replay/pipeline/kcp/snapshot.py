"""A snapshot by workspace: what decisions look up in each of some workspaces, read with the operator's own `kubectl`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import orjson

from replay.errors import SnapshotError
from replay.json import JSON
from replay.kcp.annotation import PATH, annotation
from replay.kube.gvk import GroupResource, split_api_version
from replay.pipeline.snapshot import REGISTRATIONS, Run, WantedResource, command, objects_of, run_kubectl
from replay.pipeline.whole_file import whole_file

_LOGICAL_CLUSTER = WantedResource(GroupResource("core.kcp.io", "logicalclusters"), "the path of the workspace")
RESOURCES = (
    *(WantedResource(resource, "admission policies", optional=True) for resource in REGISTRATIONS),
    WantedResource(GroupResource("apis.kcp.io", "apibindings"), "whose policies decide"),
    WantedResource(GroupResource("apis.kcp.io", "apiexports"), "what the workspace exports"),
    WantedResource(GroupResource("apis.kcp.io", "apiresourceschemas"), "the kinds that it exports"),
    WantedResource(GroupResource("apiextensions.k8s.io", "customresourcedefinitions"), "the kinds of custom resources"),
    WantedResource(GroupResource("tenancy.kcp.io", "workspaces"), "the workspaces in it", optional=True),
    WantedResource(GroupResource("", "namespaces"), "namespaceSelector and namespaceObject"),
)
"""Resources that are read in every workspace, besides policy parameters."""


def take_workspace(kubectl: Sequence[str], out: Path, run: Run = run_kubectl) -> tuple[str, int]:
    """Write one workspace's objects to its folder; return its path and their number.

    Raises SnapshotError if `kubectl` does not reach a workspace, or cannot read a resource.
    """
    logical_clusters = list(objects_of(_LOGICAL_CLUSTER, kubectl, run))
    path = next((named for obj in logical_clusters if (named := annotation(obj, PATH))), "")
    if not path:
        raise SnapshotError(f"`{' '.join(kubectl)}` is for no workspace of kcp: its LogicalCluster has no path")
    by_resource = {_LOGICAL_CLUSTER.resource: logical_clusters}
    for each in RESOURCES:
        by_resource[each.resource] = list(objects_of(each, kubectl, run))
    for resource in _params(by_resource):
        if resource not in by_resource:
            by_resource[resource] = list(objects_of(WantedResource(resource, "parameters"), kubectl, run))
    folder = out / path.replace(":", ".")
    folder.mkdir(parents=True, exist_ok=True)
    for resource, objects in by_resource.items():
        with whole_file(folder / f"{resource}.json", "the snapshot") as file:
            file.write(orjson.dumps({"apiVersion": "v1", "kind": "List", "items": objects}, option=orjson.OPT_INDENT_2))
    return path, sum(map(len, by_resource.values()))


def commands(kubectl: Sequence[str]) -> list[list[str]]:
    """The kubectl commands that read one workspace, parameters of its policies aside."""
    return [command(each, kubectl) for each in (_LOGICAL_CLUSTER, *RESOURCES)]


def _params(objects: dict[GroupResource, list[JSON]]) -> list[GroupResource]:
    """The resources of the parameters of the policies that were read; Secrets are in no snapshot."""
    resources = set()
    for policy in (each for resource in REGISTRATIONS for each in objects.get(resource, ())):
        kind = (policy.get("spec") or {}).get("paramKind")
        if isinstance(kind, dict) and kind.get("kind") != "Secret":
            group = split_api_version(str(kind.get("apiVersion") or ""))[0]
            name = str(kind.get("kind")).lower()
            resources.add(GroupResource(group, "configmaps" if (group, name) == ("", "configmap") else name))
    return sorted(resources)

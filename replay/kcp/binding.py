"""The workspace whose policies decide about a resource.

It is exactly one: the one whose APIExport the target binds the resource from, else the target itself. Version and
subresource have no effect (`getSourceClusterForGroupResource` of
`kcp-dev/kcp/pkg/admission/{mutatingwebhook,mutatingadmissionpolicy,validatingadmissionpolicy,validatingwebhook}`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from replay.json import JSON
from replay.kube.attributes import Missing
from replay.kube.discovery import APIResource
from replay.kube.gvk import GroupResource, GroupVersionKind, GroupVersionResource

API_BINDING = GroupVersionKind("apis.kcp.io", "v1alpha2", "APIBinding")
API_EXPORT = GroupVersionKind("apis.kcp.io", "v1alpha2", "APIExport")
API_RESOURCE_SCHEMA = GroupVersionKind("apis.kcp.io", "v1alpha1", "APIResourceSchema")
LOGICAL_CLUSTER = GroupVersionKind("core.kcp.io", "v1alpha1", "LogicalCluster")

_OWN_GROUPS = frozenset(
    f"{name}.k8s.io"
    for name in (
        "admissionregistration",
        "apiextensions",
        "authentication",
        "authorization",
        "certificates",
        "coordination",
        "events",
        "flowcontrol.apiserver",
        "rbac.authorization",
    )
)
"""The groups that a shard serves in every workspace.

They cannot be bound (`kcp-dev/kcp/pkg/virtual/apiexport/schemas/builtin`).
"""
_OWN_RESOURCES = frozenset(
    {
        *(
            GroupResource("", name)
            for name in (
                "configmaps",
                "events",
                "limitranges",
                "namespaces",
                "resourcequotas",
                "secrets",
                "serviceaccounts",
            )
        ),
        *(
            GroupResource("apis.kcp.io", name)
            for name in ("apibindings", "apiconversions", "apiexports", "apiexportendpointslices", "apiresourceschemas")
        ),
        GroupResource("core.kcp.io", "logicalclusters"),
    }
)


_SYSTEM_KINDS = (
    ("apis.kcp.io", ("v1alpha1", "v1alpha2"), "apibindings", "APIBinding"),
    ("apis.kcp.io", ("v1alpha1",), "apiconversions", "APIConversion"),
    ("apis.kcp.io", ("v1alpha1", "v1alpha2"), "apiexports", "APIExport"),
    ("apis.kcp.io", ("v1alpha1",), "apiexportendpointslices", "APIExportEndpointSlice"),
    ("apis.kcp.io", ("v1alpha1",), "apiresourceschemas", "APIResourceSchema"),
    ("core.kcp.io", ("v1alpha1",), "logicalclusters", "LogicalCluster"),
)
"""The kinds of kcp in every workspace (`kcp-dev/kcp/config/system-crds`). All are cluster-scoped and have a status."""


class DecidedIn(NamedTuple):
    """The kcp workspaces of a request: its own, that of the deciding policies, and that of the candidate's policies.

    All are paths. They are empty in other servers, and those of policies are empty if they are unknown.
    """

    workspace: str = ""
    policies: str = ""
    planned: str = ""


NO_WORKSPACE = DecidedIn()


class APIBindings(NamedTuple):
    """The possible states of each APIBinding of a workspace at a time, null where it did not exist.

    `are_all` says that there can be no other binding.
    """

    states: Sequence[Sequence[JSON | Missing]] = ()
    are_all: bool = True

    @property
    def are_known(self) -> bool:
        """Return whether all bindings are known, so that no bound resource can be missing."""
        return self.are_all and not any(isinstance(state, Missing) for states in self.states for state in states)


def system_resources() -> Iterable[APIResource]:
    """Yield the resources of kcp itself."""
    for group, versions, resource, kind in _SYSTEM_KINDS:
        for version in versions:
            gvk = GroupVersionKind(group, version, kind)
            gvr = GroupVersionResource(group, version, resource)
            yield APIResource(gvr, gvk, namespaced=False, subresources={"status": gvk}, custom=True)


def is_system(workspace: str) -> bool:
    """Return whether a logical cluster belongs to kcp itself.

    Such a cluster is no workspace, is in no snapshot, and has no user policies.
    """
    return workspace.startswith("system:")


def is_local(resource: GroupResource) -> bool:
    """Return whether every workspace has its own such resource, so that bindings do not matter."""
    return resource.group in _OWN_GROUPS or resource in _OWN_RESOURCES


def bound_from(binding: JSON, resource: GroupResource) -> str:
    """Return the logical cluster from which an APIBinding binds a resource, empty if it does not bind it."""
    status = binding.get("status") if isinstance(binding, dict) else None
    if not isinstance(status, dict):
        return ""
    for each in _items(status.get("boundResources")):
        if (each.get("group") or "", each.get("resource")) == resource:
            return str(status.get("apiExportClusterName") or "")
    return ""


def schema_names(binding: JSON) -> list[str]:
    """Return the names of the APIResourceSchemas that an APIBinding binds, in the workspace of the export."""
    status = binding.get("status") if isinstance(binding, dict) else None
    bound = _items(status.get("boundResources")) if isinstance(status, dict) else ()
    return [str((each.get("schema") or {}).get("name") or "") for each in bound]


def reference_of(binding: JSON) -> tuple[str, str]:
    """Return the workspace path of the export that an APIBinding names, and the export's name.

    The path is empty for its own.
    """
    spec = binding.get("spec") or {}
    export = (spec.get("reference") or {}).get("export") or {}
    return str(export.get("path") or ""), str(export.get("name") or "")


def exported(export: JSON) -> frozenset[GroupResource]:
    """Return the resources of an APIExport.

    Before v1alpha2 they are in the names of its schemas (`version.resource.group`).
    """
    spec = export.get("spec") or {} if isinstance(export, dict) else {}
    resources = {
        GroupResource(str(each.get("group") or ""), str(each.get("name"))) for each in _items(spec.get("resources"))
    }
    for name in spec.get("latestResourceSchemas") or ():
        _, resource, group = (*str(name).split(".", 2), "", "")[:3]
        # The name of a schema cannot hold an empty group, so the core group is `core`.
        resources.add(GroupResource("" if group == "core" else group, resource))
    return frozenset(resources)


def _items(value: JSON) -> Iterable[JSON]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else ()


def crd_of_schema(schema: JSON) -> JSON:
    """Return an APIResourceSchema as the CustomResourceDefinition that a shard creates from it for each binding."""
    spec = schema.get("spec") or {}
    versions = [
        {**version, "schema": {"openAPIV3Schema": version.get("schema") or {}}}
        for version in _items(spec.get("versions"))
    ]
    names = {key: spec[key] for key in ("group", "names", "scope") if key in spec}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{(spec.get('names') or {}).get('plural')}.{spec.get('group')}"},
        "spec": {**names, "versions": versions},
    }

"""Names of kinds and resources (`k8s.io/apimachinery/pkg/runtime/schema`), and the identity of one object.

The identity is the same for snapshot, history, lookups and findings.
"""

from __future__ import annotations

from typing import NamedTuple


class GroupResource(NamedTuple):
    """A resource without a version, as error messages name it."""

    group: str
    resource: str

    def __str__(self) -> str:
        """Return `resource` for the core group, else `resource.group`."""
        return f"{self.resource}.{self.group}" if self.group else self.resource


class GroupVersionKind(NamedTuple):
    """A kind as `apiVersion` and `kind` of an object name it. The core group is the empty string."""

    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        """Return `group/version`, or `version` alone for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version


class GroupVersionResource(NamedTuple):
    """A resource as a request URI names it, without subresource."""

    group: str
    version: str
    resource: str

    @property
    def group_resource(self) -> GroupResource:
        """Return the same resource without its version."""
        return GroupResource(self.group, self.resource)


def split_api_version(api_version: str) -> tuple[str, str]:
    """Return `(group, version)` of an `apiVersion`. The core group is the empty string."""
    group, _, version = api_version.rpartition("/")
    return group, version


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

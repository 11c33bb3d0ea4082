"""Plugins about the namespace of a request: NamespaceExists, NamespaceAutoProvision and NamespaceLifecycle.

Sources: `plugin/pkg/admission/namespace/{exists,autoprovision}/admission.go`,
`k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle/admission.go`.
"""

from __future__ import annotations

from typing import Final

from replay.admission.builtin.plugin import CREATE, NAMESPACE, WRITES, Plugin, Refusal, Review, forbidden, known
from replay.kube.attributes import Operation


class NamespaceExists(Plugin):
    """Refuses writes in a namespace that does not exist. A terminating namespace exists."""

    name = "NamespaceExists"
    operations = WRITES
    looks_up = (("", "Namespace"),)
    ignores_metadata = True

    def validate(self, review: Review) -> Refusal | None:
        """Refuse with 404."""
        return namespace_not_found(review.attributes.namespace) if _is_absent(review) else None


class NamespaceAutoProvision(Plugin):
    """Creates a missing namespace, with a name only, before an object is created in it."""

    name = "NamespaceAutoProvision"
    operations = CREATE
    looks_up = (("", "Namespace"),)
    ignores_metadata = True

    def admit(self, review: Review) -> Refusal | None:
        """Record the creation of the namespace. A dry run creates none."""
        if not review.attributes.dry_run and _is_absent(review):
            namespace = {"metadata": {"name": review.attributes.namespace}, "spec": {}, "status": {}}
            review.effects.append({"verb": "create", "resource": "namespaces", "object": namespace})
        return None


def namespace_not_found(name: str) -> Refusal:
    """Return the API's 404 for a namespace."""
    return Refusal(404, "NotFound", f'namespaces "{name}" not found')


def _is_absent(review: Review) -> bool:
    """Return whether the request is about an object in a namespace that does not exist."""
    attributes = review.attributes
    is_namespace = (attributes.kind.group, attributes.kind.kind) == (NAMESPACE.group, NAMESPACE.kind)
    if not attributes.namespace or is_namespace:
        return False
    return known(review.cluster.namespace(attributes.namespace)) is None


_IMMORTAL: Final = frozenset({"default", "kube-system", "kube-public"})
_ACCESS_REVIEW: Final = ("authorization.k8s.io", "localsubjectaccessreviews")


class NamespaceLifecycle(Plugin):
    """Refuses new objects in a missing or terminating namespace, and the deletion of three namespaces."""

    name = "NamespaceLifecycle"
    operations = WRITES
    looks_up = (("", "Namespace"),)
    ignores_metadata = True

    def admit(self, review: Review) -> Refusal | None:
        """Refuse a creation in a missing namespace with 404, one in a terminating namespace with 403.

        A protected deletion is refused with 403.
        """
        attributes = review.attributes
        is_namespace = (attributes.kind.group, attributes.kind.kind) == (NAMESPACE.group, NAMESPACE.kind)
        if is_namespace:
            if attributes.operation is Operation.DELETE and attributes.name in _IMMORTAL:
                return forbidden(review.resource, attributes.name, "this namespace may not be deleted")
            return None
        resource = (attributes.resource.group, attributes.resource.resource)
        # An error for an access review would show whether the namespace exists.
        if attributes.operation is not Operation.CREATE or not attributes.namespace or resource == _ACCESS_REVIEW:
            return None
        namespace = known(review.cluster.namespace(attributes.namespace))
        if namespace is None:
            return namespace_not_found(attributes.namespace)
        if (namespace.get("status") or {}).get("phase") == "Terminating":
            name = attributes.namespace
            return review.forbidden(f"unable to create new content in namespace {name} because it is being terminated")
        return None

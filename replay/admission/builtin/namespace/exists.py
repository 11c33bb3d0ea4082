"""NamespaceExists and NamespaceAutoProvision (`plugin/pkg/admission/namespace/{exists,autoprovision}/admission.go`)."""

from __future__ import annotations

from replay.admission.builtin.cluster import NAMESPACE
from replay.admission.builtin.plugin import CREATE, WRITES, Plugin, Refusal, Review, known


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

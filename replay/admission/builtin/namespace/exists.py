"""NamespaceExists and NamespaceAutoProvision (`plugin/pkg/admission/namespace/{exists,autoprovision}/admission.go`)."""

from __future__ import annotations

from replay.admission.builtin.cluster import NAMESPACE
from replay.admission.builtin.plugin import CREATE, WRITES, Plugin, Refusal, Review, known


class NamespaceExists(Plugin):
    """Nothing is done in a namespace that is not there; a terminating one is."""

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
        """Note the creation of the namespace; a dry run creates none."""
        if not review.attributes.dry_run and _is_absent(review):
            namespace = {"metadata": {"name": review.attributes.namespace}, "spec": {}, "status": {}}
            review.effects.append({"verb": "create", "resource": "namespaces", "object": namespace})
        return None


def namespace_not_found(name: str) -> Refusal:
    """404 as the API says it of a namespace."""
    return Refusal(404, "NotFound", f'namespaces "{name}" not found')


def _is_absent(review: Review) -> bool:
    """Whether the request is about something in a namespace that is not there."""
    attributes = review.attributes
    is_namespace = (attributes.kind.group, attributes.kind.kind) == (NAMESPACE.group, NAMESPACE.kind)
    if not attributes.namespace or is_namespace:
        return False
    return known(review.cluster.namespace(attributes.namespace)) is None

"""StorageObjectInUseProtection: finalizers.

Source: `plugin/pkg/admission/storage/storageobjectinuseprotection/admission.go`.
"""

from __future__ import annotations

from replay.admission.builtin.plugin import CREATE, Plugin, Refusal, Review
from replay.kube.plugin import FINALIZERS, with_finalizer


class StorageObjectInUseProtection(Plugin):
    """Protects volumes and claims from deletion while something uses them."""

    name = "StorageObjectInUseProtection"
    refuses = False
    operations = CREATE
    concerns = (("", ("persistentvolumeclaims", "persistentvolumes")),)

    def admit(self, review: Review) -> Refusal | None:
        """Append the finalizer of the resource."""
        resource = review.attributes.resource
        finalizer = FINALIZERS.get((resource.group, resource.resource))
        if finalizer is None or review.attributes.subresource:
            return None
        metadata = review.object["metadata"]
        metadata.update(with_finalizer(metadata, finalizer))
        return None

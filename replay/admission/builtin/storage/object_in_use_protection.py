"""StorageObjectInUseProtection (`plugin/pkg/admission/storage/storageobjectinuseprotection/admission.go`): finalizers."""

from __future__ import annotations

from typing import Final

from replay.admission.builtin.plugin import CREATE, Plugin, Refusal, Review

_FINALIZERS: Final = {
    ("", "persistentvolumes"): "kubernetes.io/pv-protection",
    ("", "persistentvolumeclaims"): "kubernetes.io/pvc-protection",
    ("storage.k8s.io", "volumeattributesclasses"): "kubernetes.io/vac-protection",
}


class StorageObjectInUseProtection(Plugin):
    """Volumes, claims and attribute classes are not deleted while something uses them."""

    name = "StorageObjectInUseProtection"
    operations = CREATE
    concerns = (("", ("persistentvolumeclaims", "persistentvolumes")),)
    is_on_by_default = True

    def admit(self, review: Review) -> Refusal | None:
        """Append the finalizer of the kind."""
        resource = review.attributes.resource
        finalizer = _FINALIZERS.get((resource.group, resource.resource))
        if finalizer is None or review.attributes.subresource:
            return None
        metadata = review.object["metadata"]
        if finalizer not in (metadata.get("finalizers") or ()):
            metadata["finalizers"] = [*(metadata.get("finalizers") or ()), finalizer]
        return None

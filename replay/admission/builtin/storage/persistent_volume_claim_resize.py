"""PersistentVolumeClaimResize: limits on growing claims.

Source: `plugin/pkg/admission/storage/persistentvolume/resize/admission.go`.
"""

from __future__ import annotations

from replay.admission.builtin.plugin import Plugin, Refusal, Review, known
from replay.admission.builtin.storage.default_class import storage_class_of
from replay.json import JSON
from replay.kube.attributes import Operation
from replay.kube.plugin import STORAGE_CLASS
from replay.kube.quantity import Quantity, parse_quantity

_UNBOUND = "Only bound persistent volume claims can be expanded"
_NOT_RESIZABLE = (
    "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"
)


class PersistentVolumeClaimResize(Plugin):
    """Allows only a bound claim to grow, and only if its class permits it. Shrinking is checked elsewhere."""

    name = "PersistentVolumeClaimResize"
    operations = frozenset({Operation.UPDATE})
    concerns = (("", ("persistentvolumeclaims",)),)
    looks_up = (("storage.k8s.io", "StorageClass"),)

    def validate(self, review: Review) -> Refusal | None:
        """Refuse a growth that the claim or its class does not permit."""
        if not review.is_resource("", "persistentvolumeclaims"):
            return None
        claim, old = review.object, review.old_object
        if _storage(claim).compare(_storage(old)) <= 0:
            return None
        if (old.get("status") or {}).get("phase") != "Bound":
            return review.forbidden(_UNBOUND)
        return None if _allows_resize(review, claim, old) else review.forbidden(_NOT_RESIZABLE)


def _allows_resize(review: Review, claim: JSON, old: JSON) -> bool:
    name = storage_class_of(claim)
    # A claim without a class was not provisioned dynamically.
    if not name or name != storage_class_of(old):
        return False
    storage_class = known(review.cluster.get(STORAGE_CLASS.kind, "", name))
    return bool(storage_class and storage_class.get("allowVolumeExpansion"))


def _storage(claim: JSON) -> Quantity:
    requests = ((claim.get("spec") or {}).get("resources") or {}).get("requests") or {}
    return parse_quantity(str(requests.get("storage", "0")))

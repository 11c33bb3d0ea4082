"""Plugins about claims, volumes and classes: default classes, finalizers of objects in use, and limits on growing claims.

DefaultStorageClass and DefaultIngressClass set the newest class that is marked as the default. What they and
StorageObjectInUseProtection write is in `replay.kube.plugin`.

Sources: `plugin/pkg/admission/storage/storageobjectinuseprotection/admission.go`,
`plugin/pkg/admission/storage/persistentvolume/resize/admission.go`.
"""

from __future__ import annotations

from replay.admission.builtin.plugin import CREATE, Plugin, Refusal, Review, known
from replay.json import JSON
from replay.kube.attributes import Operation
from replay.kube.plugin import FINALIZERS, INGRESS_CLASS, STORAGE_CLASS, DefaultClass, with_finalizer
from replay.kube.quantity import Quantity, parse_quantity


class DefaultStorageClass(Plugin):
    """The default class of claims without a class. An empty class name is an explicit choice of none."""

    name = "DefaultStorageClass"
    refuses = False
    operations = CREATE
    concerns = (("", ("persistentvolumeclaims",)),)
    looks_up = (("storage.k8s.io", "StorageClass"),)

    def admit(self, review: Review) -> Refusal | None:
        """Set `storageClassName`."""
        if review.is_resource("", "persistentvolumeclaims"):
            _set_class(review, STORAGE_CLASS)
        return None


class DefaultIngressClass(Plugin):
    """Gives an Ingress the default class, unless it has a class or the old annotation, even an empty one."""

    name = "DefaultIngressClass"
    refuses = False
    operations = CREATE
    concerns = (("networking.k8s.io", ("ingresses",)),)
    looks_up = (("networking.k8s.io", "IngressClass"),)

    def admit(self, review: Review) -> Refusal | None:
        """Set `ingressClassName`."""
        if review.is_resource("networking.k8s.io", "ingresses"):
            _set_class(review, INGRESS_CLASS)
        return None


def _set_class(review: Review, default: DefaultClass) -> None:
    if default.is_needed(review.object):
        name = known(default.chosen(known(review.cluster.list(default.kind))))
        if name is not None:
            review.object["spec"][default.field] = name


def annotations_of(obj: JSON) -> JSON:
    """Return the annotations of an object, an empty map if there are none."""
    return (obj.get("metadata") or {}).get("annotations") or {}


def storage_class_of(claim: JSON) -> str:
    """Return the class of a claim. The old annotation takes precedence (`helper.GetPersistentVolumeClaimClass`)."""
    annotations = annotations_of(claim)
    if STORAGE_CLASS.opt_out in annotations:
        return str(annotations[STORAGE_CLASS.opt_out])
    return str(claim["spec"].get("storageClassName") or "")


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

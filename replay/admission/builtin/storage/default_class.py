"""DefaultStorageClass and DefaultIngressClass set the newest class that is marked as the default.

The rule is in `replay.kube.plugin`.
"""

from __future__ import annotations

from replay.admission.builtin.plugin import CREATE, Plugin, Refusal, Review, known
from replay.json import JSON
from replay.kube.plugin import INGRESS_CLASS, STORAGE_CLASS, DefaultClass


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

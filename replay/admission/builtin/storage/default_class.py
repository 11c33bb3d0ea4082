"""DefaultStorageClass and DefaultIngressClass: the newest class that is marked as the default.

The rule is `replay.kube.plugin.default_class`.
"""

from __future__ import annotations

from replay.admission.builtin.plugin import CREATE, Plugin, Refusal, Review, known
from replay.json import JSON
from replay.kube.plugin.default_class import INGRESS_CLASS, STORAGE_CLASS, DefaultClass


class DefaultStorageClass(Plugin):
    """A claim without a class gets the default one; an empty name is a choice."""

    name = "DefaultStorageClass"
    operations = CREATE
    concerns = (("", ("persistentvolumeclaims",)),)
    looks_up = (("storage.k8s.io", "StorageClass"),)

    def admit(self, review: Review) -> Refusal | None:
        """Set `storageClassName`."""
        if review.is_resource("", "persistentvolumeclaims"):
            _set_class(review, STORAGE_CLASS)
        return None


class DefaultIngressClass(Plugin):
    """An ingress without a class and without the old annotation, even an empty one, gets the default one."""

    name = "DefaultIngressClass"
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
    """The annotations of an object, none as an empty map."""
    return (obj.get("metadata") or {}).get("annotations") or {}


def storage_class_of(claim: JSON) -> str:
    """The class of a claim, the old annotation first (`helper.GetPersistentVolumeClaimClass`)."""
    annotations = annotations_of(claim)
    if STORAGE_CLASS.opt_out in annotations:
        return str(annotations[STORAGE_CLASS.opt_out])
    return str(claim["spec"].get("storageClassName") or "")

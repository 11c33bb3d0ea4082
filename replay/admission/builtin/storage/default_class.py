"""DefaultStorageClass and DefaultIngressClass: the newest class that is marked as the default.

Sources: `plugin/pkg/admission/storage/storageclass/setdefault`, `pkg/volume/util/storageclass.go`,
`plugin/pkg/admission/network/defaultingressclass`.
"""

from __future__ import annotations

from datetime import datetime

from replay.admission.builtin.plugin import CREATE, Plugin, Refusal, Review, known
from replay.json import JSON
from replay.kube.gvk import GroupVersionKind

STORAGE_CLASS = GroupVersionKind("storage.k8s.io", "v1", "StorageClass")
INGRESS_CLASS = GroupVersionKind("networking.k8s.io", "v1", "IngressClass")
BETA_STORAGE_CLASS = "volume.beta.kubernetes.io/storage-class"
_STORAGE_DEFAULTS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_INGRESS_DEFAULTS = ("ingressclass.kubernetes.io/is-default-class",)
_INGRESS_CLASS_ANNOTATION = "kubernetes.io/ingress.class"


class DefaultStorageClass(Plugin):
    """A claim without a class gets the default one; an empty name is a choice."""

    name = "DefaultStorageClass"
    operations = CREATE
    concerns = (("", ("persistentvolumeclaims",)),)
    looks_up = (("storage.k8s.io", "StorageClass"),)
    is_on_by_default = True

    def admit(self, review: Review) -> Refusal | None:
        """Set `storageClassName`."""
        if review.is_resource("", "persistentvolumeclaims") and not has_storage_class(review.object):
            name = _default_class(review, STORAGE_CLASS, _STORAGE_DEFAULTS)
            if name is not None:
                review.object["spec"]["storageClassName"] = name
        return None


class DefaultIngressClass(Plugin):
    """An ingress without a class and without the old annotation, even an empty one, gets the default one."""

    name = "DefaultIngressClass"
    operations = CREATE
    concerns = (("networking.k8s.io", ("ingresses",)),)
    looks_up = (("networking.k8s.io", "IngressClass"),)
    is_on_by_default = True

    def admit(self, review: Review) -> Refusal | None:
        """Set `ingressClassName`."""
        if not review.is_resource("networking.k8s.io", "ingresses"):
            return None
        if review.object["spec"].get("ingressClassName") is None and _INGRESS_CLASS_ANNOTATION not in annotations_of(
            review.object
        ):
            name = _default_class(review, INGRESS_CLASS, _INGRESS_DEFAULTS)
            if name is not None:
                review.object["spec"]["ingressClassName"] = name
        return None


def annotations_of(obj: JSON) -> JSON:
    """The annotations of an object, none as an empty map."""
    return (obj.get("metadata") or {}).get("annotations") or {}


def has_storage_class(claim: JSON) -> bool:
    """Whether a claim names a class, be it the empty one (`helper.PersistentVolumeClaimHasClass`)."""
    return BETA_STORAGE_CLASS in annotations_of(claim) or claim["spec"].get("storageClassName") is not None


def storage_class_of(claim: JSON) -> str:
    """The class of a claim, the old annotation first (`helper.GetPersistentVolumeClaimClass`)."""
    annotations = annotations_of(claim)
    if BETA_STORAGE_CLASS in annotations:
        return str(annotations[BETA_STORAGE_CLASS])
    return str(claim["spec"].get("storageClassName") or "")


def _default_class(review: Review, kind: GroupVersionKind, marks: tuple[str, ...]) -> str | None:
    """The name of the newest class with a mark, of those of one second the first by name."""
    classes = known(review.cluster.list(kind))
    marked = [each for each in classes if any(annotations_of(each).get(mark) == "true" for mark in marks)]
    names = sorted(marked, key=lambda each: (-_created(each), each["metadata"]["name"]))
    return str(names[0]["metadata"]["name"]) if names else None


def _created(obj: JSON) -> float:
    text = obj["metadata"].get("creationTimestamp")
    return datetime.fromisoformat(text).timestamp() if text else float("-inf")

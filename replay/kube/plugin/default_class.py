"""Default classes for objects without one: DefaultStorageClass and DefaultIngressClass.

Sources: `plugin/pkg/admission/storage/storageclass/setdefault`, `pkg/volume/util/storageclass.go`,
`plugin/pkg/admission/network/defaultingressclass`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject, field_of
from replay.kube.gvk import GroupVersionKind


class DefaultClass(NamedTuple):
    """Resource and field of one of the plugins."""

    kind: GroupVersionKind
    resource: str
    field: str
    """The field of `spec` with the class name. An empty name is an explicit choice of no class."""
    opt_out: str
    """The old annotation with the class name. It counts before the field, even if it is empty."""
    marks: tuple[str, ...]
    """The annotations of a class that make it the default if one of them is `true`."""

    def is_needed(self, obj: JSON) -> bool:
        """Return whether an object names no class."""
        annotations = (obj.get("metadata") or {}).get("annotations") or {}
        return self.opt_out not in annotations and (obj.get("spec") or {}).get(self.field) is None

    def chosen(self, classes: Iterable[JSON | PartialObject]) -> str | Missing | None:
        """Return the name of the newest default class, None if there is none.

        Within one second the first by name counts.
        """
        defaults: list[tuple[str, str]] = []
        for each in classes:
            marks = [field_of(each, "metadata", "annotations", mark) for mark in self.marks]
            if any(isinstance(mark, Missing) for mark in marks):
                return Missing("", f"another request changed a {self.kind.kind} at the same time")
            if "true" in marks:
                created = field_of(each, "metadata", "creationTimestamp") or ""
                defaults.append((str(created), str(field_of(each, "metadata", "name"))))
        newest = max((created for created, _ in defaults), default="")
        return min((name for created, name in defaults if created == newest), default=None)


STORAGE_CLASS: Final = DefaultClass(
    GroupVersionKind("storage.k8s.io", "v1", "StorageClass"),
    "storageclasses",
    "storageClassName",
    "volume.beta.kubernetes.io/storage-class",
    ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"),
)
INGRESS_CLASS: Final = DefaultClass(
    GroupVersionKind("networking.k8s.io", "v1", "IngressClass"),
    "ingressclasses",
    "ingressClassName",
    "kubernetes.io/ingress.class",
    ("ingressclass.kubernetes.io/is-default-class",),
)

"""The changes by built-in mutating plugins, as rules over plain JSON.

Two readers share them. Reconstruction adds again what a recorded object got before policies saw it.
`replay.admission.builtin` runs the plugins of a set. Nothing is looked up here. Changes to containers are made in
place, as by the server. The containers belong to the caller, and may be maps that raise on a read of an unknown part.

Sources, below `plugin/pkg/admission`: `defaulttolerationseconds` (the time that pods stay on lost nodes),
`storage/storageobjectinuseprotection`, `nodetaint`, `storage/storageclass/setdefault` (with
`pkg/volume/util/storageclass.go`), `network/defaultingressclass`, `limitranger` (`mergePodResourceRequirements`),
`priority`, `serviceaccount` (the projected volume of the token and its mounts).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject, field_of
from replay.kube.gvk import GroupVersionKind

DEFAULT_SECONDS: Final = 300
NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
DEFAULTS: Final = {NOT_READY: DEFAULT_SECONDS, UNREACHABLE: DEFAULT_SECONDS}
"""The seconds by taint, unless server flags set others."""


def with_tolerations(spec: JSON, seconds: Mapping[str, int]) -> dict[str, JSON]:
    """Return the changed field of a pod's spec, with a toleration for each taint not tolerated yet.

    Empty if none is added.

    A taint is tolerated by key and effect, whatever the operator.
    """
    tolerations = spec.get("tolerations") or ()
    lacking = [
        {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": number}
        for taint, number in seconds.items()
        if not any(_tolerates(each, taint) for each in tolerations)
    ]
    return {"tolerations": [*tolerations, *lacking]} if lacking else {}


def _tolerates(toleration: JSON, taint: str) -> bool:
    return (toleration.get("key") or "") in ("", taint) and (toleration.get("effect") or "") in ("", "NoExecute")


FINALIZERS: Final = {
    ("", "persistentvolumes"): "kubernetes.io/pv-protection",
    ("", "persistentvolumeclaims"): "kubernetes.io/pvc-protection",
    ("storage.k8s.io", "volumeattributesclasses"): "kubernetes.io/vac-protection",
}
"""Finalizer of objects that stay while they are in use, by group and resource."""
_TAINT: Final = {"key": NOT_READY, "effect": "NoSchedule"}


def with_finalizer(metadata: JSON, finalizer: str) -> dict[str, JSON]:
    """Return the changed field of the metadata, empty if nothing changes."""
    finalizers = metadata.get("finalizers") or ()
    return {} if finalizer in finalizers else {"finalizers": [*finalizers, finalizer]}


def with_not_ready_taint(spec: JSON) -> dict[str, JSON]:
    """Return the changed field of a node's spec, empty if nothing changes.

    A taint of that key and effect stays as it is.
    """
    taints = spec.get("taints") or ()
    has_it = any((each.get("key"), each.get("effect")) == tuple(_TAINT.values()) for each in taints)
    return {} if has_it else {"taints": [*taints, dict(_TAINT)]}


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


LIMIT_RANGE: Final = GroupVersionKind("", "v1", "LimitRange")
ANNOTATION: Final = "kubernetes.io/limit-ranger"
"""Annotation of a pod that lists the added values."""
NAMED_CONTAINERS: Final = (("containers", "container"), ("initContainers", "init container"))
"""The fields of a pod's spec with containers, with the annotation's word for one."""

ContainerDefaults = Mapping[str, Mapping[str, str]]
"""The amounts by name, under `requests` and `limits`."""


def container_defaults(limit_range: JSON) -> ContainerDefaults:
    """Return the values for containers that set none. A later item of the list wins."""
    defaults: dict[str, dict[str, str]] = {"requests": {}, "limits": {}}
    for item in (limit_range.get("spec") or {}).get("limits") or ():
        if item.get("type") == "Container":
            defaults["requests"].update(item.get("defaultRequest") or {})
            defaults["limits"].update(item.get("default") or {})
    return defaults


def fill_containers(spec: JSON, defaults: ContainerDefaults) -> list[str]:
    """Add missing values to the containers of a pod's spec.

    Return the annotation's texts, none if nothing was missing.
    """
    return [
        text
        for field, noun in NAMED_CONTAINERS
        for container in spec.get(field) or ()
        for text in _fill(container, defaults, noun)
    ]


def _fill(container: JSON, defaults: ContainerDefaults, noun: str) -> Iterator[str]:
    for kind, word in (("requests", "request"), ("limits", "limit")):
        own = (container.get("resources") or {}).get(kind) or {}
        added = {name: value for name, value in defaults[kind].items() if name not in own}
        if added:
            container.setdefault("resources", {})[kind] = {**own, **added}
            yield f"{', '.join(sorted(added))} {word} for {noun} {container.get('name') or ''}"


def annotation(sentences: Iterable[str]) -> str:
    """Return the text of `ANNOTATION`."""
    return f"LimitRanger plugin set: {'; '.join(sentences)}"


PRIORITY_CLASS: Final = GroupVersionKind("scheduling.k8s.io", "v1", "PriorityClass")
FIELDS: Final = ("priorityClassName", "priority", "preemptionPolicy")
"""The fields of a pod's spec that the plugin sets."""
PREEMPT: Final = "PreemptLowerPriority"
"""The preemption policy of a pod without a class, and of a class that states none."""
SYSTEM_CLASSES: Final[Mapping[str, JSON]] = {
    "system-cluster-critical": {"value": 2_000_000_000, "preemptionPolicy": PREEMPT},
    "system-node-critical": {"value": 2_000_001_000, "preemptionPolicy": PREEMPT},
}
"""The classes that the server creates when it starts. They cannot be changed."""


def global_default(classes: Iterable[JSON]) -> JSON | None:
    """Return the global default class. Of several, it is the one with the lowest value, then the first in the list."""
    marked = [each for each in classes if each.get("globalDefault")]
    return min(marked, key=lambda each: each.get("value") or 0, default=None)


SERVICE_ACCOUNT: Final = GroupVersionKind("", "v1", "ServiceAccount")
DEFAULT_NAME: Final = "default"
MIRROR: Final = "kubernetes.io/config.mirror"
"""The annotation of a mirror pod. The plugin adds nothing to such pods."""
VOLUME_PREFIX: Final = "kube-api-access-"
"""The prefix of the volume's name, before five random characters."""
MOUNT_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
CONTAINERS: Final = ("initContainers", "containers")
_TOKEN_SECONDS: Final = 3607


def with_account(spec: JSON) -> dict[str, JSON]:
    """Return the fields that name the account of a pod without one, empty if it has one."""
    return (
        {} if spec.get("serviceAccountName") else {"serviceAccountName": DEFAULT_NAME, "serviceAccount": DEFAULT_NAME}
    )


def token_volume_name(spec: JSON) -> str | None:
    """Return the name of a pod's token volume, or None."""
    for volume in (spec or {}).get("volumes") or ():
        name = str(volume.get("name") or "")
        if name.startswith(VOLUME_PREFIX):
            return name
    return None


def has_mount(container: JSON) -> bool:
    """Return whether a container has a mount at the token's path."""
    for mount in container.get("volumeMounts") or ():  # noqa: SIM110 - quicker than a generator
        if mount.get("mountPath") == MOUNT_PATH:
            return True
    return False


def with_token(spec: JSON, name: str) -> dict[str, JSON]:
    """Return the changed fields of a pod's spec: the token is mounted in each container without a mount there.

    If the spec has no token volume, one with `name` is added. Volumes are not looked at if no container lacks a mount.
    """
    fields: dict[str, JSON] = {}
    existing: str | None = None
    for field in CONTAINERS:
        containers = spec.get(field) or ()
        for index, container in enumerate(containers):
            if not has_mount(container):
                existing = token_volume_name(spec) if not fields else existing
                mount = {"name": existing or name, "readOnly": True, "mountPath": MOUNT_PATH}
                own = fields.setdefault(field, list(containers))
                own[index] = {**container, "volumeMounts": [*(container.get("volumeMounts") or ()), mount]}
    if fields and existing is None:
        fields["volumes"] = [*(spec.get("volumes") or ()), {"name": name, "projected": token_source()}]
    return fields


def token_source() -> JSON:
    """Return the projected volume (`TokenVolumeSource`)."""
    field = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    return {
        "defaultMode": 0o644,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": _TOKEN_SECONDS, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": field}]}},
        ],
    }

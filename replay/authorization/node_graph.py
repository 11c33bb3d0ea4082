"""The graph of objects that belong to nodes (`k8s.io/kubernetes/plugin/pkg/auth/authorizer/node.Graph`).

Its edges are the references of pods and volumes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject, field_of
from replay.kube.gvk import GroupVersionKind
from replay.kube.lister import Lister
from replay.kube.rbac.binding import missing_in

_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_VOLUMES_WITH_SECRET_REF = ("cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos")
_CLAIM_NAMESPACE_IF_NONE = frozenset(["cephfs", "flexVolume", "rbd", "scaleIO", "iscsi"])
_VISIBLE_CSI_SECRETS = ("nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef")


def _secret_names(spec: JSON) -> Iterator[str]:
    """Yield the names of the secrets of a pod spec."""
    yield from (each.get("name") or "" for each in spec.get("imagePullSecrets") or ())
    yield from _environment_names(spec, "secretRef", "secretKeyRef")
    for volume in spec.get("volumes") or ():
        yield from _volume_secret_names(volume)


def _config_map_names(spec: JSON) -> Iterator[str]:
    """Yield the names of the config maps of a pod spec."""
    yield from _environment_names(spec, "configMapRef", "configMapKeyRef")
    for volume in spec.get("volumes") or ():
        yield from _projected_names(volume, "configMap")
        yield (volume.get("configMap") or {}).get("name") or ""


def _pod_claims(pod: str, spec: JSON) -> Iterator[str]:
    """Yield the names of the persistent volume claims of a pod.

    The claim of an ephemeral volume has the names of the pod and the volume.
    """
    for volume in spec.get("volumes") or ():
        if volume.get("persistentVolumeClaim") is not None:
            yield volume["persistentVolumeClaim"].get("claimName") or ""
        elif volume.get("ephemeral") is not None:
            yield f"{pod}-{volume.get('name') or ''}"


def _resource_claims(pod: JSON) -> Iterator[str]:
    """Yield the names of the resource claims of a pod: named, made from a template, or for extended resources."""
    status = pod.get("status") or {}
    generated = {
        each.get("name"): each.get("resourceClaimName") or "" for each in status.get("resourceClaimStatuses") or ()
    }
    for claim in pod["spec"].get("resourceClaims") or ():
        if claim.get("resourceClaimName") is not None:
            yield claim["resourceClaimName"]
        elif claim.get("resourceClaimTemplateName") is not None:
            yield generated.get(claim.get("name"), "")
    yield (status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName") or ""


def _volume_secrets(spec: JSON, claim_namespace: str) -> Iterator[tuple[str, str]]:
    """Yield `(namespace, name)` of the secrets of a persistent volume that a kubelet may see."""
    azure_file = spec.get("azureFile")
    if azure_file is not None:
        yield azure_file.get("secretNamespace") or claim_namespace, azure_file.get("secretName") or ""
    for source in _VOLUMES_WITH_SECRET_REF:
        ref = (spec.get(source) or {}).get("secretRef")
        if ref is not None:
            default = claim_namespace if source in _CLAIM_NAMESPACE_IF_NONE else ""
            yield ref.get("namespace") or default, ref.get("name") or ""
    for field in _VISIBLE_CSI_SECRETS:
        ref = (spec.get("csi") or {}).get(field)
        if ref is not None:
            yield ref.get("namespace") or "", ref.get("name") or ""


def _environment_names(spec: JSON, source: str, key: str) -> Iterator[str]:
    for kind in _CONTAINERS:
        for container in spec.get(kind) or ():
            yield from ((each.get(source) or {}).get("name") or "" for each in container.get("envFrom") or ())
            for variable in container.get("env") or ():
                yield ((variable.get("valueFrom") or {}).get(key) or {}).get("name") or ""


def _volume_secret_names(volume: JSON) -> Iterator[str]:
    yield (volume.get("azureFile") or {}).get("secretName") or ""
    yield (volume.get("secret") or {}).get("secretName") or ""
    for source in _VOLUMES_WITH_SECRET_REF:
        yield ((volume.get(source) or {}).get("secretRef") or {}).get("name") or ""
    yield ((volume.get("csi") or {}).get("nodePublishSecretRef") or {}).get("name") or ""
    yield from _projected_names(volume, "secret")


def _projected_names(volume: JSON, source: str) -> Iterator[str]:
    for each in (volume.get("projected") or {}).get("sources") or ():
        yield (each.get(source) or {}).get("name") or ""


POD = GroupVersionKind("", "v1", "Pod")
PERSISTENT_VOLUME = GroupVersionKind("", "v1", "PersistentVolume")
VOLUME_ATTACHMENT = GroupVersionKind("storage.k8s.io", "v1", "VolumeAttachment")
RESOURCE_SLICE = GroupVersionKind("resource.k8s.io", "v1", "ResourceSlice")
POD_CERTIFICATE_REQUEST = GroupVersionKind("certificates.k8s.io", "v1", "PodCertificateRequest")
GRAPH_KINDS = (POD, PERSISTENT_VOLUME, VOLUME_ATTACHMENT, RESOURCE_SLICE, POD_CERTIFICATE_REQUEST)
"""Kinds of objects in the graph."""

_MIRROR = "kubernetes.io/config.mirror"
_CLAIMS = "resource claims of pods"


class Vertex(NamedTuple):
    """An object of the graph. `type` is its kind in lower case."""

    type: str
    namespace: str
    name: str


class Graph(Protocol):
    """Protocol of a graph that knows which objects belong to which node."""

    def has_path(self, start: Vertex, node: str) -> bool | Missing:
        """Return whether an object belongs to a node, or Missing if that is unknown."""
        ...


class NodeGraph:
    """A graph of objects. Every edge belongs to one object, so that objects can be replaced one by one."""

    def __init__(self, lister: Lister | None = None) -> None:
        """Start with the objects of a lister, if there is one."""
        self._edges: dict[Vertex, set[Vertex]] = {}
        self._by_object: dict[Vertex, tuple[tuple[Vertex, Vertex], ...]] = {}
        self._missing: dict[str, dict[Vertex | None, Missing]] = {}
        for kind in GRAPH_KINDS if lister is not None else ():
            listed = lister.list(kind, None) if lister is not None else ()
            for obj in [listed] if isinstance(listed, Missing) else listed:
                self.put(kind, None if isinstance(obj, Missing) else _vertex(kind, obj), obj)

    def put(self, kind: GroupVersionKind, own: Vertex | None, obj: JSON | PartialObject | Missing | None) -> None:
        """Add or replace an object. `obj` is None if it is absent, `own` is None if its name is unknown."""
        # Each edge belongs to one object, so those of the previous state can go without a search.
        for start, end in self._by_object.pop(own, ()) if own is not None else ():
            self._edges[start].discard(end)
        for what, missing in ((kind.kind, _missing_object(obj)), (_CLAIMS, _missing_claims(obj))):
            if missing is not None:
                self._missing.setdefault(what, {})[own] = missing
            else:
                self._missing.get(what, {}).pop(own, None)
        value = obj.value if isinstance(obj, PartialObject) else obj
        if own is None or not isinstance(value, dict) or _missing_object(obj) is not None:
            return
        state = {**value, "status": {}} if _missing_claims(obj) is not None else value
        edges = self._by_object[own] = tuple(_edges(kind, own, state))
        for start, end in edges:
            self._edges.setdefault(start, set()).add(end)

    def has_path(self, start: Vertex, node: str) -> bool | Missing:
        """See `Graph`."""
        target, pending, vertices = Vertex("node", "", node), [start], {start}
        while pending:
            vertex = pending.pop()
            if vertex == target:
                return True
            new = self._edges.get(vertex, set()) - vertices
            vertices |= new
            pending += new
        # A path that was found does not depend on what is missing.
        return self._missing_for(start) or False

    def _missing_for(self, start: Vertex) -> Missing | None:
        """Return an unknown part of the kinds between an object and a node, or None."""
        kind = {
            "volumeattachment": VOLUME_ATTACHMENT,
            "resourceslice": RESOURCE_SLICE,
            "podcertificaterequest": POD_CERTIFICATE_REQUEST,
        }.get(start.type, POD)
        places = (kind.kind, _CLAIMS) if start.type == "resourceclaim" else (kind.kind,)
        return next((missing for place in places for missing in self._missing.get(place, {}).values()), None)


def vertex_of(kind: GroupVersionKind, namespace: str, name: str) -> Vertex:
    """Return the vertex of an object."""
    return Vertex(kind.kind.lower(), namespace, name)


def _vertex(kind: GroupVersionKind, obj: JSON | PartialObject) -> Vertex:
    metadata = (obj.value if isinstance(obj, PartialObject) else obj).get("metadata") or {}
    return vertex_of(kind, metadata.get("namespace") or "", metadata.get("name") or "")


def _missing_object(obj: JSON | PartialObject | Missing | None) -> Missing | None:
    """Return the unknown part of an object that matters for edges, or None.

    These parts are its spec, and the annotations, which tell a mirror pod.
    """
    if isinstance(obj, Missing):
        return obj
    if not isinstance(obj, PartialObject):
        return None
    parts = (field_of(obj, "spec"), field_of(obj, "metadata", "annotations"))
    return next((missing for part in parts if (missing := missing_in(part)) is not None), None)


def _missing_claims(obj: JSON | PartialObject | Missing | None) -> Missing | None:
    """Return the unknown part of the resource claims in a status, or None."""
    if not isinstance(obj, PartialObject):
        return None
    parts = [field_of(obj, "status", name) for name in ("resourceClaimStatuses", "extendedResourceClaimStatus")]
    return next((missing for part in parts if (missing := missing_in(part)) is not None), None)


def _edges(kind: GroupVersionKind, own: Vertex, obj: JSON) -> Iterator[tuple[Vertex, Vertex]]:
    metadata, spec = obj.get("metadata") or {}, obj.get("spec") or {}
    if kind is PERSISTENT_VOLUME:
        yield from _volume_edges(own, spec)
    elif spec.get("nodeName"):
        yield own, Vertex("node", "", spec["nodeName"])
        # A kubelet creates mirror pods itself. What they refer to must not become readable for it.
        if kind is POD and _MIRROR not in (metadata.get("annotations") or {}):
            yield from ((start, own) for start in _pod_references(own, obj))


def _pod_references(pod: Vertex, obj: JSON) -> Iterator[Vertex]:
    spec = obj["spec"]
    names = {
        "serviceaccount": [spec.get("serviceAccountName") or ""],
        "secret": _secret_names(spec),
        "configmap": _config_map_names(spec),
        "persistentvolumeclaim": _pod_claims(pod.name, spec),
        "resourceclaim": _resource_claims(obj),
    }
    for type_, names_of_type in names.items():
        yield from (Vertex(type_, pod.namespace, name) for name in names_of_type if name)


def _volume_edges(volume: Vertex, spec: JSON) -> Iterator[tuple[Vertex, Vertex]]:
    claim = spec.get("claimRef")
    if claim is not None:
        namespace = claim.get("namespace") or ""
        yield volume, Vertex("persistentvolumeclaim", namespace, claim.get("name") or "")
        for secret_namespace, name in _volume_secrets(spec, namespace):
            if name:
                yield Vertex("secret", secret_namespace, name), volume

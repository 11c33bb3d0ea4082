"""Which objects belong to which node (`k8s.io/kubernetes/plugin/pkg/auth/authorizer/node.Graph`).

A pod that is bound to a node gives it what the pod refers to: service account, secrets, config maps, claims, and through
claims volumes and their secrets. A mirror pod gives nothing but itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from replay.authorization.pod_reference import (
    config_map_names,
    pod_claims,
    resource_claims,
    secret_names,
    volume_secrets,
)
from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject
from replay.kube.gvk import GroupVersionKind
from replay.kube.lister import Lister

POD = GroupVersionKind("", "v1", "Pod")
PERSISTENT_VOLUME = GroupVersionKind("", "v1", "PersistentVolume")
VOLUME_ATTACHMENT = GroupVersionKind("storage.k8s.io", "v1", "VolumeAttachment")
RESOURCE_SLICE = GroupVersionKind("resource.k8s.io", "v1", "ResourceSlice")
POD_CERTIFICATE_REQUEST = GroupVersionKind("certificates.k8s.io", "v1", "PodCertificateRequest")
GRAPH_KINDS = (POD, PERSISTENT_VOLUME, VOLUME_ATTACHMENT, RESOURCE_SLICE, POD_CERTIFICATE_REQUEST)
"""The kinds that the graph is made of."""

_MIRROR = "kubernetes.io/config.mirror"


class Vertex(NamedTuple):
    """An object of the graph; `type` is its kind in lower case."""

    type: str
    namespace: str
    name: str


class NodeGraph:
    """The graph of the objects of a lister, which must not change."""

    def __init__(self, lister: Lister) -> None:
        """Nothing is read before it is asked for."""
        self._lister = lister
        self._edges: dict[Vertex, set[Vertex]] | None = None
        self._missing: dict[str, Missing] = {}

    def has_path(self, start: Vertex, node: str) -> bool | Missing:
        """Whether an object belongs to a node, or what would tell."""
        edges = self._edges if self._edges is not None else self._read()
        target, pending, seen = Vertex("node", "", node), [start], {start}
        while pending:
            vertex = pending.pop()
            if vertex == target:
                return True
            new = edges.get(vertex, set()) - seen
            seen |= new
            pending += new
        return self._missing_for(start) or False

    def _missing_for(self, start: Vertex) -> Missing | None:
        """What is not known of the kinds that may lead from an object to a node."""
        kind = {
            "volumeattachment": VOLUME_ATTACHMENT,
            "resourceslice": RESOURCE_SLICE,
            "podcertificaterequest": POD_CERTIFICATE_REQUEST,
        }.get(start.type, POD)
        return self._missing.get(kind.kind)

    def _read(self) -> dict[Vertex, set[Vertex]]:
        edges: dict[Vertex, set[Vertex]] = {}
        self._edges = edges
        for kind in GRAPH_KINDS:
            for obj in self._objects(kind):
                for start, end in _edges(kind, obj):
                    edges.setdefault(start, set()).add(end)
        return edges

    def _objects(self, kind: GroupVersionKind) -> Iterator[JSON]:
        listed = self._lister.list(kind, None)
        if isinstance(listed, Missing):
            self._missing[kind.kind] = listed
            return
        for obj in listed:
            if isinstance(obj, Missing):
                self._missing[kind.kind] = obj
            elif isinstance(obj, PartialObject):
                self._missing[kind.kind] = obj.missing[0]
            else:
                yield obj


def _edges(kind: GroupVersionKind, obj: JSON) -> Iterator[tuple[Vertex, Vertex]]:
    metadata, spec = obj.get("metadata") or {}, obj.get("spec") or {}
    own = Vertex(kind.kind.lower(), metadata.get("namespace") or "", metadata.get("name") or "")
    if kind is PERSISTENT_VOLUME:
        yield from _volume_edges(own, spec)
    elif spec.get("nodeName"):
        yield own, Vertex("node", "", spec["nodeName"])
        if kind is POD and _MIRROR not in (metadata.get("annotations") or {}):
            yield from ((start, own) for start in _pod_references(own, obj))


def _pod_references(pod: Vertex, obj: JSON) -> Iterator[Vertex]:
    spec = obj["spec"]
    names = {
        "serviceaccount": [spec.get("serviceAccountName") or ""],
        "secret": secret_names(spec),
        "configmap": config_map_names(spec),
        "persistentvolumeclaim": pod_claims(pod.name, spec),
        "resourceclaim": resource_claims(obj),
    }
    for type_, found in names.items():
        yield from (Vertex(type_, pod.namespace, name) for name in found if name)


def _volume_edges(volume: Vertex, spec: JSON) -> Iterator[tuple[Vertex, Vertex]]:
    claim = spec.get("claimRef")
    if claim is not None:
        namespace = claim.get("namespace") or ""
        yield volume, Vertex("persistentvolumeclaim", namespace, claim.get("name") or "")
        for secret_namespace, name in volume_secrets(spec, namespace):
            if name:
                yield Vertex("secret", secret_namespace, name), volume

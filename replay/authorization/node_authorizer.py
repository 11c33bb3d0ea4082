"""The node authorizer (`k8s.io/kubernetes/plugin/pkg/auth/authorizer/node`): what kubelets may do.

All nodes share some rules (`k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy.NodeRules`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from msgspec import Struct

from replay.authorization.trace import AuthorizerDecision
from replay.cellib.version import NEWEST, KubernetesVersion
from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject, field_of
from replay.kube.authorizer import AuthorizationAttributes
from replay.kube.gvk import GroupVersionKind
from replay.kube.lister import Lister
from replay.kube.pod import config_map_names, secret_names
from replay.kube.rbac import missing_in
from replay.kube.rbac_authorizer import NODE_PREFIX, NODES_GROUP, rule_allows

# The graph of objects that belong to nodes (`k8s.io/kubernetes/plugin/pkg/auth/authorizer/node.Graph`).
# Its edges are the references of pods and volumes.

_VOLUMES_WITH_SECRET_REF = ("cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos")
_CLAIM_NAMESPACE_IF_NONE = frozenset(["cephfs", "flexVolume", "rbd", "scaleIO", "iscsi"])
_VISIBLE_CSI_SECRETS = ("nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef")


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


POD = GroupVersionKind("", "v1", "Pod")
PERSISTENT_VOLUME = GroupVersionKind("", "v1", "PersistentVolume")
VOLUME_ATTACHMENT = GroupVersionKind("storage.k8s.io", "v1", "VolumeAttachment")
RESOURCE_SLICE = GroupVersionKind("resource.k8s.io", "v1", "ResourceSlice")
POD_CERTIFICATE_REQUEST = GroupVersionKind("certificates.k8s.io", "v1", "PodCertificateRequest")
GRAPH_KINDS = (POD, PERSISTENT_VOLUME, VOLUME_ATTACHMENT, RESOURCE_SLICE, POD_CERTIFICATE_REQUEST)
"""Kinds of objects in the graph."""

_MIRROR = "kubernetes.io/config.mirror"
_CLAIMS = "resource claims of pods"
_BETWEEN = {
    "volumeattachment": (VOLUME_ATTACHMENT.kind,),
    "resourceslice": (RESOURCE_SLICE.kind,),
    "podcertificaterequest": (POD_CERTIFICATE_REQUEST.kind,),
    "resourceclaim": (POD.kind, _CLAIMS),
    "persistentvolume": (PERSISTENT_VOLUME.kind, POD.kind),
    "secret": (POD.kind, PERSISTENT_VOLUME.kind),
}
"""The parts of the graph between a type of object and a node. For other types these are pods."""


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
        places = _BETWEEN.get(start.type, (POD.kind,))
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
        "secret": secret_names(spec),
        "configmap": config_map_names(spec),
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


_READ = "get list watch"
_CERTIFICATES, _RESOURCE, _STORAGE = "certificates.k8s.io", "resource.k8s.io", "storage.k8s.io"

_ROWS: tuple[tuple[str, tuple[str, ...], str, int], ...] = (
    ("create", ("authentication.k8s.io",), "tokenreviews", 0),
    ("create", ("authorization.k8s.io",), "subjectaccessreviews localsubjectaccessreviews", 0),
    (_READ, ("",), "services", 0),
    (f"create {_READ}", ("",), "nodes", 0),
    ("update patch", ("",), "nodes/status nodes", 0),
    ("create update patch", ("", "events.k8s.io"), "events", 0),
    (f"{_READ} create delete", ("",), "pods", 0),
    ("update patch", ("",), "pods/status", 0),
    ("create", ("",), "pods/eviction", 0),
    (_READ, ("",), "secrets configmaps", 0),
    ("get", ("",), "persistentvolumeclaims persistentvolumes endpoints", 0),
    (f"create {_READ}", (_CERTIFICATES,), "certificatesigningrequests", 0),
    ("get create update patch delete", ("coordination.k8s.io",), "leases", 0),
    ("get", (_STORAGE,), "volumeattachments", 0),
    ("create", ("",), "serviceaccounts/token", 0),
    ("get update patch", ("",), "persistentvolumeclaims/status", 0),
    (_READ, (_STORAGE,), "csidrivers", 0),
    ("get create update patch delete", (_STORAGE,), "csinodes", 0),
    (_READ, ("node.k8s.io",), "runtimeclasses", 0),
    ("get", (_RESOURCE,), "resourceclaims", 34),
    ("deletecollection", (_RESOURCE,), "resourceslices", 34),
    (_READ, (_CERTIFICATES,), "clustertrustbundles", 37),
    ("get", ("",), "serviceaccounts", 34),
    (f"{_READ} create", (_CERTIFICATES,), "podcertificaterequests", 37),
)
"""Rows of verbs, API groups, resources, and the first minor version that has the rule by default."""


def _node_rules(minor: int) -> tuple[Mapping[str, Sequence[str]], ...]:
    """Return the rules of all nodes as PolicyRules, with the features that are on by default in a minor version."""
    return tuple(
        {"verbs": verbs.split(), "apiGroups": groups, "resources": resources.split()}
        for verbs, groups, resources, since in _ROWS
        if since <= minor
    )


_LEASE_NAMESPACE = "kube-node-lease"
_OWN_OBJECT_VERBS = ("get", "create", "update", "patch", "delete")
_SELECTORS_SINCE = 32
"""Minor version since which nodes read only their own Node and pods by default.

The feature is AuthorizeNodeWithSelectors.
"""
_SERVICE_ACCOUNTS_SINCE = 34
_CERTIFICATE_REQUESTS_SINCE = 37


class NodeVerdict(Struct, frozen=True):
    """`ALLOW`, `NO_OPINION`, or `UNKNOWN` with the missing information."""

    decision: AuthorizerDecision
    reason: str = ""
    missing: str = ""


_ALLOW = NodeVerdict(AuthorizerDecision.ALLOW)
_NO_OPINION = NodeVerdict(AuthorizerDecision.NO_OPINION)


def _no(reason: str) -> NodeVerdict:
    return NodeVerdict(AuthorizerDecision.NO_OPINION, reason)


class NodeAuthorizer:
    """Authorizer of nodes. It uses the graph of pods and their references, and the rules that all nodes share."""

    def __init__(self, graph: Graph, version: KubernetesVersion = NEWEST) -> None:
        """`version` decides which features are on by default."""
        self._graph = graph
        self._minor = version.minor
        self._rules = _node_rules(version.minor)
        self._by_resource = self._subdivided()

    def _subdivided(self) -> Mapping[tuple[str, str], Callable[[str, AuthorizationAttributes], NodeVerdict]]:
        """Return the rules of the resources of which a node may see a part, by API group and resource."""
        subdivisions: dict[tuple[str, str], Callable[[str, AuthorizationAttributes], NodeVerdict]] = {
            ("", "secrets"): lambda node, attributes: self._read(node, "secret", attributes),
            ("", "configmaps"): lambda node, attributes: self._read(node, "configmap", attributes),
            ("", "persistentvolumeclaims"): self._claim,
            ("", "persistentvolumes"): lambda node, attributes: self._get(node, "persistentvolume", attributes),
            ("resource.k8s.io", "resourceclaims"): lambda node, attributes: self._get(
                node, "resourceclaim", attributes
            ),
            ("storage.k8s.io", "volumeattachments"): lambda node, attributes: self._get(
                node, "volumeattachment", attributes
            ),
            ("", "serviceaccounts"): self._service_account,
            ("coordination.k8s.io", "leases"): _lease,
            ("storage.k8s.io", "csinodes"): _csi_node,
            ("resource.k8s.io", "resourceslices"): self._resource_slice,
        }
        if self._minor >= _SELECTORS_SINCE:
            subdivisions |= {("", "nodes"): _node, ("", "pods"): self._pod}
        if self._minor >= _CERTIFICATE_REQUESTS_SINCE:
            subdivisions["certificates.k8s.io", "podcertificaterequests"] = self._certificate_request
        return subdivisions

    def authorize(self, attributes: AuthorizationAttributes) -> NodeVerdict:
        """Return the verdict. For a user that is not a node it is "no opinion" without a reason."""
        user = attributes.user
        if not user.username.startswith(NODE_PREFIX) or NODES_GROUP not in user.groups:
            return _NO_OPINION
        node = user.username.removeprefix(NODE_PREFIX)
        if not node:
            return _no(f'unknown node for user "{user.username}"')
        rule = (
            self._by_resource.get((attributes.api_group, attributes.resource))
            if attributes.is_resource_request
            else None
        )
        if rule is not None:
            return rule(node, attributes)
        return _ALLOW if any(rule_allows(each, attributes) for each in self._rules) else _NO_OPINION

    def _related(self, node: str, type_: str, attributes: AuthorizationAttributes) -> NodeVerdict:
        """Return the verdict on an object that a node may access only if it belongs to the node."""
        if not attributes.name:
            return _no("No Object name found")
        has_path = self._graph.has_path(Vertex(type_, attributes.namespace, attributes.name), node)
        if isinstance(has_path, Missing):
            return NodeVerdict(AuthorizerDecision.UNKNOWN, missing=has_path.reason)
        return _ALLOW if has_path else _no(f"no relationship found between node '{node}' and this object")

    def _read(self, node: str, type_: str, attributes: AuthorizationAttributes) -> NodeVerdict:
        if attributes.verb not in ("get", "list", "watch"):
            return _no("can only read resources of this type")
        if attributes.subresource:
            return _no("cannot read subresource")
        if not attributes.namespace:
            return _no("can only read namespaced object of this type")
        return self._related(node, type_, attributes)

    def _get(self, node: str, type_: str, attributes: AuthorizationAttributes) -> NodeVerdict:
        if attributes.verb != "get":
            return _no("can only get individual resources of this type")
        if attributes.subresource:
            return _no("cannot get subresource")
        return self._related(node, type_, attributes)

    def _claim(self, node: str, attributes: AuthorizationAttributes) -> NodeVerdict:
        if attributes.subresource != "status":
            return self._get(node, "persistentvolumeclaim", attributes)
        if attributes.verb not in ("update", "patch"):
            return _no("can only get/update/patch this type")
        return self._related(node, "persistentvolumeclaim", attributes)

    def _service_account(self, node: str, attributes: AuthorizationAttributes) -> NodeVerdict:
        if attributes.verb == "get" and not attributes.subresource and self._minor >= _SERVICE_ACCOUNTS_SINCE:
            return self._read(node, "serviceaccount", attributes)
        if attributes.verb != "create" or not attributes.name:
            return _no("can only create tokens for individual service accounts")
        if attributes.subresource != "token":
            return _no("can only create token subresource of serviceaccount")
        return self._related(node, "serviceaccount", attributes)

    def _resource_slice(self, node: str, attributes: AuthorizationAttributes) -> NodeVerdict:
        if attributes.subresource:
            return _no("cannot authorize ResourceSlice subresources")
        if attributes.verb == "create":
            return _ALLOW
        if attributes.verb in ("get", "update", "patch", "delete"):
            return self._related(node, "resourceslice", attributes)
        if attributes.verb not in ("watch", "list", "deletecollection"):
            verbs = "get, watch, list, create, update, patch, delete, deletecollection"
            return _no(f"only the following verbs are allowed for a ResourceSlice: {verbs}")
        if _selects(attributes, "spec.nodeName", node):
            return _ALLOW
        return _no("can only list/watch/deletecollection resourceslices with nodeName field selector")

    def _certificate_request(self, node: str, attributes: AuthorizationAttributes) -> NodeVerdict:
        if attributes.subresource:
            return _no("nodes may not access the status subresource of PodCertificateRequests")
        if attributes.verb == "create":
            return _ALLOW
        if attributes.verb == "get":
            return self._related(node, "podcertificaterequest", attributes)
        if attributes.verb not in ("list", "watch"):
            return _no(f"nodes may not {attributes.verb} podcertificaterequests")
        if _selects(attributes, "spec.nodeName", node):
            return _ALLOW
        return _no("can only list/watch podcertificaterequests with nodeName field selector")

    def _pod(self, node: str, attributes: AuthorizationAttributes) -> NodeVerdict:
        if (attributes.subresource, attributes.verb) in _POD_WRITES:
            return _ALLOW
        if attributes.subresource or attributes.verb not in ("get", "list", "watch"):
            return _NO_OPINION
        if attributes.verb != "get" and _selects(attributes, "spec.nodeName", node):
            return _ALLOW
        # A list or watch that selects one name is like a `get`.
        if attributes.verb == "get" or attributes.name:
            return self._related(node, "pod", attributes)
        return _no("can only list/watch pods with spec.nodeName field selector")


_POD_WRITES = frozenset(
    [("", "create"), ("", "delete"), ("status", "update"), ("status", "patch"), ("eviction", "create")]
)
"""Writes of pods that the admission plugin NodeRestriction limits to the node's own pods."""


def _selects(attributes: AuthorizationAttributes, field: str, value: str) -> bool:
    return any(
        (each.key, each.operator, each.values) == (field, "=", (value,)) for each in attributes.field_requirements
    )


def _lease(node: str, attributes: AuthorizationAttributes) -> NodeVerdict:
    if attributes.verb not in _OWN_OBJECT_VERBS:
        return _no("can only get, create, update, patch, or delete a node lease")
    if attributes.namespace != _LEASE_NAMESPACE:
        return _no(f'can only access leases in the "{_LEASE_NAMESPACE}" system namespace')
    if attributes.verb != "create" and attributes.name != node:
        return _no("can only access node lease with the same name as the requesting node")
    return _ALLOW


def _csi_node(node: str, attributes: AuthorizationAttributes) -> NodeVerdict:
    if attributes.subresource == "status":
        return _no("CSINode status access requires CSIVolumeHealth feature")
    if attributes.subresource:
        return _no("cannot authorize CSINode subresources")
    if attributes.verb not in _OWN_OBJECT_VERBS:
        return _no("can only get, create, update, patch, or delete a CSINode")
    if attributes.verb != "create" and attributes.name != node:
        return _no("can only access CSINode with the same name as the requesting node")
    return _ALLOW


def _node(node: str, attributes: AuthorizationAttributes) -> NodeVerdict:
    if (attributes.subresource, attributes.verb) in _NODE_WRITES:
        return _ALLOW
    if attributes.subresource or attributes.verb not in ("get", "list", "watch"):
        return _NO_OPINION
    if attributes.name == node:
        return _ALLOW
    if not attributes.name:
        return _no(f"node '{node}' cannot read all nodes, only its own Node object")
    return _no(f"node '{node}' cannot read '{attributes.name}', only its own Node object")


_NODE_WRITES = frozenset([("", "create"), ("", "update"), ("", "patch"), ("status", "update"), ("status", "patch")])
"""Writes of Nodes that the admission plugin NodeRestriction limits to the node's own Node."""

from __future__ import annotations

from typing import Any

import pytest

from replay.authorization.node_authorizer import NodeAuthorizer, NodeGraph, NodeVerdict, Vertex
from replay.authorization.trace import AuthorizerDecision
from replay.cellib.version import KubernetesVersion
from replay.json import JSON
from replay.kube.attributes import Missing, UserInfo
from replay.kube.authorizer import AuthorizationAttributes
from replay.kube.gvk import GroupVersionKind
from replay.kube.lister import ObjectLister

NODE = UserInfo("system:node:n1", "", ("system:nodes", "system:authenticated"))
ALLOW = NodeVerdict(AuthorizerDecision.ALLOW)


def no(reason: str = "") -> NodeVerdict:
    return NodeVerdict(AuthorizerDecision.NO_OPINION, reason)


UNRELATED = no("no relationship found between node 'n1' and this object")


def pod(name: str, node: str = "n1", *, annotations: JSON = None, status: JSON = None, **spec: JSON) -> JSON:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": "a", "name": name, "annotations": annotations},
        "spec": {"nodeName": node, "serviceAccountName": "sa", **spec},
        "status": status,
    }


OBJECTS = [
    pod(
        "web",
        imagePullSecrets=[{"name": "pull"}],
        initContainers=[{"env": [{"name": "x", "valueFrom": {"secretKeyRef": {"name": "key"}}}]}],
        ephemeralContainers=[{"envFrom": [{"configMapRef": {"name": "env"}}]}],
        volumes=[
            {"name": "v", "projected": {"sources": [{"secret": {"name": "projected"}}, {"configMap": {"name": "cm"}}]}},
            {"name": "data", "persistentVolumeClaim": {"claimName": "claim"}},
            {"name": "tmp", "ephemeral": {}},
        ],
        resourceClaims=[
            {"name": "gpu", "resourceClaimTemplateName": "t"},
            {"name": "own", "resourceClaimName": "named"},
        ],
        status={"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "made"}]},
    ),
    pod("mirror", annotations={"kubernetes.io/config.mirror": "x"}, imagePullSecrets=[{"name": "mirrored"}]),
    pod("other", "n2", imagePullSecrets=[{"name": "far"}]),
    {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "pv"},
        "spec": {
            "claimRef": {"namespace": "a", "name": "claim"},
            "csi": {"nodeStageSecretRef": {"namespace": "s", "name": "stage"}},
        },
    },
    {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachment",
        "metadata": {"name": "va"},
        "spec": {"nodeName": "n1"},
    },
]


def verdict(
    verb: str, resource: str, name: str = "", *, minor: int = 37, user: UserInfo = NODE, **rest: Any
) -> NodeVerdict:
    group, _, plural = resource.rpartition("/")
    place: dict[str, Any] = {"namespace": "a", **rest}
    asked = AuthorizationAttributes(user, verb, api_group=group, resource=plural, name=name, **place)
    return NodeAuthorizer(NodeGraph(ObjectLister(OBJECTS)), KubernetesVersion(1, minor)).authorize(asked)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(verdict("get", "secrets", "pull"), ALLOW, id="image pull secret"),
        pytest.param(verdict("watch", "secrets", "key"), ALLOW, id="secret of an init container"),
        pytest.param(verdict("get", "secrets", "projected"), ALLOW, id="projected secret"),
        pytest.param(verdict("get", "secrets", "stage", namespace="s"), ALLOW, id="secret of a volume behind a claim"),
        pytest.param(verdict("get", "secrets", "mirrored"), UNRELATED, id="a mirror pod gives nothing"),
        pytest.param(verdict("get", "secrets", "far"), UNRELATED, id="a pod of another node"),
        pytest.param(verdict("get", "configmaps", "cm"), ALLOW, id="projected config map"),
        pytest.param(verdict("list", "configmaps", "env"), ALLOW, id="config map of an ephemeral container"),
        pytest.param(verdict("get", "persistentvolumeclaims", "claim"), ALLOW, id="claim"),
        pytest.param(verdict("get", "persistentvolumeclaims", "web-tmp"), ALLOW, id="claim of an ephemeral volume"),
        pytest.param(
            verdict("patch", "persistentvolumeclaims", "claim", subresource="status"), ALLOW, id="status of a claim"
        ),
        pytest.param(verdict("get", "persistentvolumes", "pv", namespace=""), ALLOW, id="volume"),
        pytest.param(verdict("get", "storage.k8s.io/volumeattachments", "va", namespace=""), ALLOW, id="attachment"),
        pytest.param(verdict("get", "resource.k8s.io/resourceclaims", "made"), ALLOW, id="claim from a template"),
        pytest.param(verdict("get", "resource.k8s.io/resourceclaims", "named"), ALLOW, id="named resource claim"),
        pytest.param(verdict("create", "serviceaccounts", "sa", subresource="token"), ALLOW, id="token"),
        pytest.param(verdict("get", "serviceaccounts", "sa"), ALLOW, id="service account"),
        pytest.param(
            verdict("get", "serviceaccounts", "sa", minor=33),
            no("can only create tokens for individual service accounts"),
            id="service account, before it was on by default",
        ),
        pytest.param(verdict("get", "pods", "web"), ALLOW, id="own pod"),
        pytest.param(verdict("get", "pods", "mirror"), ALLOW, id="own mirror pod"),
        pytest.param(verdict("get", "pods", "other"), UNRELATED, id="another node's pod"),
        pytest.param(verdict("list", "pods", field_selector="spec.nodeName=n1"), ALLOW, id="pods by node"),
        pytest.param(
            verdict("list", "pods", field_selector="spec.nodeName!=n1"),
            no("can only list/watch pods with spec.nodeName field selector"),
            id="pods of all other nodes",
        ),
        pytest.param(verdict("list", "pods", minor=31), ALLOW, id="all pods, before selectors were looked at"),
        pytest.param(verdict("get", "nodes", "n1", namespace=""), ALLOW, id="itself"),
        pytest.param(
            verdict("list", "nodes", namespace=""),
            no("node 'n1' cannot read all nodes, only its own Node object"),
            id="nodes",
        ),
        pytest.param(verdict("delete", "nodes", "n1", namespace=""), no(), id="deleting itself"),
        pytest.param(
            verdict("update", "coordination.k8s.io/leases", "n1", namespace="kube-node-lease"), ALLOW, id="own lease"
        ),
        pytest.param(
            verdict("update", "coordination.k8s.io/leases", "n1"),
            no('can only access leases in the "kube-node-lease" system namespace'),
            id="a lease elsewhere",
        ),
        pytest.param(
            verdict("get", "certificates.k8s.io/podcertificaterequests", "x", subresource="status"),
            no("nodes may not access the status subresource of PodCertificateRequests"),
            id="status of a certificate request",
        ),
        pytest.param(verdict("get", "services", "x"), ALLOW, id="a rule of all nodes"),
        pytest.param(verdict("delete", "services", "x"), no(), id="no rule of all nodes"),
        pytest.param(verdict("get", "secrets", "pull", user=UserInfo("system:node:n1")), no(), id="not in the group"),
        pytest.param(
            verdict("get", "secrets", "pull", user=UserInfo("system:node:", "", ("system:nodes",))),
            no('unknown node for user "system:node:"'),
            id="no node",
        ),
    ],
)
def test_verdict(given: NodeVerdict, expected: NodeVerdict) -> None:
    assert given == expected


UNKNOWN = Missing("object.spec", "its last write is not recorded")
PATHS = [
    ("a secret behind an unknown volume", "PersistentVolume", Vertex("secret", "s", "stage"), UNKNOWN),
    ("an unknown volume", "PersistentVolume", Vertex("persistentvolume", "", "pv"), UNKNOWN),
    ("a claim needs no volume", "PersistentVolume", Vertex("persistentvolumeclaim", "a", "none"), False),
    ("a secret of an unknown pod", "Pod", Vertex("secret", "a", "none"), UNKNOWN),
    ("an attachment needs no pod", "Pod", Vertex("volumeattachment", "", "none"), False),
]


@pytest.mark.parametrize(("kind", "start", "expected"), [row[1:] for row in PATHS], ids=[row[0] for row in PATHS])
def test_what_lies_between_an_object_and_a_node(kind: str, start: Vertex, expected: bool | Missing) -> None:
    graph = NodeGraph()
    graph.put(GroupVersionKind("", "v1", kind), Vertex(kind.lower(), "", "pv"), UNKNOWN)
    assert graph.has_path(start, "n1") == expected

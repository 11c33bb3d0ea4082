"""What a node may see follows its pods: from their binding to their end, and while their status is being written."""

from __future__ import annotations

from pathlib import Path
from random import Random

from tests.pipeline.authorization.test_losses import CHAIN, Event, Server, decisions

NODE = {"username": "system:node:n1", "groups": ["system:nodes", "system:authenticated"]}
POD = {"apiVersion": "v1", "resource": "pods", "namespace": "a", "name": "web"}
SECRET = {"apiVersion": "v1", "resource": "secrets", "namespace": "a", "name": "s"}
PODS, SECRETS = "/api/v1/namespaces/a/pods", "/api/v1/namespaces/a/secrets"
NODE_CHAIN = CHAIN.replace("[{", "[{type: Node, name: node}, {")


class Cluster(Server):
    """A server with one pod, and a node that reads its secret."""

    def pod(self, node: str = "", **rest: object) -> Event:
        metadata = {"name": "web", "namespace": "a", "uid": "u", "resourceVersion": str(self.stamp())}
        spec = {"volumes": [{"name": "v", "secret": {"secretName": "s"}}], **({"nodeName": node} if node else {})}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, **rest}

    def read(self, expected: str, seconds: float = 3) -> None:
        self.pass_time(seconds)
        event = self.event("get", f"{SECRETS}/s", SECRET, 200, None, None)
        event["user"] = NODE
        self.truth[event["auditID"]] = expected

    def pass_time(self, seconds: float) -> None:
        self.time += type(self.time - self.time)(seconds=seconds)

    def write(self, verb: str = "create", uri: str = PODS, code: int = 201, answer: Event | None = None) -> None:
        self.pass_time(3)
        self.event(verb, uri, POD, code, None, answer)


def lived() -> Cluster:
    cluster = Cluster(Random(1))
    for kind in ("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"):
        cluster.put(kind, "" if kind.startswith("Cluster") else "z", "constant")
    cluster.objects["Pod", "z", "other"] = {**cluster.pod(), "metadata": {"name": "other", "namespace": "z"}}
    return cluster


def test_a_node_sees_what_its_pods_refer_to(tmp_path: Path) -> None:
    cluster = lived()
    cluster.read("forbid")
    cluster.write(answer=cluster.pod("n1"))
    cluster.read("allow")
    cluster.write("patch", f"{PODS}/web/status", 200, cluster.pod("n1", status={"phase": "Running"}))
    cluster.read("allow", seconds=0.1)
    gone = {"kind": "Status", "apiVersion": "v1", "status": "Success", "details": {"uid": "u"}}
    cluster.write("delete", f"{PODS}/web", 200, gone)
    cluster.read("forbid")
    assert decisions(tmp_path, cluster, [cluster.events], NODE_CHAIN) == cluster.truth


def test_a_node_sees_nothing_of_the_pods_of_others(tmp_path: Path) -> None:
    cluster = lived()
    cluster.write(answer=cluster.pod("n2"))
    cluster.read("forbid")
    assert decisions(tmp_path, cluster, [cluster.events], NODE_CHAIN) == cluster.truth

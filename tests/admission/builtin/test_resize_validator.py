"""PodResizeValidator, whose rows are read in the source: the corpus has none."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from replay.admission.builtin.plugin import PluginCluster
from replay.admission.builtin.pod.resources import PodResizeValidator
from replay.admission.builtin.run import ask
from replay.kube.attributes import Operation
from replay.kube.authorizer import AuthorizationAttributes, AuthorizationDecision
from replay.kube.discovery import builtin_discovery
from replay.kube.lister import ObjectTracker
from tests.support.chain_sets import POD, request


class Nobody:
    def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationDecision:
        del attributes
        return AuthorizationDecision(allowed=False)


def node(system: str = "linux", **allocatable: str) -> Any:
    metadata = {"name": "n1", "labels": {"kubernetes.io/os": system}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"allocatable": allocatable}}


def pod(generation: int, name: str = "n1", **requests: str) -> Any:
    container = {**POD["spec"]["containers"][0], "resources": {"requests": requests}}
    metadata = {**POD["metadata"], "generation": generation}
    return {**POD, "metadata": metadata, "spec": {**POD["spec"], "nodeName": name, "containers": [container]}}


SHORT = "node didn't have enough allocatable resources: "
ROWS: list[tuple[str, Any, Any, int, str]] = [
    ("it fits", node(cpu="2", memory="1Gi"), pod(2, cpu="2", memory="1Gi"), 1, ""),
    (
        "too much of one",
        node(cpu="1500m", memory="1Gi"),
        pod(2, cpu="2"),
        1,
        f"{SHORT}cpu, requested: 2000, allocatable: 1500",
    ),
    (
        "too much of both",
        node(cpu="1", memory="1Ki"),
        pod(2, cpu="2", memory="1Mi"),
        1,
        f"{SHORT}cpu, requested: 2000, allocatable: 1000; memory, requested: 1048576, allocatable: 1024",
    ),
    ("nothing changed", node(cpu="1"), pod(2, cpu="2"), 2, ""),
    ("not bound", node(cpu="1"), pod(2, "", cpu="2"), 1, ""),
    ("no such node", node(cpu="1"), pod(2, "n2", cpu="1"), 1, 'node "n2" not found'),
    (
        "another system",
        node("windows", cpu="4"),
        pod(2, cpu="2"),
        1,
        'pod resize is only supported on linux nodes, node "n1" is "windows"',
    ),
]


@pytest.mark.parametrize(
    ("there", "asked", "before", "message"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_a_resize(there: Any, asked: Any, before: int, message: str) -> None:
    old = {**asked, "metadata": {**asked["metadata"], "generation": before}}
    attributes = replace(request(asked), operation=Operation.UPDATE, subresource="resize", old_object=old)
    found = ask(PodResizeValidator(), attributes, PluginCluster(ObjectTracker([there]), Nobody(), builtin_discovery()))
    refusal = found.validate.refusal if found.validate else None
    assert (refusal.message if refusal else "") == (f'pods "web" is forbidden: {message}' if message else "")

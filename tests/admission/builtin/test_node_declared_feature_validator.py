"""NodeDeclaredFeatureValidator, whose rows are read in the source: the corpus has none."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from replay.admission.builtin.plugin import PluginCluster
from replay.admission.builtin.pod.scheduling import NodeDeclaredFeatureValidator
from replay.admission.builtin.run import ask
from replay.kube.attributes import Operation
from replay.kube.discovery import builtin_discovery
from replay.kube.lister import ObjectTracker
from tests.admission.builtin.test_resize_validator import Nobody
from tests.support.chain_sets import POD, request

POD_LEVEL = "InPlacePodLevelResourcesVerticalScaling"
INIT = "InPlacePodVerticalScalingInitContainers"
MEMORY = "InPlacePodVerticalScalingMemoryBackedVolumes"


def node(*features: str) -> Any:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": {"declaredFeatures": features}}


def cpu(amount: str) -> Any:
    return {"requests": {"cpu": amount}}


def init(amount: str, **more: str) -> Any:
    return {"initContainers": [{"name": "i", "image": "a", "resources": cpu(amount), **more}]}


def memory(limit: str, medium: str = "Memory") -> Any:
    return {"volumes": [{"name": "v", "emptyDir": {"medium": medium, "sizeLimit": limit}}]}


def lacks(*features: str) -> str:
    return f'pod update requires features {", ".join(features)} which are not available on node "n1"'


ROWS: list[tuple[str, Any, Any, Any, str]] = [
    ("nothing that needs a feature", node(), {}, {"activeDeadlineSeconds": 3}, ""),
    ("the pod as a whole", node(), {"resources": cpu("1")}, {"resources": cpu("2")}, lacks(POD_LEVEL)),
    ("the same amount", node(), {"resources": cpu("1")}, {"resources": cpu("1000m")}, ""),
    ("what was not said before", node(), {}, {"resources": cpu("2")}, lacks(POD_LEVEL)),
    ("declared", node(MEMORY, POD_LEVEL), {"resources": cpu("1")}, {"resources": cpu("2")}, ""),
    ("a container of the start", node(POD_LEVEL), init("1"), init("2"), lacks(INIT)),
    ("a sidecar", node(), init("1", restartPolicy="Always"), init("2", restartPolicy="Always"), ""),
    ("a volume in memory", node(), memory("1Mi"), memory("2Mi"), lacks(MEMORY)),
    ("a volume on the disk", node(), memory("1Mi", ""), memory("2Mi", ""), ""),
    (
        "several",
        node(INIT),
        {"resources": cpu("1"), **init("1"), **memory("1Mi")},
        {"resources": cpu("2"), **init("2"), **memory("2Mi")},
        lacks(POD_LEVEL, MEMORY),
    ),
    ("not bound", node(), {"resources": cpu("1")}, {"resources": cpu("2"), "nodeName": ""}, ""),
    ("no such node", node(), {"resources": cpu("1")}, {"resources": cpu("2"), "nodeName": "n2"}, 'node "n2" not found'),
]


def asked(spec: Any, generation: int) -> Any:
    metadata = {**POD["metadata"], "generation": generation}
    return {**POD, "metadata": metadata, "spec": {**POD["spec"], "nodeName": "n1", **spec}}


def refused(there: Any, before: Any, after: Any, subresource: str) -> str:
    attributes = replace(request(after), operation=Operation.UPDATE, subresource=subresource, old_object=before)
    cluster = PluginCluster(ObjectTracker([there]), Nobody(), builtin_discovery())
    found = ask(NodeDeclaredFeatureValidator(), attributes, cluster)
    return found.validate.refusal.message if found.validate and found.validate.refusal else ""


@pytest.mark.parametrize("subresource", ["", "resize"])
@pytest.mark.parametrize(
    ("there", "before", "after", "message"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_an_update(there: Any, before: Any, after: Any, message: str, subresource: str) -> None:
    found = refused(there, asked(before, 1), asked(after, 2), subresource)
    assert found == (f'pods "web" is forbidden: {message}' if message else "")


def test_only_a_spec_that_changed_is_looked_at() -> None:
    before, after = asked({"resources": cpu("1")}, 2), asked({"resources": cpu("2")}, 2)
    assert refused(node(), before, after, "") == ""
    assert refused(node(), before, asked({"resources": cpu("2")}, 3), "status") == ""

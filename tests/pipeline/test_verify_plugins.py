"""`replay verify` of a set with the flags of its server: what built-in plugins refused is reproduced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from replay.pipeline.options import Options
from replay.pipeline.scenario import Scenario
from replay.pipeline.verify import verify
from tests.world.test_consequences import CLUSTER, Request

FLAGS = "--enable-admission-plugins=NodeRestriction\n"
LOOKED_UP: list[Any] = [
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 7},
    {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "default"}},
]
RANGE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "LimitRange",
    "metadata": {"name": "l", "namespace": "default"},
    "spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}, "default": {"cpu": "1"}}]},
}


def pod(*, name: str = "a", priority: str = "high", **container: Any) -> Any:
    spec = {"priorityClassName": priority, "containers": [{"name": "c", "image": "i", **container}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def refused(body: Any, message: str) -> Request:
    return Request("create", resource="pods", code=403, message=f'pods "a" is forbidden: {message}', body=body)


ROWS = {
    "by a plugin that mutates": refused(pod(priority="none"), "no PriorityClass with name none was found"),
    "for what it filled in before": refused(
        pod(resources={"limits": {"cpu": "2"}}), "maximum cpu usage per Container is 1, but limit is 2"
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_refusals_are_reproduced(name: str, tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "kube-apiserver.flags").write_text(FLAGS, "utf-8")
    log, cluster = tmp_path / "audit.jsonl", tmp_path / "cluster.json"
    log.write_bytes(ROWS[name].event(0))
    cluster.write_bytes(orjson.dumps({"apiVersion": "v1", "kind": "List", "items": [*CLUSTER, *LOOKED_UP, RANGE]}))
    scenario = Scenario((str(log),), current=tmp_path / "set", cluster=cluster)
    result = verify(scenario, Options(workers=1), lambda _what, _done, _total: None)
    denials = result.fidelity.denials
    assert (denials.observed, denials.reproduced, result.fidelity.disagreements) == (1, 1, [])

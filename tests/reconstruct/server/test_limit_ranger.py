"""The defaults of LimitRanges, as the plugin adds them to a pod that is created."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pytest

from replay.json import JSON
from replay.kube.attributes import Basis, Missing
from replay.kube.gvk import GroupVersionKind
from replay.kube.plugin import ANNOTATION, LIMIT_RANGE
from replay.reconstruct.record.known import Known
from replay.reconstruct.server.builtin import with_limits

CPU = {"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "100m"}}
MEMORY = {"type": "Container", "default": {"memory": "1Gi"}}
POD_LIMIT = {"type": "Pod", "max": {"cpu": "4"}}


@dataclass
class Ranges:
    """The LimitRanges of the namespace `shop`."""

    found: Sequence[JSON] | Missing

    def get(self, kind: GroupVersionKind, namespace: str, name: str) -> JSON | Missing | None:
        raise NotImplementedError(kind, namespace, name)

    def list(self, kind: GroupVersionKind, namespace: str | None) -> Sequence[JSON] | Missing:
        assert (kind, namespace) == (LIMIT_RANGE, "shop")
        return self.found


def limit_range(*limits: JSON) -> JSON:
    return {"metadata": {"name": "defaults"}, "spec": {"limits": list(limits)}}


def pod(*containers: JSON, init: JSON = None, told: str = "") -> JSON:
    metadata = {"annotations": {ANNOTATION: told}} if told else {}
    return {
        "metadata": metadata,
        "spec": {"containers": list(containers), **({"initContainers": [init]} if init else {})},
    }


def container(name: str, limits: JSON = None, requests: JSON = None) -> JSON:
    resources = {kind: values for kind, values in (("limits", limits), ("requests", requests)) if values}
    return {"name": name, "resources": resources}


class Row(NamedTuple):
    name: str
    ranges: Sequence[JSON]
    sent: JSON
    expected: JSON
    shown: JSON = None


ROWS = [
    Row("no LimitRange", [], pod(container("a")), pod(container("a"))),
    Row("none that has defaults", [limit_range(POD_LIMIT)], pod(container("a")), pod(container("a"))),
    Row(
        "limits and requests",
        [limit_range(CPU)],
        pod(container("a")),
        pod(
            container("a", {"cpu": "1"}, {"cpu": "100m"}),
            told="LimitRanger plugin set: cpu request for container a; cpu limit for container a",
        ),
    ),
    Row(
        "what a container says stays",
        [limit_range(CPU, MEMORY)],
        pod(container("a", {"cpu": "2"}, {"cpu": "2"}), container("b", {"memory": "2Gi"})),
        pod(
            container("a", {"cpu": "2", "memory": "1Gi"}, {"cpu": "2"}),
            container("b", {"memory": "2Gi", "cpu": "1"}, {"cpu": "100m"}),
            told="LimitRanger plugin set: memory limit for container a; cpu request for container b; cpu limit for container b",
        ),
    ),
    Row(
        "init containers after the others",
        [limit_range(MEMORY)],
        pod(container("a"), init=container("i")),
        pod(
            container("a", {"memory": "1Gi"}),
            init=container("i", {"memory": "1Gi"}),
            told="LimitRanger plugin set: memory limit for container a; memory limit for init container i",
        ),
    ),
    Row(
        "nothing to add",
        [limit_range(MEMORY)],
        pod(container("a", {"memory": "1Mi"})),
        pod(container("a", {"memory": "1Mi"})),
    ),
    Row(
        "as the stored pod shows",
        [],
        pod(container("a", {"cpu": "2"})),
        pod(container("a", {"memory": "1Gi", "cpu": "2"}), told="LimitRanger plugin set: memory limit for container a"),
        pod(container("a", {"memory": "1Gi", "cpu": "2"}), told="LimitRanger plugin set: memory limit for container a"),
    ),
    Row(
        "others changed the stored pod",
        [],
        pod(container("a")),
        pod(container("a")),
        pod(container("a", {"memory": "1Gi"})),
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_defaults(row: Row) -> None:
    found = with_limits(Known(row.sent, Basis.RECORDED), "shop", row.shown, Ranges(row.ranges))
    assert found.value == row.expected
    assert not found.holes


UNKNOWN: list[tuple[str, Sequence[JSON] | Missing]] = [
    ("several, in no order", [limit_range(CPU), limit_range(MEMORY)]),
    ("changing", Missing("LimitRange", "another request changed the object at the same time")),
]


@pytest.mark.parametrize("ranges", [row[1] for row in UNKNOWN], ids=[row[0] for row in UNKNOWN])
def test_what_is_added_is_not_known(ranges: Sequence[JSON] | Missing) -> None:
    found = with_limits(Known(pod(container("a")), Basis.RECORDED), "shop", None, Ranges(ranges))
    assert found.value == pod(container("a"))
    assert [hole.path for hole in found.holes] == [
        ("metadata", "annotations", ANNOTATION),
        ("spec", "containers", 0, "resources", "limits"),
        ("spec", "containers", 0, "resources", "requests"),
    ]

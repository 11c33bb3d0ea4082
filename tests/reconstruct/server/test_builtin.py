"""What the built-in mutating plugins add, by objects of the cluster that are known in parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from replay.audit.event import RequestRecord
from replay.json import JSON
from replay.kube.attributes import Basis, Missing, PartialObject
from replay.kube.discovery import builtin_discovery
from replay.kube.gvk import GroupVersionKind
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.record.known import Known
from replay.reconstruct.server.builtin import after_builtin_mutators, with_runtime_class, with_topology_labels

CHANGING = Missing("", "another request changed the object at the same time")
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": [{"name": "a"}]}}


class Objects:
    """A lister of one object for each kind; of the kinds that are not named there is none."""

    def __init__(self, **objects: JSON | PartialObject) -> None:
        self._objects = objects

    def get(self, kind: GroupVersionKind, namespace: str, name: str) -> JSON | Missing | None:
        del namespace, name
        return self._objects.get(kind.kind)

    def list(self, kind: GroupVersionKind, namespace: str | None) -> Sequence[JSON] | Missing:
        del namespace
        return [self._objects[kind.kind]] if kind.kind in self._objects else []


def partly(**parts: JSON) -> PartialObject:
    return PartialObject({"metadata": {"name": "one", "labels": CHANGING}, **parts}, (CHANGING,))


SECRETS = [{"name": "pull"}]
CASES = [
    ("labels of a ServiceAccount", Objects(ServiceAccount=partly(imagePullSecrets=SECRETS)), {}),
    (
        "all of a ServiceAccount",
        Objects(ServiceAccount=partly(imagePullSecrets=CHANGING, automountServiceAccountToken=CHANGING)),
        {("spec", "imagePullSecrets"), ("spec", "volumes"), ("spec", "containers", 0, "volumeMounts")},
    ),
    (
        "labels of a PriorityClass",
        Objects(PriorityClass=partly(value=1, globalDefault=True), ServiceAccount=partly(imagePullSecrets=SECRETS)),
        {},
    ),
    (
        "whether a PriorityClass is the default",
        Objects(PriorityClass=partly(globalDefault=CHANGING), ServiceAccount=partly(imagePullSecrets=SECRETS)),
        {("spec", name) for name in ("priority", "priorityClassName", "preemptionPolicy")},
    ),
]
RANDOM = {("spec", "volumes", 0, "name"), ("spec", "containers", 0, "volumeMounts", 0, "name")}


@pytest.mark.parametrize(("lister", "holes"), [row[1:] for row in CASES], ids=[row[0] for row in CASES])
def test_what_was_changing_is_a_hole(
    lister: Objects, holes: set[object], pod_record: Callable[..., RequestRecord]
) -> None:
    exchange = Exchange(pod_record("create", code=403, request=POD), builtin_discovery())
    found = after_builtin_mutators(Known(POD, Basis.RECORDED), exchange, lister, creating=True)
    assert {hole.path for hole in found.holes} - RANDOM == set(holes)


RUNTIME = {
    "scheduling": {"nodeSelector": {"a": "b"}, "tolerations": [{"key": "k"}]},
    "overhead": {"podFixed": {"cpu": "1"}},
}
ZONE = "topology.kubernetes.io/zone"
PLACED: list[tuple[str, Objects, JSON, JSON, JSON]] = [
    ("no class is named", Objects(RuntimeClass=RUNTIME), {}, None, {}),
    (
        "a class of the cluster",
        Objects(RuntimeClass=RUNTIME),
        {"runtimeClassName": "r", "nodeSelector": {"c": "d"}},
        None,
        {"nodeSelector": {"a": "b", "c": "d"}, "tolerations": [{"key": "k"}], "overhead": {"cpu": "1"}},
    ),
    (
        "what was stored tells",
        Objects(),
        {"runtimeClassName": "r"},
        {"nodeSelector": {"a": "b"}, "overhead": {"cpu": "2"}},
        {"nodeSelector": {"a": "b"}, "overhead": {"cpu": "2"}},
    ),
    (
        "a class that is not known",
        Objects(),
        {"runtimeClassName": "r"},
        None,
        "the RuntimeClass `r` is not known, and it may set this field",
    ),
]


@pytest.mark.parametrize(
    ("lister", "spec", "shown", "added"), [row[1:] for row in PLACED], ids=[row[0] for row in PLACED]
)
def test_the_class_of_a_runtime(lister: Objects, spec: JSON, shown: JSON, added: JSON) -> None:
    found = with_runtime_class(Known({"spec": spec}, Basis.RECORDED), shown and {"spec": shown}, lister)
    if isinstance(added, str):
        assert {hole.reason for hole in found.holes} == {added}
    else:
        assert found.value["spec"] == {**spec, **added}


@pytest.mark.parametrize(
    ("lister", "shown", "labels"),
    [
        (Objects(Node={"metadata": {"labels": {ZONE: "z", "x": "y"}}}), None, {ZONE: "z"}),
        (Objects(), {"metadata": {"labels": {ZONE: "z", "app": "web"}}}, {ZONE: "z"}),
        (Objects(), None, None),
    ],
)
def test_the_labels_of_the_node_that_is_named(lister: Objects, shown: JSON, labels: JSON) -> None:
    pod = Known({"metadata": {}, "spec": {"nodeName": "n"}}, Basis.RECORDED)
    assert with_topology_labels(pod, shown, lister).value["metadata"].get("labels") == labels


def test_the_labels_of_a_node_that_is_known_in_parts_are_holes() -> None:
    pod = Known({"metadata": {}, "spec": {"nodeName": "n"}}, Basis.RECORDED)
    found = with_topology_labels(pod, None, Objects(Node=partly()))
    assert {hole.path[-1] for hole in found.holes} == {ZONE, "topology.kubernetes.io/region"}

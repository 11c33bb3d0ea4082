"""The generation that a strategy gives to an object, kind by kind."""

from __future__ import annotations

from typing import Any

import pytest

from replay.kube.attributes import Basis
from replay.kube.discovery import builtin_discovery
from replay.kube.gvk import GroupVersionResource
from replay.reconstruct.record.known import Hole, Known, get
from replay.reconstruct.server.generation import changed, created

WIDGETS = GroupVersionResource("shop.example.com", "v1", "widgets")
CRD = {
    "spec": {
        "group": "shop.example.com",
        "names": {"plural": "widgets", "kind": "Widget"},
        "scope": "Namespaced",
        "versions": [{"name": "v1", "served": True}],
    }
}
DISCOVERY = builtin_discovery().with_crds([CRD])
REPLICA_SETS = GroupVersionResource("apps", "v1", "replicasets")
DEPLOYMENTS = GroupVersionResource("apps", "v1", "deployments")
CONFIG_MAPS = GroupVersionResource("", "v1", "configmaps")
GENERATION = ("metadata", "generation")
OPEN = "open"


def generation(known: Known) -> Any:
    return OPEN if any(hole.path == GENERATION for hole in known.holes) else get(known.value, GENERATION)


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        pytest.param(REPLICA_SETS, 1, id="a kind that counts begins with 1"),
        pytest.param(WIDGETS, 1, id="and so does a custom one"),
        pytest.param(CONFIG_MAPS, None, id="a kind that does not count has none"),
        pytest.param(GroupVersionResource("metrics.k8s.io", "v1", "pods"), OPEN, id="an aggregated kind is not known"),
    ],
)
def test_the_generation_of_a_new_object(resource: GroupVersionResource, expected: Any) -> None:
    found = created(Known({"metadata": {}}, Basis.RECORDED), resource.group_resource, DISCOVERY.resource(resource))
    assert generation(found) == expected


@pytest.mark.parametrize(
    ("resource", "old", "new", "expected"),
    [
        pytest.param(REPLICA_SETS, {"spec": {"replicas": 1}}, {"spec": {"replicas": 2}}, 8, id="a changed spec counts"),
        pytest.param(
            REPLICA_SETS, {"spec": {"a": 1}}, {"spec": {"a": 1}, "status": {"b": 1}}, 7, id="no change does not"
        ),
        pytest.param(REPLICA_SETS, {"spec": {}}, {"spec": {"paused": False}}, OPEN, id="false may be absent"),
        pytest.param(
            DEPLOYMENTS, {"spec": {}}, {"spec": {}, "metadata": {"annotations": {"a": "b"}}}, 8, id="annotations"
        ),
        pytest.param(CONFIG_MAPS, {"data": {"a": "1"}}, {"data": {"a": "2"}}, 7, id="a kind that does not count"),
        pytest.param(WIDGETS, {"any": 1}, {"any": 2}, 8, id="all of a custom resource counts"),
        pytest.param(WIDGETS, {"metadata": {"labels": {"a": "1"}}}, {}, 7, id="but for its metadata"),
    ],
)
def test_the_generation_of_a_changed_object(
    resource: GroupVersionResource, old: dict[str, Any], new: dict[str, Any], expected: Any
) -> None:
    before = {**old, "metadata": {**old.get("metadata", {}), "generation": 7}}
    after = {"metadata": {}, **new}
    found = changed(
        Known(after, Basis.RECONSTRUCTED),
        Known(before, Basis.RECORDED),
        resource.group_resource,
        DISCOVERY.resource(resource),
    )
    assert generation(found) == expected


def test_what_is_not_known_may_count() -> None:
    old = Known({"spec": {"replicas": 1}, "metadata": {"generation": 7}}, Basis.RECORDED)
    new = Known({"spec": {"replicas": 1}, "metadata": {}}, Basis.RECONSTRUCTED, (Hole(("spec", "template"), "why"),))
    found = changed(new, old, REPLICA_SETS.group_resource, DISCOVERY.resource(REPLICA_SETS))
    assert generation(found) == OPEN

"""Strategic merge patches; every row was asked of `strategicpatch.StrategicMergeMapPatch` with the Go type Pod or Service."""

from __future__ import annotations

from typing import Any

import pytest

from replay.kube.gvk import GroupVersionKind
from replay.kube.schema import Schemas
from replay.reconstruct.patch.strategic_merge import StrategicMergeError, has_directive, strategic_merge

POD = GroupVersionKind("", "v1", "Pod")
SERVICE = GroupVersionKind("", "v1", "Service")


def merged(kind: GroupVersionKind, before: dict[str, Any], patch: dict[str, Any]) -> Any:
    schema = Schemas().for_kind(kind)
    assert schema is not None
    return strategic_merge(schema, before, patch)


def containers(*names: str) -> list[dict[str, str]]:
    return [{"name": name} for name in names]


@pytest.mark.parametrize(
    ("before", "patch", "after"),
    [
        pytest.param({"nodeName": "n"}, {"nodeName": None}, {}, id="null removes"),
        pytest.param({}, {"affinity": {"podAffinity": None}}, {"affinity": {}}, id="null in a new map is left out"),
        pytest.param(
            {"containers": [{"name": "a", "image": "1"}, {"name": "b"}]},
            {"containers": [{"name": "a", "image": "2"}]},
            {"containers": [{"name": "a", "image": "2"}, {"name": "b"}]},
            id="items are merged by key",
        ),
        pytest.param(
            {"containers": containers("a")},
            {"containers": containers("b")},
            {"containers": containers("b", "a")},
            id="what is new comes first",
        ),
        pytest.param(
            {"containers": containers("a", "b")},
            {"$setElementOrder/containers": containers("b", "c", "a"), "containers": containers("c")},
            {"containers": containers("b", "c", "a")},
            id="unless an order is stated",
        ),
        pytest.param(
            {"containers": containers("a", "b", "c")},
            {"containers": [{"$patch": "delete", "name": "b"}]},
            {"containers": containers("a", "c")},
            id="an item is deleted",
        ),
        pytest.param(
            {"containers": containers("a", "b")},
            {"containers": [*containers("c"), {"$patch": "replace"}]},
            {"containers": containers("c")},
            id="a list is replaced",
        ),
        pytest.param(
            {"nodeSelector": {"a": "1", "b": "2"}},
            {"nodeSelector": {"$patch": "replace", "c": "3"}},
            {"nodeSelector": {"c": "3"}},
            id="a map is replaced",
        ),
        pytest.param(
            {"nodeSelector": {"a": "1"}}, {"nodeSelector": {"$patch": "delete"}}, {"nodeSelector": {}}, id="or emptied"
        ),
        pytest.param(
            {"volumes": [{"name": "v", "emptyDir": {}}]},
            {"volumes": [{"name": "v", "$retainKeys": ["name", "secret"], "secret": {"secretName": "s"}}]},
            {"volumes": [{"name": "v", "secret": {"secretName": "s"}}]},
            id="only some keys are retained",
        ),
        pytest.param(
            {"tolerations": [{"key": "a"}]},
            {"tolerations": [{"key": "b"}]},
            {"tolerations": [{"key": "b"}]},
            id="a list without a strategy is replaced",
        ),
    ],
)
def test_the_specification_of_a_pod(before: dict[str, Any], patch: dict[str, Any], after: dict[str, Any]) -> None:
    assert merged(POD, {"spec": before}, {"spec": patch}) == {"spec": after}


@pytest.mark.parametrize(
    ("patch", "after"),
    [
        ({"finalizers": ["c", "a"]}, ["c", "a", "b"]),
        ({"$deleteFromPrimitiveList/finalizers": ["a"]}, ["b"]),
        ({"$setElementOrder/finalizers": ["b", "a"], "finalizers": []}, ["b", "a"]),
    ],
    ids=["added", "deleted", "ordered"],
)
def test_a_list_of_scalars_is_a_set(patch: dict[str, Any], after: list[str]) -> None:
    assert merged(POD, {"metadata": {"finalizers": ["a", "b"]}}, {"metadata": patch})["metadata"] == {
        "finalizers": after
    }


def test_added_items_stand_where_the_server_had_deleted_ones() -> None:
    before = {"ports": [{"port": 3}, {"port": 12}]}
    patch = {
        "$setElementOrder/ports": [{"port": 2}, {"port": 14}],
        "ports": [{"port": 2}, {"port": 14}, {"$patch": "delete", "port": 12}],
    }
    after = merged(SERVICE, {"spec": before}, {"spec": patch})
    assert after == {"spec": {"ports": [{"port": 3}, {"port": 2}, {"port": 14}]}}


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param({"containers": [{"image": "1"}]}, id="no merge key"),
        pytest.param({"unknown": {"a": 1}}, id="no such field"),
        pytest.param({"nodeSelector": {"$patch": "merge"}}, id="no such directive"),
        pytest.param(
            {"$setElementOrder/containers": containers("b", "a"), "containers": containers("a", "b")},
            id="another order",
        ),
        pytest.param({"nodeSelector": {"$retainKeys": ["a"], "b": "1"}}, id="a key that is not retained"),
    ],
)
def test_what_the_server_refuses(patch: dict[str, Any]) -> None:
    before = {"spec": {"containers": containers("a", "b"), "nodeSelector": {"a": "1"}, "unknown": {"a": 1}}}
    with pytest.raises(StrategicMergeError):
        merged(POD, before, {"spec": patch})


def test_nothing_is_changed_in_place() -> None:
    before = {"spec": {"containers": [{"name": "a", "image": "1"}]}, "metadata": {"labels": {"a": "b"}}}
    patch = {"spec": {"containers": [{"name": "a", "image": "2"}]}}
    after = merged(POD, before, patch)
    assert before["spec"] == {"containers": [{"name": "a", "image": "1"}]}
    assert patch == {"spec": {"containers": [{"name": "a", "image": "2"}]}}
    assert after["metadata"] is before["metadata"]


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        ({"spec": {"$setElementOrder/containers": []}}, True),
        ({"spec": {"containers": [{"$patch": "delete", "name": "a"}]}}, True),
        ({"spec": {"volumes": [{"$retainKeys": ["name"]}]}}, True),
        ({"metadata": {"labels": {"$home": "x"}}, "spec": {"containers": [{"name": "a"}]}}, False),
    ],
)
def test_directives_tell_the_form(patch: dict[str, Any], expected: bool) -> None:
    assert has_directive(patch) is expected

"""Objects laid over the cluster, as `kubectl apply` does."""

from __future__ import annotations

from typing import Any

import pytest

from replay.kube.attributes import Missing
from replay.kube.gvk import GroupVersionKind
from replay.kube.lister import ObjectTracker
from replay.kube.overlay import Overlay

NAMESPACE = GroupVersionKind("", "v1", "Namespace")
LIMIT_RANGE = GroupVersionKind("", "v1", "LimitRange")


def namespace(**labels: str) -> Any:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n", "labels": labels}}


def limits(name: str, **item: Any) -> Any:
    metadata = {"name": name, "namespace": "n"}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": {"limits": [item]}}


OWN = {"kubernetes.io/metadata.name": "n"}
LABELS: list[tuple[str, Any, Any, Any, Any]] = [
    ("nothing is said", namespace(a="1"), None, None, {"a": "1"}),
    (
        "labels are added and replaced",
        namespace(a="1", b="1"),
        None,
        namespace(b="2", c="2"),
        {"a": "1", "b": "2", "c": "2", **OWN},
    ),
    (
        "a label of the earlier manifest is gone",
        namespace(a="1", b="1"),
        namespace(b="1"),
        namespace(c="2"),
        {"a": "1", "c": "2", **OWN},
    ),
    ("one that somebody else set stays", namespace(a="1"), namespace(), namespace(), {"a": "1", **OWN}),
    ("an object that was not there", None, None, namespace(c="2"), {"c": "2", **OWN}),
    ("a namespace that is no longer named loses the label", namespace(a="1"), namespace(a="1"), None, {}),
    ("and keeps the label that somebody else set", namespace(a="1", b="2"), namespace(a="1"), None, {"b": "2"}),
]


@pytest.mark.parametrize(
    ("live", "earlier", "own", "labels"), [row[1:] for row in LABELS], ids=[row[0] for row in LABELS]
)
def test_labels(live: Any, earlier: Any, own: Any, labels: Any) -> None:
    objects, before = ([each] if each else [] for each in (own, earlier))
    lister = Overlay(tuple(objects), tuple(before)).lister(ObjectTracker([live] if live else []))
    found: Any = lister.get(NAMESPACE, "", "n")
    assert (found if found is None else found["metadata"]["labels"]) == labels
    assert lister.list(NAMESPACE, None) == ([] if found is None else [found])


def test_lists_are_replaced_and_limits_defaulted() -> None:
    live = limits("a", type="Pod", max={"cpu": "1"})
    overlay = Overlay((limits("a", type="Container", max={"cpu": "2"}, defaultRequest={"memory": "1Gi"}),))
    listed: Any = overlay.lister(ObjectTracker([live])).list(LIMIT_RANGE, "n")
    (found,) = listed
    (item,) = found["spec"]["limits"]
    assert item == {
        "type": "Container",
        "max": {"cpu": "2"},
        "default": {"cpu": "2"},
        "defaultRequest": {"cpu": "2", "memory": "1Gi"},
    }
    assert live["spec"]["limits"] == [{"type": "Pod", "max": {"cpu": "1"}}]


def test_what_a_namespace_has_beside_the_labels_given_is_not_made_up() -> None:
    unknown = Missing("Namespace", "is in neither snapshot nor log")
    assert Overlay((namespace(a="1"),)).over(("", "Namespace"), ("", "n"), unknown) is unknown

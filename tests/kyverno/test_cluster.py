"""What the API server answers to the paths that contexts name, from the objects that are known."""

from __future__ import annotations

import pytest

from replay.go.time import GoTime
from replay.json import JSON
from replay.kube.attributes import Missing
from replay.kube.discovery import builtin_discovery
from replay.kube.lister import ObjectLister
from replay.kyverno.cluster import ListedCluster
from replay.kyverno.rules.image import ImageDefaults
from replay.kyverno.rules.jmespath.library import kyverno_library


def _pod(name: str, namespace: str, **labels: str) -> JSON:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace, "labels": labels}}


_OBJECTS = [
    _pod("a", "shop", app="web", tier="1"),
    _pod("b", "shop", app="db"),
    _pod("c", "shop"),
    _pod("d", "dev", app="web"),
]
_PODS = "/api/v1/namespaces/shop/pods"
_ROWS: list[tuple[str, str, list[str] | str]] = [
    ("a whole namespace", _PODS, ["a", "b", "c"]),
    ("all namespaces", "/api/v1/pods", ["d", "a", "b", "c"]),
    ("a label", f"{_PODS}?labelSelector=app=web", ["a"]),
    ("a label in all namespaces", "/api/v1/pods?labelSelector=app%3Dweb", ["d", "a"]),
    ("a set of values", f"{_PODS}?labelSelector=app in (web,db)", ["a", "b"]),
    ("other values", f"{_PODS}?labelSelector=app!=web", ["b", "c"]),
    ("a key", f"{_PODS}?labelSelector=tier", ["a"]),
    ("no key", f"{_PODS}?labelSelector=!app", ["c"]),
    ("labels and a name", f"{_PODS}?labelSelector=app&fieldSelector=metadata.name=b", ["b"]),
    ("an empty selector", f"{_PODS}?labelSelector=", ["a", "b", "c"]),
    ("another namespace", "/api/v1/pods?fieldSelector=metadata.namespace!=shop", ["d"]),
    (
        "a field of the kind",
        f"{_PODS}?fieldSelector=spec.nodeName=n",
        "replay does not answer lists with the field selector `spec.nodeName=n`",
    ),
    ("a page", f"{_PODS}?limit=2", "replay does not answer lists with the parameter `limit`"),
    ("no selector", f"{_PODS}?labelSelector=a b", "the API server does not accept `labelSelector=a b`"),
    ("an object with a query", f"{_PODS}/a?pretty=true", "replay does not answer calls with query parameters"),
]


@pytest.mark.parametrize(("path", "expected"), [row[1:] for row in _ROWS], ids=[row[0] for row in _ROWS])
def test_lists(path: str, expected: list[str] | str) -> None:
    library = kyverno_library(lambda: GoTime(0), ImageDefaults())
    answer = ListedCluster(ObjectLister(_OBJECTS), builtin_discovery(), (), library).get_path(path)
    if isinstance(answer, Missing):
        assert answer.reason == expected
    else:
        assert isinstance(answer, dict)
        assert [each["metadata"]["name"] for each in answer["items"]] == expected

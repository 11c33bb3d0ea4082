from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest

from replay.kube.discovery import builtin_discovery
from replay.kube.gvk import GroupVersionKind, GroupVersionResource
from tests.tools.distill_discovery import distill

SHARED = Path(__file__).parents[2].parent / "shared"
PODS = GroupVersionResource("", "v1", "pods")
CRD = {
    "spec": {
        "group": "example.com",
        "names": {"plural": "widgets", "kind": "Widget"},
        "scope": "Namespaced",
        "versions": [
            {"name": "v1", "served": True, "subresources": {"status": {}, "scale": {}}},
            {"name": "v0", "served": False},
        ],
    }
}


@pytest.mark.parametrize(
    ("resource", "subresource", "kind"),
    [
        (PODS, "", GroupVersionKind("", "v1", "Pod")),
        (PODS, "status", GroupVersionKind("", "v1", "Pod")),
        (PODS, "exec", GroupVersionKind("", "v1", "PodExecOptions")),
        (PODS, "eviction", GroupVersionKind("policy", "v1", "Eviction")),
        (GroupVersionResource("apps", "v1", "deployments"), "scale", GroupVersionKind("autoscaling", "v1", "Scale")),
        (PODS, "nonsense", None),
        (GroupVersionResource("", "v1", "nonsense"), "", None),
    ],
)
def test_kind(resource: GroupVersionResource, subresource: str, kind: GroupVersionKind | None) -> None:
    assert builtin_discovery().kind(resource, subresource) == kind


def test_crds_add_their_served_versions() -> None:
    discovery = builtin_discovery().with_crds([CRD, {"spec": {}}])
    widgets = discovery.resource(GroupVersionResource("example.com", "v1", "widgets"))
    assert widgets is not None
    assert (widgets.namespaced, widgets.custom, sorted(widgets.subresources)) == (True, True, ["scale", "status"])
    assert discovery.versions("example.com", "widgets") == ("v1",)
    assert discovery.of_kind(GroupVersionKind("example.com", "v1", "Widget")) == widgets


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.exists(), reason="the corpora are not beside the checkout")
def test_the_package_data_is_what_the_script_makes() -> None:
    data = resources.files("replay.kube").joinpath("data/discovery.json").read_text("utf-8")
    assert data == distill(SHARED / "kubernetes-1.37")

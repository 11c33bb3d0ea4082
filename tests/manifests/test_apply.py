"""What applying bundles makes of what is there, and what pruning takes away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from replay.cellib.version import NEWEST
from replay.errors import ReplayError
from replay.json import JSON
from replay.manifests.apply import parse_prune, pruned, with_bundles
from replay.manifests.set_loader import SetObjects, applied_objects
from tests.manifests.test_bundle import BINDING, CLUSTER_POLICY, LIMITS, POLICY, ROLE, WEBHOOK, together, told

GROUP = "admissionregistration.k8s.io/v1"
LABELS = {"app": "x"}


def there(kind: str, name: str, api_version: str = GROUP, *, namespace: str = "", **fields: Any) -> JSON:
    """An object of the cluster, with the labels of the bundle."""
    metadata: dict[str, Any] = {"name": name, "labels": LABELS}
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": metadata | ({"namespace": namespace} if namespace else {}),
        **fields,
    }


def applied(tmp_path: Path, text: str) -> SetObjects:
    path = tmp_path / "bundle.yaml"
    path.write_text(text, "utf-8")
    return applied_objects(path, NEWEST)


def webhook(**client: str) -> JSON:
    """The webhook configuration of the bundle as the cluster has it."""
    service = {"name": "s", "namespace": "ns"}
    own = {
        "name": "a.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {"service": service, **client},
    }
    return {
        "apiVersion": GROUP,
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "hook"},
        "webhooks": [own],
    }


AUTHORITIES = {
    "that of the cluster stays": (WEBHOOK, "Q0E=", "Q0E="),
    "that of the bundle counts": (WEBHOOK.replace("{service", "{caBundle: TkVX, service"), "Q0E=", "TkVX"),
    "none in either": (WEBHOOK, "", None),
    "another webhook": (WEBHOOK.replace("a.example", "b.example"), "Q0E=", None),
}


@pytest.mark.parametrize("name", AUTHORITIES)
def test_a_webhook_keeps_its_authorities(name: str, tmp_path: Path) -> None:
    bundle, before, expected = AUTHORITIES[name]
    live = webhook(caBundle=before) if before else webhook()
    objects = with_bundles(SetObjects(), [applied(tmp_path, bundle)], NEWEST, [live])
    assert [each["webhooks"][0]["clientConfig"].get("caBundle") for each in objects.api or ()] == [expected]


def test_the_policies_of_the_cluster_stay(tmp_path: Path) -> None:
    live = there(
        "ValidatingAdmissionPolicyBinding", "other", spec={"policyName": "small", "validationActions": ["Deny"]}
    )
    objects = with_bundles(SetObjects(), [applied(tmp_path, POLICY)], NEWEST, [live])
    assert told(objects) == {"api": ["ValidatingAdmissionPolicyBinding/other", "ValidatingAdmissionPolicy/small"]}


BOUND = {
    "in the bundle": (together(POLICY, BINDING), [], ()),
    "in the cluster": (
        POLICY,
        [
            there(
                "ValidatingAdmissionPolicyBinding", "other", spec={"policyName": "small", "validationActions": ["Deny"]}
            )
        ],
        (),
    ),
    "nowhere": (POLICY, [], ("no binding names the policies `small`: without one they decide nothing",)),
}


@pytest.mark.parametrize("name", BOUND)
def test_a_policy_without_a_binding_is_told(name: str, tmp_path: Path) -> None:
    text, live, expected = BOUND[name]
    assert with_bundles(SetObjects(), [applied(tmp_path, text)], NEWEST, live).hints == expected


SNAPSHOT = [
    there("ValidatingAdmissionPolicyBinding", "small", spec={"policyName": "small", "validationActions": ["Audit"]}),
    there("ValidatingAdmissionPolicyBinding", "old", spec={"policyName": "old", "validationActions": ["Audit"]}),
    there("ClusterPolicy", "k", "kyverno.io/v1", spec={"rules": []}),
    there("Role", "r", "rbac.authorization.k8s.io/v1", namespace="default"),
    there("ClusterRole", "c", "rbac.authorization.k8s.io/v1"),
    there("LimitRange", "l", "v1", namespace="default"),
    there("LimitRange", "l", "v1", namespace="web"),
    there("Namespace", "web", "v1"),
    there("CustomResourceDefinition", "parts.example.com", "apiextensions.k8s.io/v1"),
]
PRUNED = {
    "nothing is in the bundle": (
        LIMITS,
        "app=x",
        {"others": ["LimitRange/default/l"]},
        ["Role/r", "ClusterRole/c", "LimitRange/l"],
        "--prune takes away 2 ValidatingAdmissionPolicyBinding, 1 ClusterPolicy, 1 ClusterRole, 1 LimitRange, 1 Role",
    ),
    "some is in the bundle": (
        together(BINDING, CLUSTER_POLICY, ROLE, LIMITS.replace("{name: l}", "{name: l, namespace: web}")),
        "app in (x, y)",
        {
            "api": ["ValidatingAdmissionPolicyBinding/small"],
            "engine": ["ClusterPolicy/k"],
            "rbac": ["Role/default/r"],
            "others": ["LimitRange/web/l"],
        },
        ["ClusterRole/c", "LimitRange/l"],
        "--prune takes away 1 ClusterRole, 1 LimitRange, 1 ValidatingAdmissionPolicyBinding",
    ),
    "other labels": (
        LIMITS,
        "app!=x",
        {
            "api": ["ValidatingAdmissionPolicyBinding/old", "ValidatingAdmissionPolicyBinding/small"],
            "engine": ["ClusterPolicy/k"],
            "others": ["LimitRange/default/l"],
        },
        [],
        "--prune takes nothing away: no other object has these labels",
    ),
}


@pytest.mark.parametrize("name", PRUNED)
def test_pruned(name: str, tmp_path: Path) -> None:
    text, selector, left, removed, said = PRUNED[name]
    bundle = applied(tmp_path, text)
    objects = with_bundles(SetObjects(), [bundle], NEWEST, SNAPSHOT)
    found = pruned(objects, [bundle], parse_prune(selector), SNAPSHOT)
    assert {group: sorted(names) for group, names in told(found).items()} == left
    assert [f"{each['kind']}/{each['metadata']['name']}" for each in found.removed] == removed
    assert found.hints == (said,)


SELECTORS = {
    "none": ("", "--prune: give a selector of labels, such as `app.kubernetes.io/instance=cert-manager`"),
    "no selector": ("a b", "--prune: `a b` is not a label selector: found 'b', expected an operator"),
}


@pytest.mark.parametrize("name", SELECTORS)
def test_selectors_that_are_refused(name: str) -> None:
    text, message = SELECTORS[name]
    with pytest.raises(ReplayError) as caught:
        parse_prune(text)
    assert str(caught.value) == message

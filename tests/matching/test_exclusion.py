from __future__ import annotations

import pytest

from replay.admission.ordered.registry import criteria_of
from replay.cellib.version import NEWEST_MINOR, OLDEST_MINOR, KubernetesVersion
from replay.kube.admissionregistration import (
    ManifestSet,
    MatchResources,
    Rule,
    Webhook,
    WebhookClientConfig,
    WebhookConfiguration,
)
from replay.kube.discovery import builtin_discovery
from replay.kube.gvk import GroupVersionResource
from replay.matching.coarse import CoarseClass, coarse_predicate, may_select
from replay.matching.equivalence import EquivalentResourceMapper
from replay.matching.rules import is_excluded_from_policies, is_excluded_from_webhooks

VIRTUAL = [
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
]


@pytest.mark.parametrize(("group", "resource"), VIRTUAL)
def test_webhooks_are_asked_about_virtual_resources_before_1_37(group: str, resource: str) -> None:
    asked = GroupVersionResource(group, "v1", resource)
    assert is_excluded_from_policies(asked)
    minors = range(OLDEST_MINOR, NEWEST_MINOR + 1)
    assert [minor for minor in minors if is_excluded_from_webhooks(asked, KubernetesVersion(1, minor))] == [37]


def test_requests_about_them_are_selected_for_webhooks_before_1_37() -> None:
    everything = (Rule(("*",), ("*",), ("*",), ("*",)),)
    configuration = WebhookConfiguration(
        "w", False, (Webhook(name="w.x.y", client_config=WebhookClientConfig(), rules=everything),)
    )
    mapper = EquivalentResourceMapper(builtin_discovery())
    review = CoarseClass("create", "authentication.k8s.io", "tokenreviews", "")
    criteria = MatchResources(resource_rules=everything)
    for minor, selects in ((36, True), (37, False)):
        version = KubernetesVersion(1, minor)
        assert may_select(criteria, mapper, version)(review) is selects
        predicate = coarse_predicate(
            criteria_of([ManifestSet(validating_webhooks=(configuration,))]), mapper, version=version
        )
        assert ("tokenreviews" in predicate.parameters) is not selects

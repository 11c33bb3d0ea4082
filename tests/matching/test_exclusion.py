from __future__ import annotations

import pytest

from replay.admission.ordered.registry import criteria_of
from replay.cellib.version import NEWEST_MINOR, OLDEST_MINOR, KubernetesVersion
from replay.kube.admissionregistration import (
    ManifestSet,
    MatchResources,
    Rule,
    ValidatingWebhookConfiguration,
    Webhook,
    WebhookClientConfig,
)
from replay.kube.discovery import builtin_discovery
from replay.kube.gvk import GroupVersionResource
from replay.manifests.server.flags import ServerFlags
from replay.manifests.server.settings import ServerSettings
from replay.matching.coarse import CoarseClass, coarse_predicate, may_select
from replay.matching.rules import (
    EquivalentResourceMapper,
    excluded_from_all,
    is_excluded_from_policies,
    is_excluded_from_webhooks,
)

VIRTUAL = [
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
]


@pytest.mark.parametrize(("group", "resource"), VIRTUAL)
def test_reviews_are_sent_to_no_policy_and_to_webhooks_of_servers_that_do_not_skip_them(
    group: str, resource: str
) -> None:
    asked = GroupVersionResource(group, "v1", resource)
    assert is_excluded_from_policies(asked)
    assert [is_excluded_from_webhooks(asked, skips_reviews=skips) for skips in (True, False)] == [True, False]


GATE = "ExcludeAdmissionWebhookVirtualResources"
SKIPPING = [
    ("the default", "", [37]),
    ("turned off", f"{GATE}=false", []),
    ("turned on", f"{GATE}=true", [37]),
    ("with all that are beta off", "AllBeta=false", []),
    ("itself before its stage", f"AllBeta=false,{GATE}=true", [37]),
    ("with all that are alpha off", "AllAlpha=false", [37]),
]


@pytest.mark.parametrize(("gates", "minors"), [row[1:] for row in SKIPPING], ids=[row[0] for row in SKIPPING])
def test_servers_that_skip_reviews(gates: str, minors: list[int]) -> None:
    server = ServerSettings(ServerFlags("server.yaml", {"feature-gates": gates} if gates else {}))
    every = [KubernetesVersion(1, minor) for minor in range(OLDEST_MINOR, NEWEST_MINOR + 1)]
    assert [each.minor for each in every if server.completed(ManifestSet(), each).skips_reviews] == minors


def test_reviews_are_selected_for_webhooks_unless_every_server_skips_them() -> None:
    everything = (Rule(("*",), ("*",), ("*",), ("*",)),)
    configuration = ValidatingWebhookConfiguration(
        "w", False, (Webhook(name="w.x.y", client_config=WebhookClientConfig(), rules=everything),)
    )
    mapper = EquivalentResourceMapper(builtin_discovery())
    review = CoarseClass("create", "authentication.k8s.io", "tokenreviews", "")
    criteria = MatchResources(resource_rules=everything)
    for skips, selects in (((True, False), True), ((True, True), False)):
        sets = [ManifestSet((configuration,), skips_reviews=each) for each in skips]
        excluded = excluded_from_all(sets)
        assert may_select(criteria, mapper, excluded)(review) is selects
        predicate = coarse_predicate(criteria_of(sets), mapper, excluded=excluded)
        assert ("tokenreviews" in predicate.parameters) is not selects

"""Configurations that the server does not start with, in its words."""

from __future__ import annotations

from typing import Any

import pytest

from replay.admission.builtin.registry import BY_NAME
from replay.errors import ManifestError

TOLERATIONS = "podtolerationrestriction.admission.k8s.io/v1alpha1"
LIMITS = "eventratelimit.admission.k8s.io/v1alpha1"
ROWS: list[tuple[str, Any, str]] = [
    (
        "PodTolerationRestriction",
        {
            "apiVersion": TOLERATIONS,
            "kind": "Configuration",
            "default": [{"key": "a", "operator": "Bad", "effect": "No"}],
        },
        (
            'invalid config: [podtolerationrestriction.default[0].operator: Unsupported value: "Bad": supported values: "Equal", '
            '"Exists" podtolerationrestriction.default[0].effect: Unsupported value: "No": supported values: "NoSchedule", '
            '"PreferNoSchedule", "NoExecute"]'
        ),
    ),
    (
        "PodTolerationRestriction",
        {"whitelist": [{"tolerationSeconds": 3}]},
        (
            'invalid config: [podtolerationrestriction.whitelist[0].operator: Invalid value: "": operator must be Exists when `key` '
            'is empty, which means "match all values and all keys" podtolerationrestriction.whitelist[0].effect: Invalid value: "": '
            "effect must be 'NoExecute' when `tolerationSeconds` is set]"
        ),
    ),
    (
        "PodTolerationRestriction",
        {"default": [{"key": "a", "operator": "Exists", "value": "b"}]},
        (
            'invalid config: [podtolerationrestriction.default[0].operator: Invalid value: "b": value must be empty when `operator` '
            "is 'Exists']"
        ),
    ),
    (
        "PodTolerationRestriction",
        {"apiVersion": LIMITS, "kind": "Configuration"},
        f'no kind "Configuration" is registered for version "{LIMITS}"',
    ),
    (
        "EventRateLimit",
        {"apiVersion": "v1", "kind": "Limits"},
        'no kind "Limits" is registered for version "v1"',
    ),
    (
        "ResourceQuota",
        {"apiVersion": "resourcequota.admission.k8s.io/v1", "kind": "Configuration"},
        'no kind "Configuration" is registered for version "resourcequota.admission.k8s.io/v1"',
    ),
    ("ResourceQuota", {"limitedResources": [{}]}, "limitedResources[0].resource: Required value"),
    ("ImagePolicyWebhook", None, "no config specified"),
]


@pytest.mark.parametrize(("plugin", "document", "message"), ROWS)
def test_a_bad_configuration(plugin: str, document: Any, message: str) -> None:
    with pytest.raises(ManifestError) as refused:
        BY_NAME[plugin].configured(document, {})
    assert refused.value.message == message


@pytest.mark.parametrize(
    ("plugin", "document"),
    [
        (
            "EventRateLimit",
            {"apiVersion": LIMITS, "kind": "Configuration", "limits": [{"type": "Server", "qps": 1, "burst": 1}]},
        ),
        ("ResourceQuota", {"apiVersion": "resourcequota.admission.k8s.io/v1beta1", "kind": "Configuration"}),
        ("ResourceQuota", {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "ResourceQuotaConfiguration"}),
        (
            "PodTolerationRestriction",
            {"apiVersion": TOLERATIONS, "kind": "Configuration", "default": [{"operator": "Exists"}]},
        ),
    ],
)
def test_a_good_one(plugin: str, document: Any) -> None:
    assert BY_NAME[plugin].configured(document, {}).name == plugin

"""Mutating webhooks that are asked, in both passes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from replay.admission.chain import Chain
from replay.admission.decision import Decision
from replay.admission.webhook.answer import WebhookAnswer, WebhookReview
from replay.cellib.version import NEWEST
from replay.json import JSON
from replay.kube.attributes import Missing
from replay.kube.discovery import builtin_discovery
from replay.kube.lister import ObjectTracker
from replay.kube.schema import Schemas
from replay.manifests.manifest_set import manifest_set_from_objects
from tests.support.creation import creation_of_config_map

RULE = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}
NAMES = ("first", "second")


class Labels:
    """Adds a label named as the webhook, each time with the number of the call."""

    def __init__(self) -> None:
        self.called: list[str] = []

    def review(self, reviews: Sequence[WebhookReview]) -> list[WebhookAnswer | Missing]:
        answers: list[WebhookAnswer | Missing] = []
        for each in reviews:
            name = each.invocation.hook.webhook.name
            self.called.append(name)
            operation = {"op": "add", "path": f"/metadata/labels/{name}", "value": str(len(self.called))}
            answers.append(WebhookAnswer(allowed=True, patch=(operation,)))
        return answers


def configuration(**webhooks: dict[str, Any]) -> list[JSON]:
    common = {
        "clientConfig": {"url": "https://localhost"},
        "rules": [RULE],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "reinvocationPolicy": "IfNeeded",
    }
    return [
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": "config"},
            "webhooks": [{"name": name, **common, **fields} for name, fields in webhooks.items()],
        }
    ]


def wants(label: str) -> dict[str, Any]:
    return {"objectSelector": {"matchLabels": {label: "1"}}}


ROWS: list[tuple[str, dict[str, dict[str, Any]], list[str]]] = [
    ("each changes after the other", {"first": {}, "second": {}}, ["first", "second", "first", "second"]),
    ("Never", {"first": {"reinvocationPolicy": "Never"}, "second": {}}, ["first", "second"]),
    ("its own change alone", {"first": {}}, ["first"]),
    ("not called in the first pass: nor in the second", {"first": wants("second"), "second": {}}, ["second"]),
]


def decided(backend: Labels, **webhooks: dict[str, Any]) -> Decision:
    """The decision about a ConfigMap that has only the label `a`."""
    manifests = manifest_set_from_objects(configuration(**webhooks), [])
    chain = Chain([manifests], NEWEST, builtin_discovery(), Schemas())
    value = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "x", "namespace": "shop", "labels": {"a": "b"}},
    }
    attributes = creation_of_config_map(value, name="x", options={})
    (decision,) = chain.decide(attributes, attributes, ObjectTracker(), dict.fromkeys(NAMES, backend))
    return decision


@pytest.mark.parametrize(("webhooks", "called"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_who_is_called_again(webhooks: dict[str, dict[str, Any]], called: list[str]) -> None:
    backend = Labels()
    decided(backend, **webhooks)
    assert backend.called == called


def test_a_match_condition_that_fails_in_the_second_pass_denies() -> None:
    """`ShouldCallHook` returns the error before anything asks whether the webhook is called again."""
    backend = Labels()
    condition = {
        "name": "late",
        "expression": "'second' in object.metadata.labels && object.metadata.labels.none == ''",
    }
    decision = decided(backend, first={}, third={"matchConditions": [condition]}, second={})
    assert backend.called == ["first", "second", "first"]
    refused = f"expression '{condition['expression']}' resulted in error: no such key: none"
    assert [denial.message for denial in decision.denials] == [refused]

"""Which webhooks would be called."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from replay.admission.decision import Denial, Undetermined, WebhookCall
from replay.admission.effects import Effects
from replay.admission.webhook.plugin import validate
from replay.admission.webhook.webhooks import WebhookAdmission
from replay.cellib.version import NEWEST
from replay.kube.admissionregistration import (
    FailurePolicy,
    LabelSelector,
    ManifestSet,
    MatchCondition,
    Rule,
    ValidatingWebhookConfiguration,
    Webhook,
    WebhookClientConfig,
)
from replay.kube.attributes import Attributes, Missing
from replay.kube.discovery import builtin_discovery
from replay.kube.gvk import GroupVersionKind, GroupVersionResource
from replay.kube.lister import ObjectTracker
from tests.support.creation import creation_of_pod

NO_BODY = Missing("object", "the log has no body")


def webhook(name: str = "w", **fields: Any) -> Webhook:
    rules = fields.pop("rules", (Rule(("*",), ("*",), ("*",), ("*/*",)),))
    return Webhook(name, WebhookClientConfig("https://hook"), rules, **fields)


def configuration(name: str, *webhooks: Webhook, static: bool = True) -> ValidatingWebhookConfiguration:
    return ValidatingWebhookConfiguration(name, static, webhooks)


def select(attributes: Attributes, *configurations: ValidatingWebhookConfiguration) -> Effects:
    manifests = ManifestSet(configurations, skips_reviews=True)
    admission = WebhookAdmission([manifests], "validating", NEWEST, builtin_discovery())
    return validate(admission, admission.candidates(attributes)[0], (attributes, ObjectTracker()), {})


def names(effects: Effects) -> list[str]:
    return [call.webhook for call in effects.calls]


POD = creation_of_pod(
    {"metadata": {"name": "web", "labels": {"app": "web"}}},
    namespace_object={"metadata": {"name": "shop", "labels": {"env": "prod"}}},
)
POLICY = replace(
    POD,
    kind=GroupVersionKind("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration"),
    resource=GroupVersionResource("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations"),
    namespace="",
)
REVIEW = replace(
    POD,
    kind=GroupVersionKind("authentication.k8s.io", "v1", "TokenReview"),
    resource=GroupVersionResource("authentication.k8s.io", "v1", "tokenreviews"),
    namespace="",
)


def conditions(*expressions: str) -> tuple[MatchCondition, ...]:
    return tuple(MatchCondition(f"c{index}", expression) for index, expression in enumerate(expressions))


@pytest.mark.parametrize(
    ("name", "of", "attributes", "expected"),
    [
        ("everything", webhook(), POD, ["w"]),
        ("no rules", webhook(rules=()), POD, []),
        ("other resource", webhook(rules=(Rule(("*",), ("apps",), ("*",), ("*",)),)), POD, []),
        ("namespace", webhook(namespace_selector=LabelSelector({"env": "prod"})), POD, ["w"]),
        ("other namespace", webhook(namespace_selector=LabelSelector({"env": "dev"})), POD, []),
        ("other object", webhook(object_selector=LabelSelector({"app": "db"})), POD, []),
        ("condition", webhook(match_conditions=conditions("object.metadata.name == 'web'")), POD, ["w"]),
        ("false condition", webhook(match_conditions=conditions("request.userInfo.username == 'bob'")), POD, []),
        (
            "condition with an error, Ignore",
            webhook(match_conditions=conditions("oldObject.x == 1"), failure_policy=FailurePolicy.IGNORE),
            POD,
            [],
        ),
        ("admission configuration, static", webhook(), POLICY, ["w"]),
        ("virtual resources", webhook(), REVIEW, []),
    ],
)
def test_selection(name: str, of: Webhook, attributes: Attributes, expected: list[str]) -> None:
    assert names(select(attributes, configuration("c", of))) == expected, name


def test_api_webhooks_are_not_asked_about_admission_configuration() -> None:
    static, api = configuration("s", webhook("sw")), configuration("a", webhook("aw"), static=False)
    assert names(select(POLICY, static, api)) == ["sw"]
    assert names(select(POD, static, api)) == ["sw", "aw"]


def test_order_and_entry() -> None:
    first, second, third = webhook("1"), webhook("2", rules=()), webhook("3", timeout_seconds=3)
    selection = select(POD, configuration("a", first, second), configuration("b", third))
    assert selection.calls == [
        WebhookCall("a", "1", "validating", "Fail", 10, "None"),
        WebhookCall("b", "3", "validating", "Fail", 3, "None"),
    ]


@pytest.mark.parametrize(
    ("name", "of", "attributes", "expected"),
    [
        (
            "condition with an error",
            webhook(match_conditions=conditions("oldObject.x == 1")),
            POD,
            Denial(
                "c",
                "w",
                None,
                "expression 'oldObject.x == 1' resulted in error: no such key: x",
                "Forbidden",
                403,
                of_webhook=True,
            ),
        ),
        (
            "namespace not found",
            webhook(namespace_selector=LabelSelector({"env": "prod"})),
            replace(POD, namespace_object=None),
            Denial("c", "w", None, 'namespaces "shop" not found', "NotFound", 404, of_webhook=True),
        ),
        (
            "bad selector",
            webhook(object_selector=LabelSelector({"a b": ""})),
            POD,
            None,
        ),
        (
            "dry run with side effects",
            webhook(side_effects="Some"),
            replace(POD, dry_run=True),
            Denial(
                "c", "w", None, 'admission webhook "w" does not support dry run', "BadRequest", 400, of_webhook=True
            ),
        ),
    ],
)
def test_refusals(name: str, of: Webhook, attributes: Attributes, expected: Denial | None) -> None:
    (refusal,) = select(attributes, configuration("c", of)).denials
    if expected is not None:
        assert refusal == expected, name
    else:
        assert (refusal.reason, refusal.code) == ("InternalError", 500)
        assert refusal.message.startswith('Internal error occurred: key: Invalid value: "a b"')


@pytest.mark.parametrize(
    ("name", "of"),
    [
        ("selector", webhook(object_selector=LabelSelector({"app": "web"}))),
        ("condition", webhook(match_conditions=conditions("object.metadata.name == 'web'"))),
    ],
)
def test_unknown_objects(name: str, of: Webhook) -> None:
    selection = select(replace(POD, object=NO_BODY), configuration("c", of))
    reason = "whether it is called depends on `object`, which is not known: the log has no body"
    assert selection == Effects(undetermined=[Undetermined("c", "w", reason, "object")]), name

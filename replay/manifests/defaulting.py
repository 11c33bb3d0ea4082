"""The defaults of `admissionregistration.k8s.io` (`k8s.io/kubernetes/pkg/apis/admissionregistration/*/defaults.go`).

Objects are changed in place, right after decoding, before anybody else has seen them.
"""

from __future__ import annotations

from replay.json import JSON

_EQUIVALENT, _FAIL, _NEVER, _ALL_SCOPES, _DENY = "Equivalent", "Fail", "Never", "*", "Deny"
_TIMEOUT_SECONDS, _SERVICE_PORT = 10, 443


def set_defaults(kind: str, obj: JSON, version: str = "v1") -> None:
    """Set what the manifest leaves out; `obj` is the decoded object of that kind, `version` that of the API it is in.

    Policies and bindings have the same defaults in all versions but one: v1alpha1 denies where no parameter is found.
    """
    if kind.endswith("WebhookConfiguration"):
        for webhook in obj.get("webhooks") or ():
            _default_webhook(webhook, mutating=kind.startswith("Mutating"))
        return
    spec = obj["spec"]
    if kind.endswith("PolicyBinding"):
        _default_match_resources(spec.get("matchResources"))
        if version == "v1alpha1" and spec.get("paramRef") is not None:
            spec["paramRef"].setdefault("parameterNotFoundAction", _DENY)
        return
    spec.setdefault("failurePolicy", _FAIL)
    _default_match_resources(spec.get("matchConstraints"))


def _default_webhook(webhook: JSON, *, mutating: bool) -> None:
    webhook.setdefault("failurePolicy", _FAIL)
    webhook.setdefault("matchPolicy", _EQUIVALENT)
    webhook.setdefault("namespaceSelector", {})
    webhook.setdefault("objectSelector", {})
    webhook.setdefault("timeoutSeconds", _TIMEOUT_SECONDS)
    if mutating:
        webhook.setdefault("reinvocationPolicy", _NEVER)
    service = webhook["clientConfig"].get("service")
    if service is not None:
        service.setdefault("port", _SERVICE_PORT)
    _default_rules(webhook.get("rules"))


def _default_match_resources(match_resources: JSON) -> None:
    if match_resources is None:
        return
    match_resources.setdefault("matchPolicy", _EQUIVALENT)
    match_resources.setdefault("namespaceSelector", {})
    match_resources.setdefault("objectSelector", {})
    _default_rules(match_resources.get("resourceRules"))
    _default_rules(match_resources.get("excludeResourceRules"))


def _default_rules(rules: JSON) -> None:
    for rule in rules or ():
        rule.setdefault("scope", _ALL_SCOPES)

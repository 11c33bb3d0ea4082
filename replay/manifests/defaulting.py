"""The defaults of `admissionregistration.k8s.io` (`k8s.io/kubernetes/pkg/apis/admissionregistration/*/defaults.go`).

Objects are changed in place right after decoding, before other code sees them. The default values are in
`kube/default_rules.py`. A field that is present counts as set, even if it is empty. Validation refuses it later.
"""

from __future__ import annotations

from collections.abc import Mapping

from replay.json import JSON
from replay.kube.default_rules import ADMISSION, FILLED

_DENY = "Deny"


def set_defaults(kind: str, obj: JSON, version: str = "v1") -> None:
    """Set the fields that a manifest omits. `obj` is the decoded object of that kind, `version` its API version.

    Policies and bindings have the same defaults in all versions, with one exception: v1alpha1 denies if no parameter is
    found.
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
    _fill(f"{kind}Spec", spec)
    _default_match_resources(spec.get("matchConstraints"))


def _default_webhook(webhook: JSON, *, mutating: bool) -> None:
    _fill("MutatingWebhook" if mutating else "ValidatingWebhook", webhook)
    service = webhook["clientConfig"].get("service")
    if service is not None:
        _fill("ServiceReference", service)
    _default_rules("RuleWithOperations", webhook.get("rules"))


def _default_match_resources(match_resources: JSON) -> None:
    if match_resources is None:
        return
    _fill("MatchResources", match_resources)
    for name in ("resourceRules", "excludeResourceRules"):
        _default_rules("NamedRuleWithOperations", match_resources.get(name))


def _default_rules(struct: str, rules: JSON) -> None:
    for rule in rules or ():
        _fill(struct, rule)


def _fill(struct: str, value: JSON) -> None:
    """Set the fields that a struct of `admissionregistration.k8s.io/v1` omits."""
    for name, default in FILLED[ADMISSION + struct].items():
        value.setdefault(name, dict(default) if isinstance(default, Mapping) else default)

"""Names of the objects by which policy engines decide, and of the webhooks behind which they run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from replay.json import JSON

VALIDATION, MUTATION = "validation.gatekeeper.sh", "mutation.gatekeeper.sh"
"""The names of Gatekeeper's webhooks."""
_GATEKEEPER: Final = {"constraints.gatekeeper.sh": VALIDATION, "mutations.gatekeeper.sh": MUTATION}
"""The groups whose objects are policies, with the webhook that evaluates them."""
_MUTATES: Final = {"mutations.gatekeeper.sh", "config.gatekeeper.sh"}
KYVERNO_VALIDATION, KYVERNO_MUTATION = "validate.kyverno.svc-", "mutate.kyverno.svc-"
"""The prefixes of Kyverno's webhooks that evaluate the rules of ClusterPolicies and Policies (`pkg/config/config.go`).
"""
_KYVERNO: Final = {
    "ValidatingPolicy": ("vpol.validate.kyverno.svc-",),
    "NamespacedValidatingPolicy": ("nvpol.validate.kyverno.svc-",),
    "MutatingPolicy": ("mpol.validate.kyverno.svc-",),
    "NamespacedMutatingPolicy": ("nmpol.validate.kyverno.svc-",),
    "GeneratingPolicy": ("gpol.validate.kyverno.svc-",),
    "NamespacedGeneratingPolicy": ("ngpol.validate.kyverno.svc-",),
    "ImageValidatingPolicy": ("ivpol.validate.kyverno.svc-", "ivpol.mutate.kyverno.svc-"),
    "NamespacedImageValidatingPolicy": ("ivpol.validate.kyverno.svc-", "ivpol.mutate.kyverno.svc-"),
}
"""The kinds of `policies.kyverno.io` that are policies, with the prefixes of their webhooks."""
_RULES: Final = ("ClusterPolicy", "Policy")
_GENERATED: Final = re.compile("autogen-(cronjob-)?")


def is_webhook_of_kyverno(name: str) -> bool:
    """Return whether Kyverno registers a webhook of this name for resources."""
    return ".kyverno.svc-" in f".{name}"


def policy_name(value: JSON) -> str:
    """Return the name of an engine's object in decisions: kind and name, with the namespace if it has one."""
    metadata = value.get("metadata") or {}
    namespace = metadata.get("namespace")
    return f"{value.get('kind')}/{f'{namespace}/' if namespace else ''}{metadata.get('name')}"


def policy_names(value: JSON, webhook: str = "") -> tuple[str, ...]:
    """Return the names in decisions of an engine's object, for one webhook or for any.

    Empty if it decides nothing itself.

    A ClusterPolicy or Policy of Kyverno decides by its rules, which are named by policy and rule.
    """
    group = _group(value)
    if group == "kyverno.io" and value.get("kind") in _RULES:
        rules = [each for each in _spec(value).get("rules") or () if isinstance(each, dict)]
        return tuple(rule_name(value, each.get("name")) for each in rules if _decides(each, webhook))
    webhooks = _KYVERNO.get(str(value.get("kind")), ()) if group == "policies.kyverno.io" else ()
    webhooks = (_GATEKEEPER[group],) if group in _GATEKEEPER else webhooks
    return (policy_name(value),) if any(not webhook or webhook.startswith(each) for each in webhooks) else ()


def rule_name(policy: JSON, rule: JSON) -> str:
    """Return the name of a Kyverno rule in decisions.

    A rule that Kyverno generated for a pod controller has the name of the written one.
    """
    return f"{policy_name(policy)}/{_GENERATED.sub('', str(rule), count=1)}"


def _decides(rule: Mapping[str, Any], webhook: str) -> bool:
    mutates = bool(rule.get("mutate") or rule.get("verifyImages"))
    validates = bool(rule.get("validate") or rule.get("verifyImages") or rule.get("generate"))
    if webhook.startswith(KYVERNO_MUTATION):
        return mutates
    return validates if webhook.startswith(KYVERNO_VALIDATION) else not webhook and (mutates or validates)


def engine_policies(objects: Iterable[JSON], webhook: str = "") -> tuple[str, ...]:
    """Return the names of all policies, or of those behind one webhook."""
    return tuple(name for value in objects for name in policy_names(value, webhook))


def concerns(value: JSON, webhook: str) -> bool:
    """Return whether the decisions of a webhook may depend on an object of its engine."""
    group = _group(value)
    if group.endswith(".gatekeeper.sh"):
        return webhook == VALIDATION or (webhook == MUTATION and group in _MUTATES)
    return is_webhook_of_kyverno(webhook) and (not policy_names(value) or bool(policy_names(value, webhook)))


def _group(value: JSON) -> str:
    return str(value.get("apiVersion")).partition("/")[0]


def _spec(value: JSON) -> Mapping[str, Any]:
    spec = value.get("spec")
    return spec if isinstance(spec, dict) else {}

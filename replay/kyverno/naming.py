"""How decisions name Kyverno's policies and rules, behind which webhooks they decide, and which of them a refusal names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from replay.json import JSON
from replay.kube.engine_policy import group_of, name_and_message, policy_name

VALIDATION, MUTATION = "validate.kyverno.svc-", "mutate.kyverno.svc-"
"""The prefixes of Kyverno's webhooks that evaluate the rules of ClusterPolicies and Policies (`pkg/config/config.go`).
"""
_CEL: Final = {
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
_GENERATED: Final = re.compile("^autogen-(cronjob-)?")
_CEL_WEBHOOK: Final = re.compile(r"(?P<kind>n?[vm]pol)\.validate\.kyverno\.svc-")
_RULE: Final = re.compile(r"^(?P<indent> *)(?P<name>[^\s:][^:\n]*):", re.MULTILINE)
_CEL_POLICY: Final = re.compile(r"(?:^|; )Policy (?P<name>[a-z0-9][-a-z0-9.]*) (?:failed|error): ")


def is_webhook_of_kyverno(name: str) -> bool:
    """Return whether Kyverno registers a webhook of this name for resources."""
    return ".kyverno.svc-" in f".{name}"


def key_of(obj: JSON) -> str:
    """Return `NAMESPACE/NAME` of an object, or its name if it has no namespace."""
    metadata = obj["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else str(metadata["name"])


def rule_name(policy: JSON, rule: JSON) -> str:
    """Return the name of a Kyverno rule in decisions.

    A rule that Kyverno generated for a pod controller has the name of the written one.
    """
    return f"{policy_name(policy)}/{_GENERATED.sub('', str(rule), count=1)}"


def policy_names(value: JSON, webhook: str) -> tuple[str, ...]:
    """Return the names of an object's policies behind a webhook. A ClusterPolicy or Policy decides by its rules, which are named by policy and rule."""
    group = group_of(value)
    if group == "kyverno.io" and value.get("kind") in _RULES:
        spec = value.get("spec")
        listed = spec.get("rules") or () if isinstance(spec, dict) else ()
        rules = [each for each in listed if isinstance(each, dict)]
        return tuple(rule_name(value, each.get("name")) for each in rules if _decides(each, webhook))
    webhooks = _CEL.get(str(value.get("kind")), ()) if group == "policies.kyverno.io" else ()
    return (policy_name(value),) if any(not webhook or webhook.startswith(each) for each in webhooks) else ()


def _decides(rule: Mapping[str, Any], webhook: str) -> bool:
    mutates = bool(rule.get("mutate") or rule.get("verifyImages"))
    validates = bool(rule.get("validate") or rule.get("verifyImages") or rule.get("generate"))
    if webhook.startswith(MUTATION):
        return mutates
    return validates if webhook.startswith(VALIDATION) else not webhook and (mutates or validates)


def concerns(value: JSON, webhook: str) -> bool:
    """Return whether a webhook's decisions may depend on an object. A ConfigMap may be its configuration, or what policies read."""
    return is_webhook_of_kyverno(webhook) and (not policy_names(value, "") or bool(policy_names(value, webhook)))


def denied(webhook: str, message: str) -> list[tuple[str, str]]:
    """Return the policies that a refusal names.

    Policies and their rules are lines (`pkg/webhooks/utils/block.go`). CEL policies are named (`pkg/webhooks/resource/vpol`).
    """
    if webhook.startswith((VALIDATION, MUTATION)):
        return _denied_by_rules(message)
    return name_and_message(_CEL_POLICY.split(message)[1:]) if _CEL_WEBHOOK.match(webhook) else []


def _denied_by_rules(message: str) -> list[tuple[str, str]]:
    """Return each `(policy/rule, message)` of the block that Kyverno writes."""
    block = message.partition("was blocked due to the following policies")[2]
    found: list[tuple[str, str]] = []
    policy = ""
    entries = list(_RULE.finditer(block))
    for index, entry in enumerate(entries):
        if not entry["indent"]:
            policy = entry["name"]
        elif len(entry["indent"]) == 2 and policy:
            following = (each.start() for each in entries[index + 1 :] if len(each["indent"]) <= 2)
            rule = _GENERATED.sub("", entry["name"], count=1)
            found.append((f"{policy}/{rule}", block[entry.end() : next(following, len(block))].strip(" \n'")))
    return found

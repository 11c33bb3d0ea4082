"""Policy engines, each a row of `ENGINES`: all that code outside of an engine's package knows of it.

A row says which objects are the engine's, how decisions name them, behind which webhooks they decide, and how messages name them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any, Final, NamedTuple

from replay.json import JSON
from replay.kube.gvk import GroupResource

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
_GENERATED: Final = re.compile("^autogen-(cronjob-)?")
_OF_GATEKEEPER: Final = ".gatekeeper.sh"
_CONSTRAINT: Final = re.compile(r"(?:^|\n)\[([a-z0-9][-a-z0-9.]*)\] ")
_CEL_WEBHOOK: Final = re.compile(r"(?P<kind>n?[vm]pol)\.validate\.kyverno\.svc-")
_RULE: Final = re.compile(r"^(?P<indent> *)(?P<name>[^\s:][^:\n]*):", re.MULTILINE)
_CEL_POLICY: Final = re.compile(r"(?:^|; )Policy (?P<name>[a-z0-9][-a-z0-9.]*) (?:failed|error): ")


def is_webhook_of_kyverno(name: str) -> bool:
    """Return whether Kyverno registers a webhook of this name for resources."""
    return ".kyverno.svc-" in f".{name}"


def policy_name(value: JSON) -> str:
    """Return the name of an engine's object in decisions: kind and name, with the namespace if it has one."""
    metadata = value.get("metadata") or {}
    namespace = metadata.get("namespace")
    return f"{value.get('kind')}/{f'{namespace}/' if namespace else ''}{metadata.get('name')}"


def rule_name(policy: JSON, rule: JSON) -> str:
    """Return the name of a Kyverno rule in decisions.

    A rule that Kyverno generated for a pod controller has the name of the written one.
    """
    return f"{policy_name(policy)}/{_GENERATED.sub('', str(rule), count=1)}"


def _names_of_gatekeeper(value: JSON, webhook: str) -> tuple[str, ...]:
    decides_by = _GATEKEEPER.get(_group(value))
    return (policy_name(value),) if decides_by is not None and (not webhook or webhook.startswith(decides_by)) else ()


def _concerns_gatekeeper(value: JSON, webhook: str) -> bool:
    group = _group(value)
    return group.endswith(_OF_GATEKEEPER) and (webhook == VALIDATION or (webhook == MUTATION and group in _MUTATES))


def _denied_by_gatekeeper(webhook: str, message: str) -> list[tuple[str, str]]:
    """A line begins with the name of a constraint in brackets (`webhook/policy.go`)."""
    return _pairs(_CONSTRAINT.split(message)[1:]) if webhook == VALIDATION and _CONSTRAINT.match(message) else []


def _names_of_kyverno(value: JSON, webhook: str) -> tuple[str, ...]:
    """A ClusterPolicy or Policy decides by its rules, which are named by policy and rule."""
    group = _group(value)
    if group == "kyverno.io" and value.get("kind") in _RULES:
        rules = [each for each in _spec(value).get("rules") or () if isinstance(each, dict)]
        return tuple(rule_name(value, each.get("name")) for each in rules if _decides(each, webhook))
    webhooks = _KYVERNO.get(str(value.get("kind")), ()) if group == "policies.kyverno.io" else ()
    return (policy_name(value),) if any(not webhook or webhook.startswith(each) for each in webhooks) else ()


def _decides(rule: Mapping[str, Any], webhook: str) -> bool:
    mutates = bool(rule.get("mutate") or rule.get("verifyImages"))
    validates = bool(rule.get("validate") or rule.get("verifyImages") or rule.get("generate"))
    if webhook.startswith(KYVERNO_MUTATION):
        return mutates
    return validates if webhook.startswith(KYVERNO_VALIDATION) else not webhook and (mutates or validates)


def _concerns_kyverno(value: JSON, webhook: str) -> bool:
    """A ConfigMap may be its configuration, or what policies read."""
    if _group(value).endswith(_OF_GATEKEEPER) or not is_webhook_of_kyverno(webhook):
        return False
    return not _names_of_kyverno(value, "") or bool(_names_of_kyverno(value, webhook))


def _denied_by_kyverno(webhook: str, message: str) -> list[tuple[str, str]]:
    """Policies and their rules are lines (`pkg/webhooks/utils/block.go`). CEL policies are named (`pkg/webhooks/resource/vpol`)."""
    if webhook.startswith((KYVERNO_VALIDATION, KYVERNO_MUTATION)):
        return _denied_by_rules(message)
    return _pairs(_CEL_POLICY.split(message)[1:]) if _CEL_WEBHOOK.match(webhook) else []


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


def _pairs(parts: list[str]) -> list[tuple[str, str]]:
    return list(zip(parts[::2], parts[1::2], strict=True))


class PolicyEngine(NamedTuple):
    """Policy engine. Functions of its package are `module:function`, because the package is imported only if a set has objects of the engine.

    `name` is its directory in a set, and what `replay plugin` calls it. `group` begins the `apiVersion` of its objects. `policy_names`, `concerns`
    and `denied` are the engine's part of the functions below. `registration` adds its webhooks to a set, `backend` makes what answers for them,
    `decider` answers `replay plugin`, `check` adds its findings to those of `replay check`, and `promotion` is the change that `replay promote`
    rehearses. `matched` yields what the engine's policies match, by which `replay diff --log` pairs them. `replay snapshot` takes its `resources`,
    and what `read` names where a set has objects of the engine, each with the reason.
    """

    name: str
    group: re.Pattern[str]
    policy_names: Callable[[JSON, str], tuple[str, ...]]
    concerns: Callable[[JSON, str], bool]
    denied: Callable[[str, str], list[tuple[str, str]]]
    registration: str
    backend: str
    decider: str
    check: str
    promotion: str
    reason: str
    resources: tuple[GroupResource, ...]
    read: Mapping[GroupResource, str]
    matched: str = ""


ENGINES: Final = (
    PolicyEngine(
        "gatekeeper",
        re.compile(r"(templates|constraints|config|syncset|expansion|mutations|externaldata)\.gatekeeper\.sh/"),
        _names_of_gatekeeper,
        _concerns_gatekeeper,
        _denied_by_gatekeeper,
        registration="replay.gatekeeper.policy_set:with_gatekeeper_webhooks",
        backend="replay.gatekeeper.backend:gatekeeper_of",
        decider="replay.gatekeeper.engine:decide",
        check="replay.gatekeeper.policy_set:with_gatekeeper",
        promotion="replay.gatekeeper.promotion:promotion",
        reason="Gatekeeper's templates, constraints and mutators",
        resources=(
            GroupResource("", "constraints"),  # the category of all kinds that templates make
            *(
                GroupResource(f"{group}.gatekeeper.sh", resource)
                for group, resource in (
                    ("templates", "constrainttemplates"),
                    ("config", "configs"),
                    ("syncset", "syncsets"),
                    ("expansion", "expansiontemplate"),
                    ("mutations", "assign"),
                    ("mutations", "assignimage"),
                    ("mutations", "assignmetadata"),
                    ("mutations", "modifyset"),
                    ("externaldata", "providers"),
                )
            ),
        ),
        read={},
    ),
    PolicyEngine(
        "kyverno",
        re.compile(r"(policies\.)?kyverno\.io/"),
        _names_of_kyverno,
        _concerns_kyverno,
        _denied_by_kyverno,
        registration="replay.kyverno.registration:with_kyverno_webhooks",
        backend="replay.kyverno.backend:kyverno_of",
        decider="replay.kyverno.decide:decide",
        check="replay.kyverno.policy_schema:with_kyverno",
        promotion="replay.kyverno.promotion:promotion",
        reason="Kyverno's policies and exceptions",
        resources=(
            *(
                GroupResource("kyverno.io", resource)
                for resource in ("clusterpolicies", "policies", "policyexceptions", "globalcontextentries")
            ),
            *(
                GroupResource("policies.kyverno.io", f"{prefix}{resource}")
                for prefix in ("", "namespaced")
                for resource in (
                    "validatingpolicies",
                    "mutatingpolicies",
                    "imagevalidatingpolicies",
                    "generatingpolicies",
                )
            ),
            GroupResource("policies.kyverno.io", "policyexceptions"),
        ),
        read={GroupResource("", "configmaps"): "Kyverno's configuration, and what contexts read"},
        matched="replay.kyverno.wildcard:matched_resources",
    ),
)


def function_of(reference: str) -> Any:
    """Return what a field of a row names as `module:function`."""
    module, function = reference.split(":")
    return getattr(import_module(module), function)


def policy_names(value: JSON, webhook: str = "") -> tuple[str, ...]:
    """Return the names in decisions of an engine's object, for one webhook or for any.

    Empty if it decides nothing itself.
    """
    return tuple(name for engine in ENGINES for name in engine.policy_names(value, webhook))


def engine_policies(objects: Iterable[JSON], webhook: str = "") -> tuple[str, ...]:
    """Return the names of all policies, or of those behind one webhook."""
    return tuple(name for value in objects for name in policy_names(value, webhook))


def concerns(value: JSON, webhook: str) -> bool:
    """Return whether the decisions of a webhook may depend on an object of its engine."""
    return any(engine.concerns(value, webhook) for engine in ENGINES)


def named_by(webhook: str, message: str) -> list[tuple[str, str]]:
    """Return the policies that a webhook's refusal names, each with its message."""
    return [pair for engine in ENGINES for pair in engine.denied(webhook, message)]


def is_of_engine(value: JSON, engine: PolicyEngine) -> bool:
    """Return whether an object is of an API group of an engine."""
    return engine.group.match(str(value.get("apiVersion"))) is not None


def _group(value: JSON) -> str:
    return str(value.get("apiVersion")).partition("/")[0]


def _spec(value: JSON) -> Mapping[str, Any]:
    spec = value.get("spec")
    return spec if isinstance(spec, dict) else {}

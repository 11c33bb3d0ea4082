"""The patch that makes a policy deny instead of auditing."""

from __future__ import annotations

from typing import Final

from replay.json import JSON
from replay.kube.admissionregistration import MatchResources, Rule
from replay.kube.discovery import Discovery
from replay.kyverno.rules.webhook import enforces
from replay.kyverno.wildcard import kinds_of, selected_resources
from replay.manifests.engine_object import DENIES_ALREADY, NEVER_DENIES, EnginePromotion, promoted_object, replacement
from replay.manifests.manifest_set import match_resources

_RULES: Final = ("ClusterPolicy", "Policy")
_UNLOGGED: Final = "Kyverno keeps failures in PolicyReports"


def promotion(value: JSON, discovery: Discovery) -> EnginePromotion | str:
    """Return the change that makes an object deny, or why there is none, with `{}` for its name."""
    kind, spec = str(value.get("kind")), value.get("spec") or {}
    if kind in _RULES:
        return _promoted_rules(value, spec, discovery)
    return _promoted_cel(value, spec) if kind.endswith("ValidatingPolicy") else NEVER_DENIES


def _promoted_rules(value: JSON, spec: JSON, discovery: Discovery) -> EnginePromotion | str:
    """Return the promotion of a ClusterPolicy.

    The action of a rule overrides that of the policy, which audits by default.
    """
    of_policy = spec.get("validationFailureAction")
    patch, actions, kinds = [], [], []
    rules = [each for each in spec.get("rules") or () if isinstance(each, dict)]
    if not any(rule.get("validate") for rule in rules):
        return NEVER_DENIES
    for index, rule in enumerate(spec["rules"]):
        validation = rule.get("validate")
        if not isinstance(validation, dict):
            continue
        own = validation.get("failureAction")
        if enforces(own or of_policy):
            continue
        actions.append(str(own or of_policy or "Audit"))
        patch.append(replacement(f"/spec/rules/{index}/validate/failureAction", "Enforce", has_value=own is not None))
        kinds += kinds_of(rule.get("match"))
    selected = sorted(selected_resources(discovery, kinds))
    resources = tuple(
        Rule(("*",), (group,), (version,), (f"{name}/{sub}" if sub else name,))
        for group, version, name, sub in selected
    )
    return promoted_object(value, actions, patch, MatchResources(resource_rules=resources), _UNLOGGED)


def _promoted_cel(value: JSON, spec: JSON) -> EnginePromotion | str:
    actions = tuple(map(str, spec.get("validationActions") or ()))
    if not actions or "Deny" in actions:  # Deny is the default of Kyverno
        return DENIES_ALREADY
    criteria = match_resources(spec.get("matchConstraints")) or MatchResources()
    return promoted_object(value, actions, {"spec": {"validationActions": ["Deny"]}}, criteria, _UNLOGGED)

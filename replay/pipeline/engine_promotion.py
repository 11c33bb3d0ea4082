"""Patches that make a policy of Gatekeeper or Kyverno deny instead of auditing or warning.

They cover constraints, the rules of ClusterPolicies, and ValidatingPolicies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import deepcopy
from typing import Any, Final

from msgspec import Struct

from replay.gatekeeper.constraint import NATIVE
from replay.json import JSON
from replay.kube.admissionregistration import MatchResources, Rule
from replay.kube.discovery import Discovery
from replay.kube.engine_policy import VALIDATION
from replay.kyverno.kind_selector import kinds_of, selected_resources
from replay.kyverno.rules.webhook import enforces
from replay.manifests.manifest_set import match_resources

_CONSTRAINTS, _RULES, _CEL = "constraints.gatekeeper.sh", "kyverno.io", "policies.kyverno.io"
_WRITES: Final = ("CREATE", "UPDATE")
DENIES: Final = "`{}` denies already: `replay lookup` shows whom"
_CHANGES: Final = "`{}` never denies: it changes or makes objects"
_OF_GATEKEEPER = "Gatekeeper keeps violations in the status of the constraint"
_OF_KYVERNO = "Kyverno keeps failures in PolicyReports"


class EnginePromotion(Struct, frozen=True):
    """A policy of an engine that does not deny yet: its actions, the patch that makes it deny, and the patched policy.

    `patch` is a merge patch, or the list of a JSON patch; `criteria` select the requests that the policy may match.
    """

    actions: tuple[str, ...]
    patch: JSON
    promoted: JSON
    criteria: MatchResources
    untold: str
    """Why an audit log does not show failures of the policy."""


def promotion_of(value: JSON, discovery: Discovery) -> EnginePromotion | None:
    """Return the change that makes an engine's object deny. None if it denies already, or never does."""
    group, kind = str(value.get("apiVersion")).partition("/")[0], str(value.get("kind"))
    spec = value.get("spec") or {}
    if group == _CONSTRAINTS:
        return _constraint(value, spec, discovery)
    if group == _RULES and kind in ("ClusterPolicy", "Policy"):
        return _rules(value, spec, discovery)
    if group == _CEL and kind.endswith("ValidatingPolicy"):
        return _validating(value, spec)
    return None


def unpromotable(value: JSON) -> str:
    """Return why `promotion_of` has nothing to change in an engine's object, with `{}` for its name."""
    group, kind = str(value.get("apiVersion")).partition("/")[0], str(value.get("kind"))
    spec = value.get("spec") or {}
    if group == _CONSTRAINTS:
        scoped = spec.get("scopedEnforcementActions") or ()
        if spec.get("enforcementAction") == "scoped" and not any(map(_is_at_admission, scoped)):
            return "`{}` does not act at admission: no entry of its scopedEnforcementActions names the webhook"
        return DENIES
    if group == _RULES:
        validates = any(isinstance(rule, dict) and rule.get("validate") for rule in spec.get("rules") or ())
        return DENIES if validates else _CHANGES
    return DENIES if kind.endswith("ValidatingPolicy") else _CHANGES


def _constraint(value: JSON, spec: JSON, discovery: Discovery) -> EnginePromotion | None:
    action = str(spec.get("enforcementAction") or "deny")
    scoped = spec.get("scopedEnforcementActions") or []
    kinds = ((spec.get("match") or {}).get("kinds")) or [{"apiGroups": ["*"], "kinds": ["*"]}]
    criteria = MatchResources(resource_rules=tuple(_rules_of_kinds(kinds, discovery)))
    if action == "scoped":
        weak = {index: str(each.get("action")) for index, each in enumerate(scoped) if _is_weak(each)}
        patch = [_replacement(f"/spec/scopedEnforcementActions/{index}/action", "deny") for index in weak]
        return _promotion(value, tuple(dict.fromkeys(weak.values())), patch, criteria, _OF_GATEKEEPER)
    actions = () if action == "deny" else (action,)
    return _promotion(value, actions, {"spec": {"enforcementAction": "deny"}}, criteria, _OF_GATEKEEPER)


def _is_weak(scoped: JSON) -> bool:
    """Return whether an action at the webhook is other than deny."""
    return bool(_points(scoped) & {VALIDATION, "*"}) and scoped.get("action") != "deny"


def _is_at_admission(scoped: JSON) -> bool:
    return bool(_points(scoped) & {VALIDATION, NATIVE, "*"})


def _points(scoped: JSON) -> set[str]:
    return {str(point.get("name")) for point in scoped.get("enforcementPoints") or ()}


def _rules_of_kinds(kinds: Iterable[JSON], discovery: Discovery) -> Iterator[Rule]:
    for each in kinds:
        for group in each.get("apiGroups") or ("*",):
            for kind in each.get("kinds") or ("*",):
                named = [one for one in discovery if kind in ("*", one.kind.kind) and group in ("*", one.kind.group)]
                resources = ("*",) if kind == "*" else tuple({one.resource.resource for one in named})
                if resources:
                    yield Rule(_WRITES, (group,), ("*",), resources)


def _rules(value: JSON, spec: JSON, discovery: Discovery) -> EnginePromotion | None:
    """Return the promotion of a ClusterPolicy.

    The action of a rule overrides that of the policy, which audits by default.
    """
    of_policy = spec.get("validationFailureAction")
    patch, actions, kinds = [], [], []
    for index, rule in enumerate(spec.get("rules") or ()):
        validation = rule.get("validate")
        if not isinstance(validation, dict):
            continue
        own = validation.get("failureAction")
        if enforces(own or of_policy):
            continue
        actions.append(str(own or of_policy or "Audit"))
        patch.append(_replacement(f"/spec/rules/{index}/validate/failureAction", "Enforce", has_value=own is not None))
        kinds += kinds_of(rule.get("match"))
    selected = sorted(selected_resources(discovery, kinds))
    rules = tuple(
        Rule(("*",), (group,), (version,), (f"{name}/{sub}" if sub else name,))
        for group, version, name, sub in selected
    )
    criteria = MatchResources(resource_rules=rules)
    return _promotion(value, tuple(dict.fromkeys(actions)), patch, criteria, _OF_KYVERNO)


def _validating(value: JSON, spec: JSON) -> EnginePromotion | None:
    actions = tuple(map(str, spec.get("validationActions") or ()))
    if not actions or "Deny" in actions:  # Deny is the default of Kyverno
        return None
    criteria = match_resources(spec.get("matchConstraints")) or MatchResources()
    return _promotion(value, actions, {"spec": {"validationActions": ["Deny"]}}, criteria, _OF_KYVERNO)


def _replacement(path: str, value: str, *, has_value: bool = True) -> JSON:
    return {"op": "replace" if has_value else "add", "path": path, "value": value}


def _promotion(
    value: JSON, actions: tuple[str, ...], patch: JSON, criteria: MatchResources, untold: str
) -> EnginePromotion | None:
    """Return the promotion with the patched object, None if nothing is to change."""
    return EnginePromotion(actions, patch, _patched(value, patch), criteria, untold) if actions else None


def _patched(value: JSON, patch: JSON) -> JSON:
    changed: Any = deepcopy(value)
    if isinstance(patch, dict):
        changed["spec"].update(patch["spec"])
        return changed
    for operation in patch:
        *parents, last = operation["path"].split("/")[1:]
        place = changed
        for name in parents:
            place = place[int(name)] if isinstance(place, list) else place[name]
        place[last] = operation["value"]
    return changed

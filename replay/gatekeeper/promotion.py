"""The patch that makes a constraint deny instead of auditing or warning."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from replay.gatekeeper.constraint import NATIVE
from replay.gatekeeper.naming import VALIDATION
from replay.json import JSON
from replay.kube.admissionregistration import MatchResources, Rule
from replay.kube.discovery import Discovery
from replay.manifests.engine_object import NEVER_DENIES, EnginePromotion, promoted_object, replacement

_CONSTRAINTS: Final = "constraints.gatekeeper.sh/"
_WRITES: Final = ("CREATE", "UPDATE")
_UNLOGGED: Final = "Gatekeeper keeps violations in the status of the constraint"


def promotion(value: JSON, discovery: Discovery) -> EnginePromotion | str:
    """Return the change that makes an object deny, or why there is none, with `{}` for its name."""
    if not str(value.get("apiVersion")).startswith(_CONSTRAINTS):
        return NEVER_DENIES
    spec = value.get("spec") or {}
    action = str(spec.get("enforcementAction") or "deny")
    kinds = ((spec.get("match") or {}).get("kinds")) or [{"apiGroups": ["*"], "kinds": ["*"]}]
    criteria = MatchResources(resource_rules=tuple(_rules_of_kinds(kinds, discovery)))
    if action != "scoped":
        actions = () if action == "deny" else (action,)
        return promoted_object(value, actions, {"spec": {"enforcementAction": "deny"}}, criteria, _UNLOGGED)
    scoped = spec.get("scopedEnforcementActions") or []
    if not any(_points(each) & {VALIDATION, NATIVE, "*"} for each in scoped):
        return "`{}` does not act at admission: no entry of its scopedEnforcementActions names the webhook"
    weak = {index: str(each.get("action")) for index, each in enumerate(scoped) if _is_weak(each)}
    patch = [replacement(f"/spec/scopedEnforcementActions/{index}/action", "deny") for index in weak]
    return promoted_object(value, weak.values(), patch, criteria, _UNLOGGED)


def _is_weak(scoped: JSON) -> bool:
    """Return whether an action at the webhook is other than deny."""
    return bool(_points(scoped) & {VALIDATION, "*"}) and scoped.get("action") != "deny"


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

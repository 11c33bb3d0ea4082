"""Rules for pod controllers, generated from rules for pods (`pkg/autogen/v1`)."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from replay.identity import IdentityMemo
from replay.kyverno.rules.go_value import as_map
from replay.kyverno.rules.substitution import shift_references
from replay.kyverno.wildcard import kinds_of, names_kind

ANNOTATION = "pod-policies.kyverno.io/autogen-controllers"
_TEMPLATED = ("DaemonSet", "Deployment", "Job", "ReplicaSet", "ReplicationController", "StatefulSet")
_CONTROLLERS = frozenset({*_TEMPLATED, "CronJob"})
_SELECTORS = {
    "DaemonSet": "apps/v1/DaemonSet",
    "Deployment": "apps/v1/Deployment",
    "Job": "batch/v1/Job",
    "StatefulSet": "apps/v1/StatefulSet",
    "ReplicaSet": "apps/v1/ReplicaSet",
    "ReplicationController": "v1/ReplicationController",
    "CronJob": "batch/v1/CronJob",
    "Pod": "v1/Pod",
}
_PLACES = {"template": "spec.template", "jobTemplate": "spec.jobTemplate.spec.template"}
_LONGEST_NAME = 63
Rule = Mapping[str, Any]


def compute_rules(policy: Mapping[str, Any], kind: str) -> Sequence[Rule]:
    """Return the rules of a policy, with those generated for a kind of controller (`ComputeRules`).

    An empty `kind` means all controllers.
    """
    spec = as_map(policy.get("spec"))
    rules: Sequence[Rule] = spec.get("rules") or ()
    applies, controllers = _desired_controllers(rules)
    annotations = as_map(as_map(policy.get("metadata")).get("annotations"))
    if applies and ANNOTATION in annotations:
        controllers = frozenset(str(annotations[ANNOTATION]).split(","))
    if kind and kind not in controllers:
        return rules
    asked = kind or ",".join(sorted(controllers))
    if asked == "none":
        return rules
    made = [rule for each in rules for rule in _generated_rules(each, asked)]
    if not made:
        return rules
    return [*(rule for rule in rules if not _is_generated(rule)), *made]


class RuleCache:
    """The rules of policies, made once for each policy and kind."""

    def __init__(self) -> None:
        """Start without rules."""
        self._made: IdentityMemo[Sequence[Rule]] = IdentityMemo()

    def rules_for(self, policy: Mapping[str, Any], kind: str) -> Sequence[Rule]:
        """Return the result of `compute_rules`, computed once for each policy and kind."""
        made = self._made.get((policy,), kind)
        return self._made.put((policy,), compute_rules(policy, kind), kind) if made is None else made


def _is_generated(rule: Rule) -> bool:
    return str(rule.get("name") or "").startswith("autogen-")


def _desired_controllers(rules: Sequence[Rule]) -> tuple[bool, frozenset[str]]:
    """Return whether rules can be generated at all (`CanAutoGen`), and for which controllers."""
    needed = False
    for rule in rules:
        mutation = as_map(rule.get("mutate"))
        if rule.get("generate") or mutation.get("patchesJson6902"):
            return False, frozenset({"none"})
        if any(each.get("patchesJson6902") for each in mutation.get("foreach") or ()):
            return False, frozenset({"none"})
        for block in (as_map(rule.get("match")), as_map(rule.get("exclude"))):
            for filter_ in (block, *(block.get("any") or ()), *(block.get("all") or ())):
                resources = as_map(filter_.get("resources"))
                if not _is_supported(resources):
                    return False, frozenset({"none"})
                needed = needed or bool({*_CONTROLLERS, "Pod"} & set(resources.get("kinds") or ()))
    return needed, _CONTROLLERS if needed else frozenset({"none"})


def _is_supported(resources: Mapping[str, Any]) -> bool:
    kinds = resources.get("kinds") or ()
    return not (
        resources.get("name")
        or resources.get("names")
        or resources.get("selector") is not None
        or resources.get("annotations") is not None
        or (len(kinds) > 1 and names_kind(kinds, "Pod"))
    )


def _generated_rules(rule: Rule, controllers: str) -> list[Rule]:
    made = []
    templated = ",".join(each for each in sorted(controllers.split(",")) if each != "CronJob")
    for_templates = _for_controllers(rule, templated)
    if for_templates is not None:
        made.append(_converted(for_templates, "template"))
    if "CronJob" in controllers or "all" in controllers:
        inner = _for_controllers(rule, controllers)
        if inner is not None:
            name = f"autogen-cronjob-{rule.get('name') or ''}"[:_LONGEST_NAME]
            for_jobs = _generated(inner, name, "jobTemplate", "spec/jobTemplate/spec/template", ["CronJob"], every=True)
            if for_jobs is not None:
                made.append(_converted(for_jobs, "jobTemplate"))
    return made


def _for_controllers(rule: Rule, controllers: str) -> dict[str, Any] | None:
    if _is_generated(rule) or not controllers:
        return None
    matched = kinds_of(rule.get("match"))
    excluded = kinds_of(rule.get("exclude"))
    if not names_kind(matched, "Pod") or (excluded and not names_kind(excluded, "Pod")):
        return None
    kinds = sorted(controllers.split(","))
    if controllers == "all":
        kinds = list(_TEMPLATED)
    elif controllers != "none":
        kinds = [each for each in kinds if each in _TEMPLATED] or kinds
    name = f"autogen-{rule.get('name') or ''}"[:_LONGEST_NAME]
    return _generated(rule, name, "template", "spec/template", kinds, every=False)


def _generated(rule: Rule, name: str, key: str, shift: str, kinds: list[str], *, every: bool) -> dict[str, Any] | None:
    """Return the rule with its contents moved into the pod template (`generateRule`), or None if that is impossible."""
    made = {**copy.deepcopy(dict(rule)), "name": name}
    selectors = [_SELECTORS.get(kind, kind) for kind in kinds]
    for field in ("match", "exclude"):
        if made.get(field) is not None:
            made[field] = _with_kinds(made[field], selectors, every=every, always=field == "match")
    if made.get("mutate") is not None:
        mutation = _deeper_mutation(made["mutate"], key)
        if mutation is not None:
            return {**made, "mutate": mutation}
    if made.get("validate") is not None:
        validation = _deeper_validation(made["validate"], key, shift)
        if validation is not None:
            return {**made, "validate": validation}
    return made if made.get("verifyImages") is not None else None


def _with_kinds(block: dict[str, Any], kinds: list[str], *, every: bool, always: bool) -> dict[str, Any]:
    for field in ("any", "all"):
        if block.get(field):
            filters = [
                {**each, "resources": {**as_map(each.get("resources")), "kinds": kinds}}
                if every or names_kind(as_map(each.get("resources")).get("kinds") or (), "Pod")
                else each
                for each in block[field]
            ]
            return {**block, field: filters}
    resources = as_map(block.get("resources"))
    return {**block, "resources": {**resources, "kinds": kinds}} if always or resources.get("kinds") else block


def _deeper_mutation(mutation: dict[str, Any], key: str) -> dict[str, Any] | None:
    target = mutation.get("patchStrategicMerge")
    if target is not None:
        return {"patchStrategicMerge": {"spec": {key: target}}}
    if mutation.get("foreach"):
        kept = ("list", "context", "preconditions")
        return {
            "foreach": [
                {
                    **{field: each[field] for field in kept if field in each},
                    "patchStrategicMerge": {"spec": {key: each.get("patchStrategicMerge")}},
                }
                for each in mutation["foreach"]
            ]
        }
    return None


def _deeper_validation(validation: dict[str, Any], key: str, shift: str) -> dict[str, Any] | None:
    kept: dict[str, Any] = {
        field: validation[field]
        for field in ("failureAction", "failureActionOverrides", "allowExistingViolations")
        if field in validation
    }

    def message(pivot: str) -> dict[str, Any]:
        text = shift_references(str(validation.get("message") or ""), shift, pivot)
        return {**kept, **({"message": text} if text else {})}

    if validation.get("pattern") is not None:
        return {**message("pattern"), "pattern": {"spec": {key: validation["pattern"]}}}
    if validation.get("deny") is not None:
        return {**message("deny"), "deny": validation["deny"]}
    if validation.get("podSecurity") is not None:
        standard = validation["podSecurity"]
        fields = {field: standard[field] for field in ("level", "version", "exclude") if field in standard}
        return {**message("podSecurity"), "podSecurity": fields}
    if validation.get("anyPattern") is not None:
        patterns = [{"spec": {key: pattern}} for pattern in validation["anyPattern"]]
        return {**message("anyPattern"), "anyPattern": patterns}
    if validation.get("foreach"):
        return {**message("pattern"), "foreach": validation["foreach"]}
    return validation if validation.get("cel") else None


def _converted(rule: dict[str, Any], key: str) -> Rule:
    """Return the rule with the paths of a pod replaced by those of its template (`convertRule`).

    As in Kyverno, the JSON text of the rule is edited, so paths within any text are replaced.
    """
    place = _PLACES[key]
    is_cel = as_map(rule.get("validate")).get("cel") is not None
    prefix = "" if is_cel else "request."
    # As in Kyverno, the paths are replaced in the rule's whole JSON text, messages included.
    text = orjson.dumps(rule).decode()
    for field in ("spec", "metadata"):
        for obj in ("object", "oldObject"):
            path = f"{prefix}{obj}.{field}"
            text = text.replace(path, f"{prefix}{obj}.{place}.{field}")
    return dict(orjson.loads(text))

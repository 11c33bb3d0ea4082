"""The native policies and bindings that Gatekeeper generates from CEL templates and constraints.

See `pkg/drivers/k8scel/transform`. A policy is generated if the template has `generateVAP: true`, or if the cluster
shows that Gatekeeper generated one. A constraint with `scoped` actions has a binding if they name `vap.k8s.io` or all
enforcement points. Then it is enough that the template does not have `generateVAP: false`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from replay.cellib.version import KubernetesVersion
from replay.gatekeeper.naming import VALIDATION
from replay.go.format import quote
from replay.json import JSON
from replay.kube.admissionregistration import (
    ManifestSet,
    MatchResources,
    ParamRef,
    Registration,
    Rule,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)
from replay.manifests.api_object import defaulted_api_objects
from replay.manifests.manifest_set import label_selector, manifest_set_from_objects
from replay.manifests.validation import validate

CONSTRAINTS: Final = "constraints.gatekeeper.sh"
_VERSION: Final = f"{CONSTRAINTS}/v1beta1"
_POINTS: Final = ("vap.k8s.io", "*")
_ACTIONS: Final = {"deny": "Deny", "warn": "Warn", "dryrun": "Audit"}
_OPERATIONS: Final = ("CREATE", "UPDATE", "DELETE", "CONNECT")
_MOST: Final = 253
"""Maximum length of a name."""

ANY_OBJECT: Final = 'has(request.operation) && request.operation == "DELETE" && object == null ? oldObject : object'
PARAMETERS: Final = "!has(params.spec) ? null : !has(params.spec.parameters) ? null: params.spec.parameters"
_MATCH: Final = "!has(params.spec) || !has(params.spec.match) || "
_GLOB: Final = '.matches("^" + string({glob}).replace("*", ".*") + "$")'
_NAMESPACE: Final = "string(each.metadata.namespace)" + _GLOB.format(glob="glob")
_NAME: Final = _GLOB.format(glob="params.spec.match.name")


def _any(condition: str) -> str:
    """Return the expression that the object or the old object meets a condition on `each`."""
    # No list of both: a list literal with an unknown item is unknown as a whole, but `||` can still be true.
    either = (f"({name} != null && ({condition.replace('each.', f'{name}.')}))" for name in ("object", "oldObject"))
    return f"({' || '.join(either)})"


def _in_namespace(condition: str) -> str:
    """Return the expression of a condition on the namespace of `each`, which is true for a cluster-scoped object."""
    return f'(has(each.metadata.namespace) && each.metadata.namespace != "" ? {condition} : true)'


_CONDITIONS: Final = {
    "gatekeeper_internal_match_excluded_namespaces": f"{_MATCH}!has(params.spec.match.excludedNamespaces) || "
    + _any(_in_namespace(f"!params.spec.match.excludedNamespaces.exists(glob, {_NAMESPACE})")),
    "gatekeeper_internal_match_namespaces": f"{_MATCH}!has(params.spec.match.namespaces) || "
    + _any(_in_namespace(f"params.spec.match.namespaces.exists(glob, {_NAMESPACE})")),
    "gatekeeper_internal_match_name": f"{_MATCH}!has(params.spec.match.name) || "
    + _any(
        '(has(each.metadata.generateName) && each.metadata.generateName != "" && params.spec.match.name.endsWith("*") && '
        f"string(each.metadata.generateName){_NAME}) || (has(each.metadata.name) && string(each.metadata.name){_NAME})"
    ),
    "gatekeeper_internal_match_kinds": f"{_MATCH}!has(params.spec.match.kinds) || params.spec.match.kinds.exists(own, "
    '(!has(own.kinds) || size(own.kinds) == 0 || "*" in own.kinds || request.kind.kind in own.kinds) && '
    '(!has(own.apiGroups) || size(own.apiGroups) == 0 || "*" in own.apiGroups || request.kind.group in own.apiGroups))',
}
_EXCLUDED: Final = "gatekeeper_internal_match_global_excluded_namespaces"
_ANY_RULE: Final = {"operations": ["CREATE", "UPDATE"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
_DEFAULT_RULES: Final = (Rule(("CREATE", "UPDATE"), ("*",), ("*",), ("*",)),)


def with_generated_policies(manifests: ManifestSet, version: KubernetesVersion) -> ManifestSet:
    """Return a set with Gatekeeper's generated policies instead of earlier ones."""
    earlier = {each.name for each in manifests.of(ValidatingAdmissionPolicy) if _is_generated(each)}
    templates = {str(each["metadata"].get("name")): each for each in manifests.engine_objects if _source(each)}
    bound: dict[str, list[tuple[JSON, tuple[str, ...]]]] = {}
    for value in manifests.engine_objects:
        name = str(value.get("kind")).lower()
        if str(value.get("apiVersion")).startswith(f"{CONSTRAINTS}/") and name in templates:
            says = _source(templates[name]).get("generateVAP")
            actions = _actions(value, is_wanted=says is True or bool(earlier))
            if actions and says is not False:
                bound.setdefault(name, []).append((value, actions))
    if not bound and not earlier:
        return manifests
    generated = {name: _policy(templates[name], manifests, version) for name in bound}
    policies = [each for each in generated.values() if each is not None]
    constraints = [pair for name, pairs in bound.items() if generated[name] is not None for pair in pairs]

    def is_kept(each: Registration) -> bool:
        if isinstance(each, ValidatingAdmissionPolicyBinding):
            return each.policy_name not in earlier
        return not isinstance(each, ValidatingAdmissionPolicy) or not _is_generated(each)

    made = manifests.filtered(is_kept).with_registrations(
        [*policies, *(_binding(value, actions) for value, actions in constraints)]
    )
    return replace(made, objects=(*manifests.objects, *(value for value, _ in constraints)))


def _is_generated(policy: ValidatingAdmissionPolicy) -> bool:
    """Return whether a policy takes constraints as parameters. Only generated policies do."""
    return policy.param_kind is not None and policy.param_kind.api_version.startswith(f"{CONSTRAINTS}/")


def _source(template: JSON) -> JSON:
    """Return the CEL source of a template, or {} if it has none."""
    if template.get("kind") != "ConstraintTemplate":
        return {}
    targets = (template.get("spec") or {}).get("targets") or [{}]
    codes = targets[0].get("code") or ()
    return next((each.get("source") or {} for each in codes if each.get("engine") == "K8sNativeValidation"), {})


def _actions(constraint: JSON, *, is_wanted: bool) -> tuple[str, ...]:
    """Return the actions of a constraint's binding, or none without a binding (`shouldGenerateVAPB`).

    Gatekeeper makes no binding with an unknown action. The server accepts no repeated action, and not both deny and
    warn.
    """
    spec = constraint.get("spec") or {}
    action = spec.get("enforcementAction") or "deny"
    actions = [action] if is_wanted else []
    if action == "scoped":
        actions = [
            str(each.get("action"))
            for each in spec.get("scopedEnforcementActions") or ()
            if any(point.get("name") in _POINTS for point in each.get("enforcementPoints") or ())
        ]
    if (
        any(each not in _ACTIONS for each in actions)
        or len(set(actions)) < len(actions)
        or {"deny", "warn"} <= set(actions)
    ):
        return ()
    return tuple(_ACTIONS[each] for each in actions)


def _policy(template: JSON, manifests: ManifestSet, version: KubernetesVersion) -> ValidatingAdmissionPolicy | None:
    """Return the policy of a template, or None if the server refuses it.

    See `TemplateToPolicyDefinitionWithWebhookConfig`.
    """
    source, name = _source(template), template["metadata"]["name"]
    configurations = manifests.configurations("validating")
    webhook = next((each for c in configurations for each in c.webhooks if each.name == VALIDATION), None)
    operations = template["spec"]["targets"][0].get("operations") or ()
    rules = _DEFAULT_RULES if webhook is None else _rules(webhook.rules, operations)
    if rules is None:
        return None
    excluded = _excluded(manifests.engine_objects)
    conditions = [
        *(
            {"name": each.get("name"), "expression": each.get("expression")}
            for each in source.get("matchCondition") or ()
        ),
        *({"name": key, "expression": expression} for key, expression in _CONDITIONS.items()),
        *([{"name": _EXCLUDED, "expression": _not_in(excluded)}] if excluded else ()),
        *({"name": each.name, "expression": each.expression} for each in (webhook.match_conditions if webhook else ())),
    ]
    value = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": f"gatekeeper-{name}"},
        "spec": {
            "paramKind": {"apiVersion": _VERSION, "kind": template["spec"]["crd"]["spec"]["names"]["kind"]},
            "matchConstraints": {"resourceRules": [_ANY_RULE]},
            "matchConditions": conditions,
            "validations": [
                {key: each[key] for key in ("expression", "message", "messageExpression") if each.get(key)}
                for each in source.get("validations") or ()
            ],
            "failurePolicy": source.get("failurePolicy") or "Fail",
            "variables": [
                {"name": "anyObject", "expression": ANY_OBJECT},
                {"name": "params", "expression": PARAMETERS},
                *(
                    {"name": each.get("name"), "expression": each.get("expression")}
                    for each in source.get("variables") or ()
                ),
            ],
        },
    }
    (stored,) = defaulted_api_objects([value], version)
    if validate("ValidatingAdmissionPolicy", stored, version)[0]:
        return None
    (policy,) = manifest_set_from_objects((), [stored]).of(ValidatingAdmissionPolicy)
    match = MatchResources(resource_rules=rules)
    if webhook is not None:
        match = MatchResources(
            webhook.namespace_selector, webhook.object_selector, rules, match_policy=webhook.match_policy
        )
    return replace(policy, match_constraints=match)


def _rules(rules: Sequence[Rule], operations: Sequence[str]) -> tuple[Rule, ...] | None:
    """Return the webhook's rules for the operations of a template, or None if a rule has none of them.

    See `convertWebhookRulesToResourceRules`.
    """
    if not operations:
        return tuple(rules)
    wanted = _OPERATIONS if "*" in operations else operations
    found = []
    for rule in rules:
        common = [
            each for each in _OPERATIONS if each in wanted and (each in rule.operations or "*" in rule.operations)
        ]
        if not common:
            return None
        found.append(replace(rule, operations=tuple(common)))
    return tuple(found)


def _excluded(objects: Iterable[JSON]) -> list[str]:
    """Return the namespaces that Gatekeeper's configuration excludes from its webhook, as globs."""
    entries = [
        entry
        for value in objects
        if value.get("kind") == "Config" and str(value.get("apiVersion")).startswith("config.gatekeeper.sh/")
        for entry in (value.get("spec") or {}).get("match") or ()
    ]
    return sorted(
        {
            str(glob)
            for entry in entries
            if {"webhook", "*"} & set(entry.get("processes") or ())
            for glob in entry.get("excludedNamespaces") or ()
        }
    )


def _not_in(globs: Sequence[str]) -> str:
    """Return the expression that the object is not in a namespace of the globs, and is not such a namespace itself."""
    listed = f"[{', '.join(quote(each) for each in globs)}]"
    name = f"!{listed}.exists(glob, string(each.metadata.name)" + _GLOB.format(glob="glob") + ")"
    is_namespace = '(has(each.kind) && each.kind == "Namespace" && has(each.metadata.name))'
    return _any(f"{is_namespace} ? {name} : {_in_namespace(f'!{listed}.exists(glob, {_NAMESPACE})')}")


def _binding(constraint: JSON, actions: tuple[str, ...]) -> ValidatingAdmissionPolicyBinding:
    """Return the binding of a constraint (`ConstraintToBinding`)."""
    kind, name = str(constraint["kind"]).lower(), str(constraint["metadata"]["name"])
    match = (constraint.get("spec") or {}).get("match") or {}
    return ValidatingAdmissionPolicyBinding(
        name=_binding_name(kind, name),
        static=False,
        policy_name=f"gatekeeper-{kind}",
        validation_actions=actions,
        match_resources=MatchResources(
            namespace_selector=label_selector(match.get("namespaceSelector")),
            object_selector=label_selector(match.get("labelSelector")),
        ),
        param_ref=ParamRef(name=name, parameter_not_found_action="Allow"),
    )


def _binding_name(kind: str, name: str) -> str:
    full = f"gatekeeper-{kind}-{name}"
    if len(full) <= _MOST:
        return full
    digest = hashlib.sha256(full.encode()).hexdigest()[:8]
    return f"{full[: _MOST - len(digest) - 1].rstrip('-.')}-{digest}"

"""Conversion of defaulted objects to the typed `ManifestSet`."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from replay.json import JSON
from replay.kube.admissionregistration import (
    AuditAnnotation,
    FailurePolicy,
    LabelSelector,
    LabelSelectorRequirement,
    ManifestSet,
    MatchCondition,
    MatchPolicy,
    MatchResources,
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding,
    MutatingWebhookConfiguration,
    Mutation,
    Origin,
    ParamKind,
    ParamRef,
    Registration,
    Rule,
    ServiceReference,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
    ValidatingWebhookConfiguration,
    Validation,
    Variable,
    Webhook,
    WebhookClientConfig,
    in_order,
)


def manifest_set_from_objects(
    static_objects: Iterable[JSON],
    api_objects: Iterable[JSON] = (),
    *,
    hashes: Mapping[str, str] | None = None,
    origins: Mapping[tuple[str, str], Origin] | None = None,
) -> ManifestSet:
    """Return the set of defaulted `admissionregistration.k8s.io/v1` objects, without objects of other kinds."""
    sources = [(obj, True) for obj in static_objects] + [(obj, False) for obj in api_objects]
    registrations = (_BUILDERS[obj["kind"]](obj, static) for obj, static in sources if obj.get("kind") in _BUILDERS)
    return ManifestSet(in_order(registrations), hashes=dict(hashes or {}), origins=dict(origins or {}))


def label_selector(selector: JSON) -> LabelSelector:
    """Return a `metav1.LabelSelector`. Null and `{}` match everything."""
    selector = selector or {}
    expressions = (
        LabelSelectorRequirement(item["key"], item["operator"], tuple(item.get("values") or ()))
        for item in selector.get("matchExpressions") or ()
    )
    return LabelSelector(dict(selector.get("matchLabels") or {}), tuple(expressions))


def _rule(rule: JSON) -> Rule:
    return Rule(
        operations=tuple(rule.get("operations") or ()),
        api_groups=tuple(rule.get("apiGroups") or ()),
        api_versions=tuple(rule.get("apiVersions") or ()),
        resources=tuple(rule.get("resources") or ()),
        scope=rule.get("scope") or "*",
        resource_names=tuple(rule.get("resourceNames") or ()),
    )


def match_resources(constraints: JSON) -> MatchResources | None:
    """Return `matchConstraints` or `matchResources`, or None if absent."""
    if constraints is None:
        return None
    return MatchResources(
        namespace_selector=label_selector(constraints.get("namespaceSelector")),
        object_selector=label_selector(constraints.get("objectSelector")),
        resource_rules=tuple(map(_rule, constraints.get("resourceRules") or ())),
        exclude_resource_rules=tuple(map(_rule, constraints.get("excludeResourceRules") or ())),
        match_policy=MatchPolicy(constraints.get("matchPolicy") or MatchPolicy.EQUIVALENT),
    )


def _param_kind(param_kind: JSON) -> ParamKind | None:
    return None if param_kind is None else ParamKind(param_kind.get("apiVersion", ""), param_kind.get("kind", ""))


def _param_ref(param_ref: JSON) -> ParamRef | None:
    if param_ref is None:
        return None
    selector = param_ref.get("selector")
    return ParamRef(
        name=param_ref.get("name", ""),
        namespace=param_ref.get("namespace", ""),
        selector=None if selector is None else label_selector(selector),
        parameter_not_found_action=param_ref.get("parameterNotFoundAction"),
    )


def _match_conditions(owner: JSON) -> tuple[MatchCondition, ...]:
    return tuple(MatchCondition(item["name"], item["expression"]) for item in owner.get("matchConditions") or ())


def _variables(spec: JSON) -> tuple[Variable, ...]:
    return tuple(Variable(item["name"], item["expression"]) for item in spec.get("variables") or ())


def _validating_policy(obj: JSON, static: bool) -> ValidatingAdmissionPolicy:
    spec = obj["spec"]
    validations = (
        Validation(item["expression"], item.get("message", ""), item.get("messageExpression", ""), item.get("reason"))
        for item in spec.get("validations") or ()
    )
    annotations = (AuditAnnotation(item["key"], item["valueExpression"]) for item in spec.get("auditAnnotations") or ())
    return ValidatingAdmissionPolicy(
        name=obj["metadata"]["name"],
        static=static,
        failure_policy=FailurePolicy(spec.get("failurePolicy") or FailurePolicy.FAIL),
        match_constraints=match_resources(spec.get("matchConstraints")),
        param_kind=_param_kind(spec.get("paramKind")),
        match_conditions=_match_conditions(spec),
        variables=_variables(spec),
        validations=tuple(validations),
        audit_annotations=tuple(annotations),
    )


def _validating_binding(obj: JSON, static: bool) -> ValidatingAdmissionPolicyBinding:
    spec = obj["spec"]
    return ValidatingAdmissionPolicyBinding(
        name=obj["metadata"]["name"],
        static=static,
        policy_name=spec.get("policyName", ""),
        validation_actions=tuple(spec.get("validationActions") or ()),
        match_resources=match_resources(spec.get("matchResources")),
        param_ref=_param_ref(spec.get("paramRef")),
    )


def _mutation(mutation: JSON) -> Mutation:
    if mutation["patchType"] == "JSONPatch":
        return Mutation("JSONPatch", mutation["jsonPatch"].get("expression", ""))
    return Mutation("ApplyConfiguration", mutation["applyConfiguration"].get("expression", ""))


def _mutating_policy(obj: JSON, static: bool) -> MutatingAdmissionPolicy:
    spec = obj["spec"]
    return MutatingAdmissionPolicy(
        name=obj["metadata"]["name"],
        static=static,
        failure_policy=FailurePolicy(spec.get("failurePolicy") or FailurePolicy.FAIL),
        reinvocation_policy=spec.get("reinvocationPolicy") or "Never",
        match_constraints=match_resources(spec.get("matchConstraints")),
        param_kind=_param_kind(spec.get("paramKind")),
        match_conditions=_match_conditions(spec),
        variables=_variables(spec),
        mutations=tuple(map(_mutation, spec.get("mutations") or ())),
    )


def _mutating_binding(obj: JSON, static: bool) -> MutatingAdmissionPolicyBinding:
    spec = obj["spec"]
    return MutatingAdmissionPolicyBinding(
        name=obj["metadata"]["name"],
        static=static,
        policy_name=spec.get("policyName", ""),
        match_resources=match_resources(spec.get("matchResources")),
        param_ref=_param_ref(spec.get("paramRef")),
    )


def _validating_webhooks(obj: JSON, static: bool) -> ValidatingWebhookConfiguration:
    return ValidatingWebhookConfiguration(obj["metadata"]["name"], static, _webhooks(obj))


def _mutating_webhooks(obj: JSON, static: bool) -> MutatingWebhookConfiguration:
    return MutatingWebhookConfiguration(obj["metadata"]["name"], static, _webhooks(obj))


_BUILDERS: Final[Mapping[str, Callable[[JSON, bool], Registration]]] = {
    "ValidatingAdmissionPolicy": _validating_policy,
    "ValidatingAdmissionPolicyBinding": _validating_binding,
    "MutatingAdmissionPolicy": _mutating_policy,
    "MutatingAdmissionPolicyBinding": _mutating_binding,
    "ValidatingWebhookConfiguration": _validating_webhooks,
    "MutatingWebhookConfiguration": _mutating_webhooks,
}


def _webhooks(obj: JSON) -> tuple[Webhook, ...]:
    return tuple(map(_webhook, obj.get("webhooks") or ()))


def _webhook(webhook: JSON) -> Webhook:
    return Webhook(
        name=webhook["name"],
        client_config=_client_config(webhook["clientConfig"]),
        rules=tuple(map(_rule, webhook.get("rules") or ())),
        failure_policy=FailurePolicy(webhook.get("failurePolicy") or FailurePolicy.FAIL),
        match_policy=MatchPolicy(webhook.get("matchPolicy") or MatchPolicy.EQUIVALENT),
        namespace_selector=label_selector(webhook.get("namespaceSelector")),
        object_selector=label_selector(webhook.get("objectSelector")),
        side_effects=webhook.get("sideEffects") or "None",
        timeout_seconds=webhook.get("timeoutSeconds", 10),
        admission_review_versions=tuple(webhook.get("admissionReviewVersions") or ()),
        reinvocation_policy=webhook.get("reinvocationPolicy") or "Never",
        match_conditions=_match_conditions(webhook),
    )


def _client_config(client_config: JSON) -> WebhookClientConfig:
    service = client_config.get("service")
    return WebhookClientConfig(
        url=client_config.get("url") or "",
        service=None if service is None else _service(service),
        ca_bundle=base64.b64decode(client_config.get("caBundle") or ""),
    )


def _service(service: JSON) -> ServiceReference:
    return ServiceReference(
        namespace=service.get("namespace", ""),
        name=service.get("name", ""),
        path=service.get("path") or "",
        port=service.get("port", 443),
    )

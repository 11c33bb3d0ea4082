"""Validation of policies and bindings (`k8s.io/kubernetes/pkg/apis/admissionregistration/validation`)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from replay.cel.syntax.lexer import RESERVED
from replay.json import JSON
from replay.kube.names import dns1035_label, dns1123_subdomain, path_segment, qualified_name
from replay.manifests.expression import ExpressionKind, Expressions
from replay.manifests.field_error import FieldError, duplicate, forbidden, invalid, not_supported, required
from replay.manifests.validate.match import (
    FAILURE_POLICIES,
    REINVOCATION_POLICIES,
    validate_label_selector,
    validate_match_conditions,
    validate_match_resources,
    validate_mutating_operations,
)
from replay.manifests.validate.metadata import validate_metadata

_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_ACTIONS = ("Audit", "Deny", "Warn")
_NOT_FOUND_ACTIONS = ("Deny", "Allow")
_PATCH_TYPES = ("ApplyConfiguration", "JSONPatch")
_MAX_AUDIT_ANNOTATIONS = 20
_MAX_VALUE_EXPRESSION_BYTES = 5 * 1024
_IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_LINE_BREAK = re.compile(r"[\n\r]")
_NEITHER = "validations or auditAnnotations must contain at least one item"
_DENY_AND_WARN = (
    "must not contain both Deny and Warn (repeating the same validation failure information in the API response and "
    "headers serves no purpose)"
)


def validate_validating_policy(policy: JSON, expressions: Expressions) -> Iterator[FieldError]:
    """Yield the errors of a ValidatingAdmissionPolicy."""
    yield from validate_metadata(policy["metadata"])
    spec = policy["spec"]
    yield from _validate_policy_head(spec)
    yield from validate_match_conditions(spec.get("matchConditions") or [], "spec.matchConditions", expressions)
    yield from _validate_variables(spec, expressions)
    validations, annotations = spec.get("validations") or [], spec.get("auditAnnotations") or []
    if not validations and not annotations:
        yield required("spec.validations", _NEITHER)
        yield required("spec.auditAnnotations", _NEITHER)
    for index, validation in enumerate(validations):
        yield from _validate_validation(validation, f"spec.validations[{index}]", expressions)
    if len(annotations) > _MAX_AUDIT_ANNOTATIONS:
        internal = [{"Key": item["key"], "ValueExpression": item["valueExpression"]} for item in annotations]
        limit = f"must not have more than {_MAX_AUDIT_ANNOTATIONS} auditAnnotations"
        yield invalid("spec.auditAnnotations", internal, limit)
    yield from _validate_audit_annotations(annotations, policy["metadata"].get("name", ""), expressions)


def validate_mutating_policy(policy: JSON, expressions: Expressions) -> Iterator[FieldError]:
    """Yield the errors of a MutatingAdmissionPolicy."""
    yield from validate_metadata(policy["metadata"])
    spec = policy["spec"]
    yield from _validate_policy_head(spec)
    yield from validate_mutating_operations(spec.get("matchConstraints"), "spec.matchConstraints")
    yield from validate_match_conditions(spec.get("matchConditions") or [], "spec.matchConditions", expressions)
    yield from _validate_variables(spec, expressions)
    if not spec.get("mutations"):
        yield required("spec.mutations", "mutations must contain at least one item")
    for index, mutation in enumerate(spec.get("mutations") or []):
        yield from _validate_mutation(mutation, f"spec.mutations[{index}]", expressions)
    reinvocation_policy = spec.get("reinvocationPolicy", "")
    if not reinvocation_policy:
        yield required("spec.reinvocationPolicy")
    elif reinvocation_policy not in REINVOCATION_POLICIES:
        yield not_supported("spec.reinvocationPolicy", reinvocation_policy, REINVOCATION_POLICIES)


def validate_validating_binding(binding: JSON) -> Iterator[FieldError]:
    """Yield the errors of a ValidatingAdmissionPolicyBinding."""
    yield from validate_metadata(binding["metadata"])
    yield from _validate_binding_head(binding["spec"])
    yield from _validate_actions(binding["spec"].get("validationActions") or [], "spec.validationActions")


def validate_mutating_binding(binding: JSON) -> Iterator[FieldError]:
    """Yield the errors of a MutatingAdmissionPolicyBinding."""
    yield from validate_metadata(binding["metadata"])
    yield from _validate_binding_head(binding["spec"])
    yield from validate_mutating_operations(binding["spec"].get("matchResources"), "spec.matchResources")


def _validate_policy_head(spec: JSON) -> Iterator[FieldError]:
    """Yield the errors of the fields that both kinds of policies have: failurePolicy, paramKind, matchConstraints."""
    if spec["failurePolicy"] not in FAILURE_POLICIES:
        yield not_supported("spec.failurePolicy", spec["failurePolicy"], FAILURE_POLICIES)
    if (param_kind := spec.get("paramKind")) is not None:
        yield from _validate_param_kind(param_kind, "spec.paramKind")
    constraints = spec.get("matchConstraints")
    if constraints is None:
        yield required("spec.matchConstraints")
        return
    yield from validate_match_resources(constraints, "spec.matchConstraints")
    if not constraints.get("resourceRules"):
        yield required("spec.matchConstraints.resourceRules")


def _validate_param_kind(param_kind: JSON, path: str) -> Iterator[FieldError]:
    api_version, kind = param_kind.get("apiVersion", ""), param_kind.get("kind", "")
    group, _, version = api_version.rpartition("/")
    if not api_version:
        yield required(f"{path}.apiVersion")
    elif "/" in group:
        yield invalid(f"{path}.apiVersion", api_version, f"unexpected GroupVersion string: {api_version}")
    else:
        if group and (problems := dns1123_subdomain(group)):
            yield invalid(f"{path}.apiVersion", group, ",".join(problems))
        if not version:
            yield invalid(f"{path}.apiVersion", api_version, "version must be specified")
        elif problems := dns1035_label(version):
            yield invalid(f"{path}.apiVersion", version, ",".join(problems))
    if not kind:
        yield required(f"{path}.kind")
    elif problems := dns1035_label(kind.lower()):
        complaint = f"may have mixed case, but should otherwise match: {','.join(problems)}"
        yield invalid(f"{path}.kind", kind, complaint)


def _validate_variables(spec: JSON, expressions: Expressions) -> Iterator[FieldError]:
    for index, variable in enumerate(spec.get("variables") or []):
        path, name = f"spec.variables[{index}]", variable["name"]
        if not name.strip():
            yield required(f"{path}.name", "name is not specified")
        elif not (_IDENTIFIER.fullmatch(name) and name not in RESERVED):
            yield invalid(f"{path}.name", name, "must be a valid CEL identifier")
        if not variable["expression"].strip():
            yield required(f"{path}.expression", "expression is not specified")
        else:
            yield from expressions.declare_variable(name, variable["expression"], f"{path}.expression")


def _validate_validation(validation: JSON, path: str, expressions: Expressions) -> Iterator[FieldError]:
    expression, message = validation["expression"], validation.get("message", "")
    message_expression = validation.get("messageExpression", "")
    if not expression.strip():
        yield required(f"{path}.expression", "expression is not specified")
    else:
        yield from expressions.check(ExpressionKind.VALIDATION, expression, f"{path}.expression")
    if message_expression and not message_expression.strip():
        yield invalid(f"{path}.messageExpression", message_expression, "must be non-empty if specified")
    elif message_expression:
        kind = ExpressionKind.MESSAGE_EXPRESSION
        yield from expressions.check(kind, message_expression, f"{path}.messageExpression")
    if message and not message.strip():
        yield invalid(f"{path}.message", message, "must be non-empty if specified")
    elif _LINE_BREAK.search(message.strip()):
        yield invalid(f"{path}.message", message, "must not contain line breaks")
    reason = validation.get("reason")
    if reason is not None and reason not in _REASONS:
        yield not_supported(f"{path}.reason", reason, _REASONS)


def _validate_audit_annotations(
    annotations: list[JSON], policy_name: str, expressions: Expressions
) -> Iterator[FieldError]:
    keys: set[str] = set()
    for index, annotation in enumerate(annotations):
        path, key = f"spec.auditAnnotations[{index}]", annotation["key"]
        if not policy_name:
            yield invalid(f"{path}.key", key, "requires metadata.name be non-empty")
        else:
            qualified = f"{policy_name}/{key}"
            for problem in qualified_name(qualified):
                yield invalid(f"{path}.key", qualified, problem)
        yield from _validate_value_expression(annotation, f"{path}.valueExpression", expressions)
        if key in keys:
            yield duplicate(f"{path}.key", key)
        keys.add(key)


def _validate_value_expression(annotation: JSON, path: str, expressions: Expressions) -> Iterator[FieldError]:
    written = annotation["valueExpression"]
    expression = written.strip()
    if not expression:
        yield required(path, "valueExpression is not specified")
    elif len(expression.encode()) > _MAX_VALUE_EXPRESSION_BYTES:
        # The server reports a value that is too long as a missing one.
        yield required(path, f"must not exceed {_MAX_VALUE_EXPRESSION_BYTES} bytes in length")
    else:
        kind = ExpressionKind.AUDIT_ANNOTATION
        yield from expressions.check(kind, expression, path, shown=written)


def _validate_mutation(mutation: JSON, path: str, expressions: Expressions) -> Iterator[FieldError]:
    patch_type = mutation["patchType"]
    if not patch_type:
        yield required(f"{path}.patchType")
        return
    if patch_type not in _PATCH_TYPES:
        yield not_supported(f"{path}.patchType", patch_type, _PATCH_TYPES)
        return
    own, other, kind = "applyConfiguration", "jsonPatch", ExpressionKind.APPLY_CONFIGURATION
    if patch_type == "JSONPatch":
        own, other, kind = other, own, ExpressionKind.JSON_PATCH
    if mutation.get(own) is None:
        yield required(f"{path}.{own}", f"must be specified when patchType is {patch_type}")
    elif not (expression := mutation[own].get("expression", "").strip()):
        yield required(f"{path}.{own}.expression")
    else:
        at = f"{path}.{own}.expression"
        yield from expressions.check(kind, expression, at)
    if mutation.get(other) is not None:
        # The server shows the field's name in braces instead of its value.
        yield invalid(f"{path}.{other}", f"{{{other}}}", f"must not be specified when patchType is {patch_type}")


def _validate_binding_head(spec: JSON) -> Iterator[FieldError]:
    """Yield the errors of the fields that both kinds of bindings have: policyName, paramRef, matchResources."""
    policy_name = spec.get("policyName", "")
    if not policy_name:
        yield required("spec.policyName")
    for problem in dns1123_subdomain(policy_name) if policy_name else ():
        yield invalid("spec.policyName", policy_name, problem)
    if (param_ref := spec.get("paramRef")) is not None:
        yield from _validate_param_ref(param_ref, "spec.paramRef")
    yield from validate_match_resources(spec.get("matchResources"), "spec.matchResources")


def _validate_param_ref(param_ref: JSON, path: str) -> Iterator[FieldError]:
    name, selector = param_ref.get("name", ""), param_ref.get("selector")
    exclusive = "name and selector are mutually exclusive"
    for problem in path_segment(name):
        yield invalid(f"{path}.name", name, problem)
    if name and selector is not None:
        yield forbidden(f"{path}.name", exclusive)
    if selector is not None:
        yield from validate_label_selector(selector, f"{path}.selector")
        if name:
            yield forbidden(f"{path}.selector", exclusive)
    if not name and selector is None:
        yield required(path, "one of name or selector must be specified")
    action = param_ref.get("parameterNotFoundAction") or ""
    if not action:
        yield required(f"{path}.parameterNotFoundAction")
    elif action not in _NOT_FOUND_ACTIONS:
        yield not_supported(f"{path}.parameterNotFoundAction", action, _NOT_FOUND_ACTIONS)


def _validate_actions(actions: list[str], path: str) -> Iterator[FieldError]:
    earlier: set[str] = set()
    for index, action in enumerate(actions):
        if action not in _ACTIONS:
            yield not_supported(f"{path}[{index}]", action, _ACTIONS)
        if action in earlier:
            yield duplicate(f"{path}[{index}]", action)
        earlier.add(action)
    if {"Deny", "Warn"} <= earlier:
        yield invalid(path, actions, _DENY_AND_WARN)
    if not actions:
        yield required(path, "at least one validation action is required")

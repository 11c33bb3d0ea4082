"""Validation by kind, and the wording of errors in earlier server versions. The rules are the same in all versions.

Wordings are from `k8s.io/kubernetes/pkg/apis/admissionregistration/validation`, and
`k8s.io/apimachinery/pkg/util/validation` for keys and values of labels.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from msgspec.structs import replace

from replay.cel.syntax.lexer import RESERVED
from replay.cellib.version import KubernetesVersion
from replay.go.url import URLError, from_bytes, parse_url
from replay.json import JSON
from replay.kube.names import WORDING, dns1035_label, dns1123_subdomain, path_segment, qualified_name, wording_of
from replay.manifests.expression import CheckedExpression, ExpressionKind, Expressions
from replay.manifests.finding import FieldError, duplicate, forbidden, invalid, not_supported, required
from replay.manifests.match_validation import (
    FAILURE_POLICIES,
    MATCH_POLICIES,
    REINVOCATION_POLICIES,
    validate_label_selector,
    validate_match_conditions,
    validate_match_resources,
    validate_metadata,
    validate_mutating_operations,
    validate_rule,
)

# Validation of policies and bindings (`k8s.io/kubernetes/pkg/apis/admissionregistration/validation`).

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


def _validate_validating_policy(policy: JSON, expressions: Expressions) -> Iterator[FieldError]:
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
        # The error prints the internal Go type, whose fields have their Go names.
        internal = [{"Key": item["key"], "ValueExpression": item["valueExpression"]} for item in annotations]
        limit = f"must not have more than {_MAX_AUDIT_ANNOTATIONS} auditAnnotations"
        yield invalid("spec.auditAnnotations", internal, limit)
    yield from _validate_audit_annotations(annotations, policy["metadata"].get("name", ""), expressions)


def _validate_mutating_policy(policy: JSON, expressions: Expressions) -> Iterator[FieldError]:
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


def _validate_validating_binding(binding: JSON) -> Iterator[FieldError]:
    """Yield the errors of a ValidatingAdmissionPolicyBinding."""
    yield from validate_metadata(binding["metadata"])
    yield from _validate_binding_head(binding["spec"])
    yield from _validate_actions(binding["spec"].get("validationActions") or [], "spec.validationActions")


def _validate_mutating_binding(binding: JSON) -> Iterator[FieldError]:
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


# Validation of webhook configurations.
# See `k8s.io/kubernetes/pkg/apis/admissionregistration/validation` and `k8s.io/apiserver/pkg/util/webhook`.

_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_REVIEW_VERSIONS = ("v1", "v1beta1")
_URL_FORM = "; desired format: https://host[/path]"


def _validate_webhook_configuration(configuration: JSON, expressions: Expressions) -> Iterator[FieldError]:
    """Yield the errors of a ValidatingWebhookConfiguration or MutatingWebhookConfiguration."""
    yield from validate_metadata(configuration["metadata"])
    names: set[str] = set()
    for index, webhook in enumerate(configuration.get("webhooks") or []):
        path = f"webhooks[{index}]"
        yield from _validate_webhook(webhook, path, expressions)
        versions = webhook.get("admissionReviewVersions") or []
        yield from _validate_review_versions(versions, f"{path}.admissionReviewVersions")
        if webhook["name"] in names:
            yield duplicate(f"{path}.name", webhook["name"])
        if webhook["name"]:
            names.add(webhook["name"])


def _validate_webhook(webhook: JSON, path: str, expressions: Expressions) -> Iterator[FieldError]:
    yield from _validate_name(webhook["name"], f"{path}.name")
    for index, rule in enumerate(webhook.get("rules") or []):
        yield from validate_rule(rule, f"{path}.rules[{index}]")
    yield from _validate_enum(webhook, "failurePolicy", FAILURE_POLICIES, path)
    yield from _validate_enum(webhook, "matchPolicy", MATCH_POLICIES, path)
    if webhook.get("sideEffects") is None:
        yield required(f"{path}.sideEffects", f"must specify one of {', '.join(_SIDE_EFFECTS)}")
    yield from _validate_enum(webhook, "sideEffects", _SIDE_EFFECTS, path)
    if not 1 <= webhook["timeoutSeconds"] <= 30:
        complaint = "the timeout value must be between 1 and 30 seconds"
        yield invalid(f"{path}.timeoutSeconds", webhook["timeoutSeconds"], complaint)
    for selector in ("namespaceSelector", "objectSelector"):
        yield from validate_label_selector(webhook[selector], f"{path}.{selector}")
    yield from _validate_enum(webhook, "reinvocationPolicy", REINVOCATION_POLICIES, path)
    yield from _validate_client_config(webhook["clientConfig"], f"{path}.clientConfig")
    yield from validate_match_conditions(webhook.get("matchConditions") or [], f"{path}.matchConditions", expressions)


def _validate_enum(webhook: JSON, field: str, supported: tuple[str, ...], path: str) -> Iterator[FieldError]:
    value = webhook.get(field)
    if value is not None and value not in supported:
        yield not_supported(f"{path}.{field}", value, supported)


def _validate_name(name: str, path: str) -> Iterator[FieldError]:
    if not name:
        yield required(path)
    elif problems := dns1123_subdomain(name):
        yield invalid(path, name, ",".join(problems))
    elif name.count(".") < 2:
        yield invalid(path, name, "should be a domain with at least three segments separated by dots")


def _validate_review_versions(versions: list[str], path: str) -> Iterator[FieldError]:
    known_versions = ", ".join(_REVIEW_VERSIONS)
    if not versions:
        yield required(path, f"must specify one of {known_versions}")
        return
    earlier: set[str] = set()
    for index, version in enumerate(versions):
        if version in earlier:
            yield invalid(f"{path}[{index}]", version, "duplicate version")
            continue
        earlier.add(version)
        for problem in dns1035_label(version):
            yield invalid(f"{path}[{index}]", version, problem)
    if not earlier.intersection(_REVIEW_VERSIONS):
        yield invalid(path, versions, f"must include at least one of {known_versions}")


def _validate_client_config(client_config: JSON, path: str) -> Iterator[FieldError]:
    url, service = client_config.get("url"), client_config.get("service")
    if (url is None) == (service is None):
        yield required(path, "exactly one of url or service is required")
    elif url is not None:
        yield from _validate_url(url, f"{path}.url")
    else:
        yield from _validate_service(service, f"{path}.service")


def _validate_url(text: str, path: str) -> Iterator[FieldError]:
    try:
        url = parse_url(text)
    except URLError as error:
        # The server reports an invalid URL as a missing one.
        yield required(path, f"url must be a valid URL: {error}{_URL_FORM}")
        return
    if url.scheme != "https":
        yield invalid(path, url.scheme, f"'https' is the only allowed URL scheme{_URL_FORM}")
    if not url.host:
        yield invalid(path, from_bytes(url.host), f"host must be specified{_URL_FORM}")
    if url.user_info is not None:
        yield invalid(path, from_bytes(url.user_info), "user information is not permitted in the URL")
    if url.fragment:
        yield invalid(path, from_bytes(url.fragment), "fragments are not permitted in the URL")
    if url.raw_query:
        yield invalid(path, from_bytes(url.raw_query), "query parameters are not permitted in the URL")


def _validate_service(service: JSON, path: str) -> Iterator[FieldError]:
    # The server passes name and namespace in the wrong order, so each is missed under the other's path.
    if not service["namespace"]:
        yield required(f"{path}.name")
    if not service["name"]:
        yield required(f"{path}.namespace")
    if not 1 <= service["port"] <= 65535:
        complaint = "port is not valid: must be between 1 and 65535, inclusive"
        yield invalid(f"{path}.port", service["port"], complaint)
    yield from _validate_service_path(service.get("path") or "", f"{path}.path")


def _validate_service_path(url_path: str, path: str) -> Iterator[FieldError]:
    if url_path in ("", "/"):
        return
    if url_path == "//":
        yield invalid(path, url_path, "segment[0] may not be empty")
        return
    if not url_path.startswith("/"):
        yield invalid(path, url_path, "must start with a '/'")
    for index, segment in enumerate(url_path[1:].removesuffix("/").split("/")):
        if not segment:
            yield invalid(path, url_path, f"segment[{index}] may not be empty")
            continue
        for problem in dns1123_subdomain(segment):
            yield invalid(path, url_path, f"segment[{index}]: {problem}")


def validate(
    kind: str, obj: JSON, version: KubernetesVersion
) -> tuple[list[FieldError], tuple[CheckedExpression, ...]]:
    """Return the errors of a defaulted object, and its compiled expressions."""
    has_params = kind.endswith("Policy") and obj["spec"].get("paramKind") is not None
    mutation = kind == "MutatingAdmissionPolicy"
    composed = mutation or (kind == "ValidatingAdmissionPolicy" and bool(obj["spec"].get("variables")))
    expressions = Expressions(version, has_params=has_params, composed=composed)
    if kind == "ValidatingAdmissionPolicy":
        errors = _validate_validating_policy(obj, expressions)
    elif kind == "MutatingAdmissionPolicy":
        errors = _validate_mutating_policy(obj, expressions)
    elif kind == "ValidatingAdmissionPolicyBinding":
        errors = _validate_validating_binding(obj)
    elif kind == "MutatingAdmissionPolicyBinding":
        errors = _validate_mutating_binding(obj)
    else:
        errors = _validate_webhook_configuration(obj, expressions)
    return [error_of_version(error, kind, version) for error in errors], tuple(expressions.checked)


class _Rewording(NamedTuple):
    """Old wording `old` for the end `new` of an error.

    It was used before minor version `since`, for fields with this name.
    """

    since: int
    field: str
    new: str
    old: str


_REWORDED = (
    _Rewording(34, ".name", "must be a valid CEL identifier", "name is not a valid CEL identifier"),
    _Rewording(34, ".message", "must be non-empty if specified", "message must be non-empty if specified"),
    _Rewording(34, ".message", "must not contain line breaks", "message must not contain line breaks"),
)

_MATCH_RESOURCES = "spec.matchResources"
_MISSPELT_UNTIL = 31
_MATCH_RESOUCES = "spec.matchResouces"
"""The path of a binding's matchResources, as early errors misspelled it."""

_LENGTH = re.compile(rf"(must be no more than \d+) {WORDING.unit}\Z")


def error_of_version(error: FieldError, kind: str, version: KubernetesVersion) -> FieldError:
    """Return an error of an object in the wording of a server version."""
    body = error.body
    for each in _REWORDED:
        if version.minor < each.since and error.path.endswith(each.field) and body.endswith(f": {each.new}"):
            body = body.removesuffix(each.new) + each.old
    words = wording_of(version.minor)
    if words is not WORDING:
        body = _LENGTH.sub(rf"\1 {words.unit}", body)
        head, separator, after = body.rpartition(f": {WORDING.key} ")
        body = f"{head}: {words.key} {after}" if separator else body
    shown = ""
    if version.minor <= _MISSPELT_UNTIL and kind.endswith("Binding") and error.path.startswith(_MATCH_RESOURCES):
        shown = _MATCH_RESOUCES + error.path.removeprefix(_MATCH_RESOURCES)
    return error if body is error.body and not shown else replace(error, body=body, shown_path=shown)

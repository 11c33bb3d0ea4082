"""Validation of selectors, rules and match conditions, which policies, bindings and webhooks share."""

from __future__ import annotations

from collections.abc import Iterator

from replay.json import JSON
from replay.kube.names import dns1123_subdomain, label_value, masked_prefix, path_segment, qualified_name
from replay.manifests.expression import ExpressionKind, Expressions
from replay.manifests.finding import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
)

# Validation of `metadata` (`k8s.io/apimachinery/pkg/api/validation/objectmeta.go`), for cluster-scoped objects.

_MAX_ANNOTATION_BYTES = 256 * 1024
_MAX_MANAGER_BYTES, _MAX_SUBRESOURCE_BYTES = 128, 256
_EXCLUSIVE_FINALIZERS = ("foregroundDeletion", "orphan")


def validate_metadata(metadata: JSON) -> Iterator[FieldError]:
    """Yield the errors of `metadata`. Maps are read in the order of their keys. The server's order is random."""
    path = "metadata"
    if generate_name := metadata.get("generateName", ""):
        for problem in dns1123_subdomain(masked_prefix(generate_name)):
            yield invalid(f"{path}.generateName", generate_name, problem)
    name = metadata.get("name", "")
    if not name:
        yield required(f"{path}.name", "name or generateName is required")
    else:
        for problem in dns1123_subdomain(name):
            yield invalid(f"{path}.name", name, problem)
    if metadata.get("namespace"):
        yield forbidden(f"{path}.namespace", "not allowed on this type")
    if metadata.get("generation", 0) < 0:
        yield invalid(f"{path}.generation", metadata["generation"], "must be greater than or equal to 0")
    yield from _validate_labels(metadata.get("labels"), f"{path}.labels")
    yield from _validate_annotations(metadata.get("annotations") or {}, f"{path}.annotations")
    yield from _validate_owner_references(metadata.get("ownerReferences") or [], f"{path}.ownerReferences")
    yield from _validate_finalizers(metadata.get("finalizers") or [], f"{path}.finalizers")
    for index, entry in enumerate(metadata.get("managedFields") or []):
        yield from _validate_managed_fields(entry, f"{path}.managedFields[{index}]")


def _validate_labels(labels: JSON, path: str) -> Iterator[FieldError]:
    """Yield the errors of keys and values of labels, or of a selector's `matchLabels`."""
    for key in sorted(labels or {}):
        for problem in qualified_name(key):
            yield invalid(path, key, problem)
        for problem in label_value(labels[key]):
            yield invalid(path, labels[key], problem)


def _validate_annotations(annotations: dict[str, str], path: str) -> Iterator[FieldError]:
    for key in sorted(annotations):
        # Unlike labels, annotations may have upper case in the prefix of their keys (`ValidateAnnotations`).
        for problem in qualified_name(key.lower()):
            yield invalid(path, key, problem)
    # Go's `len` counts bytes.
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > _MAX_ANNOTATION_BYTES:
        yield too_long(path, _MAX_ANNOTATION_BYTES)


def _validate_owner_references(references: list[JSON], path: str) -> Iterator[FieldError]:
    first_controller = ""
    for index, reference in enumerate(references):
        yield from _validate_owner_reference(reference, f"{path}[{index}]")
        if not reference.get("controller"):
            continue
        controller = f"{reference['kind']}/{reference['name']}"
        if first_controller:
            detail = f'Found "true" in references for {first_controller} and {controller}'
            yield invalid(path, references, f"Only one reference can have Controller set to true. {detail}")
        first_controller = first_controller or controller


def _validate_owner_reference(reference: JSON, path: str) -> Iterator[FieldError]:
    api_version = reference["apiVersion"]
    group, _, version = api_version.rpartition("/")
    if not api_version:
        yield required(f"{path}.apiVersion", "must not be empty")
    elif not version or "/" in group:
        yield invalid(f"{path}.apiVersion", api_version, "must be <group>/<version> or <version>")
    for name in ("kind", "name", "uid"):
        if not reference[name]:
            yield required(f"{path}.{name}", "must not be empty")
    if (group, version, reference["kind"]) == ("", "v1", "Event"):
        yield invalid(path, reference, "/v1, Kind=Event is disallowed from being an owner")


def _validate_finalizers(finalizers: list[str], path: str) -> Iterator[FieldError]:
    for finalizer in finalizers:
        for problem in qualified_name(finalizer):
            yield invalid(path, finalizer, problem)
    if all(finalizer in finalizers for finalizer in _EXCLUSIVE_FINALIZERS):
        yield invalid(path, finalizers, "finalizer orphan and foregroundDeletion cannot be both set")


def _validate_managed_fields(entry: JSON, path: str) -> Iterator[FieldError]:
    operation = entry.get("operation", "")
    if not operation:
        yield required(f"{path}.operation", "must not be empty")
    elif operation not in ("Apply", "Update"):
        yield not_supported(f"{path}.operation", operation, ("Apply", "Update"))
    if entry.get("fieldsType", "FieldsV1") != "FieldsV1":
        yield invalid(f"{path}.fieldsType", entry["fieldsType"], "must be `FieldsV1`")
    yield from _validate_manager(entry.get("manager", ""), f"{path}.manager")
    if len(entry.get("subresource", "").encode()) > _MAX_SUBRESOURCE_BYTES:
        yield too_long(f"{path}.subresource", _MAX_SUBRESOURCE_BYTES)


def _validate_manager(manager: str, path: str) -> Iterator[FieldError]:
    if len(manager.encode()) > _MAX_MANAGER_BYTES:
        yield too_long(path, _MAX_MANAGER_BYTES)
    for at, character in enumerate(manager):
        if not character.isprintable():
            # `range` over a Go string counts bytes.
            offset = len(manager[:at].encode())
            yield invalid(path, manager, f"invalid character U+{ord(character):04X} (at position {offset})")


FAILURE_POLICIES = ("Fail", "Ignore")
MATCH_POLICIES = ("Equivalent", "Exact")
REINVOCATION_POLICIES = ("IfNeeded", "Never")
MUTATING_OPERATIONS = ("*", "CONNECT", "CREATE", "UPDATE")
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES = ("*", "Cluster", "Namespaced")
_MAX_MATCH_CONDITIONS = 64


def validate_match_resources(match_resources: JSON, path: str) -> Iterator[FieldError]:
    """Yield the errors of `matchConstraints` or `matchResources`, after defaulting. Null is valid."""
    if match_resources is None:
        return
    match_policy = match_resources["matchPolicy"]
    if match_policy not in MATCH_POLICIES:
        yield not_supported(f"{path}.matchPolicy", match_policy, MATCH_POLICIES)
    for selector in ("namespaceSelector", "objectSelector"):
        yield from validate_label_selector(match_resources[selector], f"{path}.{selector}")
    for rules in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(match_resources.get(rules) or []):
            yield from _validate_named_rule(rule, f"{path}.{rules}[{index}]")


def validate_mutating_operations(match_resources: JSON, path: str) -> Iterator[FieldError]:
    """Yield an error for DELETE in a mutating policy. The server's path has no index here."""
    for rule in (match_resources or {}).get("resourceRules") or []:
        for operation in rule.get("operations") or []:
            if operation not in MUTATING_OPERATIONS:
                yield not_supported(f"{path}.resourceRules.operations", operation, MUTATING_OPERATIONS)


def validate_label_selector(selector: JSON, path: str) -> Iterator[FieldError]:
    """Yield the errors of a `metav1.LabelSelector`."""
    yield from _validate_labels(selector.get("matchLabels"), f"{path}.matchLabels")
    for index, requirement in enumerate(selector.get("matchExpressions") or []):
        yield from _validate_requirement(requirement, f"{path}.matchExpressions[{index}]")


def _validate_requirement(requirement: JSON, path: str) -> Iterator[FieldError]:
    operator, values = requirement["operator"], requirement.get("values") or []
    if operator in ("In", "NotIn"):
        if not values:
            yield required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            yield forbidden(f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    else:
        yield invalid(f"{path}.operator", operator, "not a valid selector operator", named_type=True)
    for problem in qualified_name(requirement["key"]):
        yield invalid(f"{path}.key", requirement["key"], problem)
    for index, value in enumerate(values):
        for problem in label_value(value):
            yield invalid(f"{path}.values[{index}]", value, problem)


def _validate_named_rule(rule: JSON, path: str) -> Iterator[FieldError]:
    names: set[str] = set()
    for index, name in enumerate(rule.get("resourceNames") or []):
        for problem in path_segment(name):
            yield invalid(f"{path}.resourceNames[{index}]", name, problem)
        if name in names:
            yield duplicate(f"{path}.resourceNames[{index}]", name)
        names.add(name)
    yield from validate_rule(rule, path)


def validate_rule(rule: JSON, path: str) -> Iterator[FieldError]:
    """Yield the errors of a rule with operations, after defaulting."""
    operations = rule.get("operations") or []
    if not operations:
        yield required(f"{path}.operations")
    if len(operations) > 1 and "*" in operations:
        yield invalid(f"{path}.operations", operations, "if '*' is present, must not specify other operations")
    for index, operation in enumerate(operations):
        if operation not in _OPERATIONS:
            yield not_supported(f"{path}.operations[{index}]", operation, _OPERATIONS)
    yield from _validate_wildcards(rule, "apiGroups", "API groups", path)
    yield from _validate_wildcards(rule, "apiVersions", "API versions", path)
    for index, version in enumerate(rule.get("apiVersions") or []):
        if not version:
            yield required(f"{path}.apiVersions[{index}]")
    yield from _validate_resources(rule.get("resources") or [], f"{path}.resources")
    if rule["scope"] not in _SCOPES:
        yield not_supported(f"{path}.scope", rule["scope"], _SCOPES)


def _validate_wildcards(rule: JSON, field: str, what: str, path: str) -> Iterator[FieldError]:
    values = rule.get(field) or []
    if not values:
        yield required(f"{path}.{field}")
    if len(values) > 1 and "*" in values:
        yield invalid(f"{path}.{field}", values, f"if '*' is present, must not specify other {what}")


def _validate_resources(resources: list[str], path: str) -> Iterator[FieldError]:
    """Yield the errors of resources and subresources. A wildcard is in conflict with a later entry that it covers."""
    if not resources:
        yield required(path)
    # As in the server, only the last resource without subresource decides whether there is one beside `*`.
    has_plain_resource = False
    for index, entry in enumerate(resources):
        if not entry:
            yield required(f"{path}[{index}]")
        elif "/" not in entry:
            has_plain_resource = entry != "*"
        else:
            yield from _validate_subresource(entry, resources[:index], f"{path}[{index}]")
    if len(resources) > 1 and "*/*" in resources:
        yield invalid(path, resources, "if '*/*' is present, must not specify other resources")
    if "*" in resources and has_plain_resource:
        yield invalid(path, resources, "if '*' is present, must not specify other resources without subresources")


def _validate_subresource(entry: str, wildcards: list[str], path: str) -> Iterator[FieldError]:
    resource, _, subresource = entry.partition("/")
    for wildcard in (f"{resource}/*", f"*/{subresource}"):
        if wildcard in wildcards:
            yield invalid(path, entry, f"if '{wildcard}' is present, must not specify {entry}")


def validate_match_conditions(conditions: list[JSON], path: str, expressions: Expressions) -> Iterator[FieldError]:
    """Yield the errors of match conditions. Their expressions see neither variables nor each other."""
    if len(conditions) > _MAX_MATCH_CONDITIONS:
        yield too_many(path, len(conditions), _MAX_MATCH_CONDITIONS)
    names: set[str] = set()
    for index, condition in enumerate(conditions):
        at = f"{path}[{index}]"
        expression, name = condition["expression"].strip(), condition["name"]
        if not expression:
            yield required(f"{at}.expression")
        else:
            yield from expressions.check(ExpressionKind.MATCH_CONDITION, expression, f"{at}.expression")
        if not name:
            yield required(f"{at}.name")
        else:
            for problem in qualified_name(name):
                yield invalid(f"{at}.name", name, problem)
            if name in names:
                yield duplicate(f"{at}.name", name)
            names.add(name)

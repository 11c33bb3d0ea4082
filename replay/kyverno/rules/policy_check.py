"""Refusals and warnings of Kyverno's policy webhook for ClusterPolicies and Policies (`pkg/validation/policy`).

Checks that need a cluster are omitted: whether kinds are served, and the permissions of Kyverno's service accounts. The
rules of the types are those of `api/kyverno/v1`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from replay.go.format import aggregate
from replay.json import JSON
from replay.kyverno.rules.autogen import compute_rules
from replay.kyverno.rules.go_value import as_map, with_floats
from replay.kyverno.rules.jmespath.library import Library
from replay.kyverno.rules.json6902 import invalid_operation, read_operations
from replay.kyverno.rules.match_pattern import CONDITION, EQUALITY, EXISTENCE, GLOBAL, NEGATION, parse_anchor
from replay.kyverno.rules.policy_variables import background_problem, variables_problem
from replay.kyverno.rules.response import RuleError
from replay.kyverno.rules.substitution import VARIABLES

Rule = Mapping[str, Any]
_GUIDE = "https://kyverno.io/docs/guides/migration-to-cel/"
_REPLACEMENTS = {
    "ClusterPolicy": "ValidatingPolicy, MutatingPolicy, GeneratingPolicy or ImageValidatingPolicy",
    "Policy": "NamespacedValidatingPolicy and the other namespaced policy types",
    "ClusterCleanupPolicy": "DeletingPolicy",
    "CleanupPolicy": "NamespacedDeletingPolicy",
    "PolicyException": "PolicyException",
}
_OPERATIONS = ("CREATE", "UPDATE", "DELETE", "CONNECT")
_RESERVED = ("images", "request", "serviceAccountName", "serviceAccountNamespace", "element", "elementIndex")
_RESTRICTED_CONTROLS = ("Volume Types", "Privilege Escalation", "Running as Non-root", "Running as Non-root user")
_BODIES = ("pattern", "anyPattern", "deny", "foreach", "cel", "manifests", "podSecurity", "assert")
_ALL_OPERATORS = (
    *(
        "AllIn",
        "AllNotIn",
        "AnyIn",
        "AnyNotIn",
        "DurationGreaterThan",
        "DurationGreaterThanOrEquals",
        "DurationLessThan",
    ),
    *("DurationLessThanOrEquals", "Equal", "Equals", "GreaterThan", "GreaterThanOrEquals", "In", "LessThan"),
    *("LessThanOrEquals", "NotEqual", "NotEquals", "NotIn"),
)
_OLD_OPERATORS = {"In": '["AllIn" "AnyIn"]', "NotIn": '["AllNotIn" "AnyNotIn"]'}
_LABELS = 'labels and annotations supports only string values, "use double quotes around the non string values"'
_METADATA_ALONE = "policy can only deal with the metadata field of the resource if the rule does not match any kind"
_PATTERN_ANCHORS = frozenset({CONDITION, EXISTENCE, EQUALITY, NEGATION, GLOBAL})


def deprecation(kind: str) -> str:
    """Return Kyverno's deprecation warning for an old kind, or an empty text."""
    replacement = _REPLACEMENTS.get(kind)
    if replacement is None:
        return ""
    return (
        f"kyverno.io {kind} is deprecated and will be removed in a future release; migrate to {replacement} "
        f"(policies.kyverno.io), see {_GUIDE}"
    )


def policy_refusal(policy: Mapping[str, Any], library: Library) -> str | None:
    """Return why the webhook refuses a policy, or None. The first reason in the webhook's order counts."""
    policy = with_floats(policy)
    spec, metadata = as_map(policy.get("spec")), as_map(policy.get("metadata"))
    if policy.get("kind") == "ClusterPolicy" and metadata.get("namespace"):
        return "A clusterpolicy should not have the namespace defined"
    background, admission = spec.get("background") is not False, spec.get("admission") is not False
    problem = (background_problem(policy) if background else None) or variables_problem(
        policy, library, background=background
    )
    if problem is not None:
        return problem
    if found := aggregate(_spec_problems(spec, is_namespaced=policy.get("kind") == "Policy")):
        return found
    if not admission and not background:
        return "disabling both admission and background processing is not allowed"
    rules = compute_rules(policy, "")
    if not admission and any(rule.get(kind) for rule in rules for kind in ("mutate", "generate", "verifyImages")):
        return "disabling admission processing is only allowed with validation policies"
    problems = (_kinds_problem(index, rule, background=background) for index, rule in enumerate(rules))
    others = (_rule_problem(index, rule, policy) for index, rule in enumerate(rules))
    return next((each for each in (*problems, *others) if each is not None), None)


def policy_warnings(policy: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each warning of the webhook, with its field."""
    spec = as_map(policy.get("spec"))
    yield "kind", deprecation(str(policy.get("kind")))
    actions = [("spec.validationFailureAction", spec.get("validationFailureAction"))]
    actions += _override_actions("spec.validationFailureActionOverrides", spec.get("validationFailureActionOverrides"))
    for index, rule in enumerate(spec.get("rules") or ()):
        validation, place = as_map(rule.get("validate")), f"spec.rules[{index}].validate"
        actions.append((f"{place}.failureAction", validation.get("failureAction")))
        actions += _override_actions(f"{place}.failureActionOverrides", validation.get("failureActionOverrides"))
        for loop in (validation, *(validation.get("foreach") or ())):
            for condition in _conditions(as_map(loop.get("deny")).get("conditions")):
                operator = str(condition.get("operator"))
                if operator in _OLD_OPERATORS:
                    instead = _OLD_OPERATORS[operator]
                    yield (
                        place,
                        f"Operator {operator} has been deprecated and will be removed soon. Use these instead: {instead}",
                    )
    for field, action in actions:
        if action in ("enforce", "audit"):
            yield field, f"{field}: Validation failure actions enforce/audit are deprecated, use Enforce/Audit instead."


def _override_actions(place: str, overrides: JSON) -> list[tuple[str, JSON]]:
    return [(f"{place}[{index}].action", each.get("action")) for index, each in enumerate(overrides or ())]


def _conditions(value: JSON) -> list[Rule]:
    if isinstance(value, dict):
        return [*(value.get("any") or ()), *(value.get("all") or ())]
    return value if isinstance(value, list) else []


def _spec_problems(spec: Mapping[str, Any], *, is_namespaced: bool) -> Iterator[str]:
    """Yield the errors of the types themselves (`Spec.Validate`), without the invalid value."""
    webhook = as_map(spec.get("webhookConfiguration"))
    for old, new in (("webhookTimeoutSeconds", "timeoutSeconds"), ("failurePolicy", "failurePolicy")):
        if spec.get(old) is not None and webhook.get(new) is not None:
            yield f"spec.{old}: Forbidden: remove the deprecated field and use spec.webhookConfiguration.{new} instead"
    if spec.get("generateExistingOnPolicyUpdate") is not None:
        yield "spec.generateExistingOnPolicyUpdate: Forbidden: remove the deprecated field and use spec.generate[*].generateExisting instead"
    for index, rule in enumerate(spec.get("rules") or ()):
        mutation = as_map(rule.get("mutate"))
        updates = spec.get("mutateExistingOnPolicyUpdate") or mutation.get("mutateExistingOnPolicyUpdate")
        if mutation and updates and not mutation.get("targets"):
            yield f"spec.mutateExistingOnPolicyUpdate: Forbidden: rules[{index}].mutate.targets has to be specified when mutateExistingOnPolicyUpdate is set"
    for place, seconds in (
        ("webhookTimeoutSeconds", spec.get("webhookTimeoutSeconds")),
        ("webhookConfiguration.timeoutSeconds", webhook.get("timeoutSeconds")),
    ):
        if seconds is not None and not 1 <= seconds <= 30:
            yield f"spec.{place}: Invalid value: {seconds:g}: the timeout value must be between 1 and 30 seconds"
    names: set[str] = set()
    for index, rule in enumerate(spec.get("rules") or ()):
        place, name = f"spec.rules[{index}]", str(rule.get("name") or "")
        if name in names:
            yield f"{place}.name: Invalid value: Duplicate rule name: '{name}'"
        names.add(name)
        yield from _type_problems(place, name, rule)
    if is_namespaced and spec.get("validationFailureActionOverrides"):
        yield "spec.validationFailureActionOverrides: Forbidden: Use of validationFailureActionOverrides is supported only with ClusterPolicy"


def _type_problems(place: str, name: str, rule: Rule) -> Iterator[str]:
    kinds = [kind for kind in ("mutate", "generate", "verifyImages") if rule.get(kind)]
    kinds += ["validate"] if rule.get("validate") is not None else []
    if not kinds:
        yield f"{place}: Invalid value: No operation defined in the rule '{name}'.(supported operations: mutate,validate,generate,verifyImages)"
    elif len(kinds) > 1:
        yield f"{place}: Invalid value: Multiple operations defined in the rule '{name}', only one operation (mutate,validate,generate,verifyImages) is allowed per rule"
    matched, excluded = as_map(rule.get("match")).get("any") or (), as_map(rule.get("exclude")).get("any") or ()
    if any(each in excluded for each in matched):
        yield f"{place}: Invalid value: Rule is matching an empty set"
    standard = as_map(as_map(rule.get("validate")).get("podSecurity"))
    for index, exclude in enumerate(standard.get("exclude") or ()):
        if standard.get("level") == "baseline" and exclude.get("controlName") in _RESTRICTED_CONTROLS:
            control = exclude["controlName"]
            yield f'{place}.podSecurity.exclude[{index}].controlName: Invalid value: "{control}": Invalid control name defined at the given level'


def _kinds_problem(index: int, rule: Rule, *, background: bool) -> str | None:
    for block in ("match", "exclude"):
        filters = as_map(rule.get(block))
        places = [
            (f"{block}.{key}[{i}]", each) for key in ("any", "all") for i, each in enumerate(filters.get(key) or ())
        ]
        for place, each in (*places, (block, filters)):
            kinds = as_map(each.get("resources")).get("kinds") or ()
            problem = _wildcard_problem(kinds, rule, background=background) if "*" in kinds else None
            if problem is not None:
                return f"path: spec.rules[{index}].{place}.kinds: {problem}"
    return None


def _wildcard_problem(kinds: JSON, rule: Rule, *, background: bool) -> str | None:
    if background:
        return "wildcard policy not allowed in background mode. Set spec.background=false to disable background mode for this policy rule "
    if len(kinds) > 1:
        return "wildcard policy can not deal with more than one kind"
    if rule.get("generate") or rule.get("verifyImages") or as_map(rule.get("validate")).get("foreach") is not None:
        return "wildcard policy does not support rule type"
    return None if _is_about_metadata(rule) else _METADATA_ALONE


def _is_about_metadata(rule: Rule) -> bool:
    """Return whether a rule reads and changes only the metadata of objects."""
    mutation, validation = as_map(rule.get("mutate")), as_map(rule.get("validate"))
    patterns = [mutation.get("patchStrategicMerge"), validation.get("pattern")]
    patterns += validation["anyPattern"] if isinstance(validation.get("anyPattern"), list) else []
    return all(key == "metadata" for pattern in patterns for key in as_map(pattern))


def _rule_problem(index: int, rule: Rule, policy: Mapping[str, Any]) -> str | None:
    place = f"spec.rules[{index}]"
    return (
        _patch_problem(index, as_map(rule.get("mutate")).get("patchesJson6902"))
        or _match_problem(place, rule)
        or _element_problem(rule)
        or _context_problem(place, rule, is_namespaced=policy.get("kind") == "Policy")
        or _no_kind_problem(rule)
        or _mutation_problem(place, as_map(rule.get("mutate")))
        or _validation_problem(place, rule)
        or _digest_problem(place, rule, as_map(policy.get("spec")))
        or (None if _has_text_labels(rule) else _LABELS)
    )


def _digest_problem(place: str, rule: Rule, spec: Rule) -> str | None:
    """Return the error of a `verifyImages` rule that writes digests without enforcing, or None."""
    action = str(spec.get("validationFailureAction") or "Audit")
    for index, entry in enumerate(rule.get("verifyImages") or ()):
        # Kyverno keeps the action of one entry for the next ones without their own.
        action = str(entry.get("failureAction") or action)
        if action.lower() == "audit" and entry.get("mutateDigest") is not False:
            text = "mutateDigest must be set to false for ‘Audit’ failure action"  # noqa: RUF001 - Kyverno's quotation marks
            return f"{place}.verifyImages[{index}].mutateDigest: Invalid value: true: {text}"
    return None


def _patch_problem(index: int, text: JSON) -> str | None:
    if not text:
        return None
    try:
        operations = read_operations(VARIABLES.sub(_without_variable, str(text)))
    except RuleError as error:
        return f"path must begin with a forward slash: spec.rules[{index}]: {error}"
    for operation in operations:
        path = operation.get("path")
        if operation.get("op") not in ("add", "remove", "replace", "move", "copy", "test"):
            problem = invalid_operation(operation)
        elif not isinstance(path, str) or not path.startswith("/"):
            problem = path if isinstance(path, str) else ""
        else:
            continue
        return f"path must begin with a forward slash: spec.rules[{index}]: {problem}"
    return None


def _without_variable(match: re.Match[str]) -> str:
    """Return a name in place of a variable. The text before the variable belongs to the match."""
    return match.group()[: match.group().index("{{")] + "kyvernojsonpatchvariable"


def _match_problem(place: str, rule: Rule) -> str | None:
    match, exclude = as_map(rule.get("match")), as_map(rule.get("exclude"))
    if (exclude.get("any") or exclude.get("all")) and exclude.get("resources"):
        return f"path: {place}.exclude.: can't specify any/all together with exclude resources"
    if (match.get("any") or match.get("all")) and match.get("resources"):
        return f"path: {place}.match.: can't specify any/all together with match resources"
    for each in match.get("any") or match.get("all") or [match]:
        if not each.get("resources"):
            return f"path: {place}.match.resources.: match resources not specified"
    for path, conditions in (
        ("validate.preconditions", rule.get("preconditions")),
        ("validate.deny.conditions", as_map(as_map(rule.get("validate")).get("deny")).get("conditions")),
    ):
        problem = _conditions_problem(path, conditions) or _operator_problem(path, conditions)
        if problem is not None:
            return f"path: {place}.{problem}"
    return None


def _conditions_problem(path: str, conditions: JSON) -> str | None:
    groups = [(f"{path}.{key}", as_map(conditions).get(key) or ()) for key in ("any", "all")]
    groups = groups if isinstance(conditions, dict) else [(path, conditions or ())]
    for place, group in groups:
        for index, condition in enumerate(group):
            own = f"{place}[{index}]"
            key, value = condition.get("key"), condition.get("value")
            if key is None or value is None or not condition.get("operator"):
                return f"{own}.: entered value of `key`, `value` or `operator` is missing or misspelled"
            if isinstance(key, str) and key.replace(" ", "") == "{{request.operation}}":
                for number, each in enumerate(value if isinstance(value, list) else [value]):
                    shown = f"value[{number}]" if isinstance(value, list) else f"value: {each}"
                    if (
                        isinstance(each, str)
                        and each not in _OPERATIONS
                        and not (each.startswith("{{") and each.endswith("}}"))
                    ):
                        return f"{own}.{shown}: unknown value '{each}' found under the 'value' field. Only the following values are allowed: [CREATE, UPDATE, DELETE, CONNECT]"
    return None


def _operator_problem(path: str, conditions: JSON) -> str | None:
    """Return the error for an unknown operator, or None.

    Kyverno always names the group `any`, and lists the valid operators in random order.
    """
    place = f"{path}.any" if isinstance(conditions, dict) else path
    groups = [conditions.get("any"), conditions.get("all")] if isinstance(conditions, dict) else [conditions]
    for group in groups:
        for index, condition in enumerate(group or ()):
            if condition.get("operator") not in _ALL_OPERATORS:
                listed = " ".join(f'"{each}"' for each in _ALL_OPERATORS)
                return f"{place}[{index}].: entered value of `operator` is invalid. valid values: [{listed}]"
    return None


def _element_problem(rule: Rule) -> str | None:
    """Return the error for `element` outside of a loop, or None."""

    def walk(value: JSON, path: str) -> str | None:
        if isinstance(value, dict):
            return next((found for key, each in value.items() if (found := walk(each, f"{path}/{key}"))), None)
        if isinstance(value, list):
            return next((found for i, each in enumerate(value) if (found := walk(each, f"{path}/{i}"))), None)
        if not isinstance(value, str) or "/foreach/" in path:
            return None
        for match in VARIABLES.finditer(value):
            name = match.group()[match.group().index("{{") :].strip("{} ")
            if name.startswith("element"):
                return f"variable '{name}' present outside of foreach at path {path}"
        return None

    return walk({key: value for key, value in rule.items() if key != "name"}, "")


def _context_problem(place: str, rule: Rule, *, is_namespaced: bool) -> str | None:
    entries = rule.get("context") or ()
    if entries and as_map(rule.get("validate")).get("cel"):
        return f"path: {place}: context variables are not supported for CEL expressions in validate rules"
    for entry in entries:
        problem = _entry_problem(entry, is_namespaced=is_namespaced)
        if problem is not None:
            return f"path: {place}: {problem}"
    return None


def _entry_problem(entry: Rule, *, is_namespaced: bool) -> str | None:
    name = str(entry.get("name") or "")
    if not name:
        return "a name is required for context entries"
    for reserved in _RESERVED:
        if name == reserved or name.startswith(f"{reserved}."):
            return f"entry name {name} is invalid as it conflicts with a pre-defined variable {reserved}"
    config_map, variable = entry.get("configMap"), entry.get("variable")
    if config_map is not None:
        missing = next((field for field in ("name", "namespace") if not config_map.get(field)), None)
        return f"a {missing} is required for configMap context entry" if missing else None
    if entry.get("globalReference") is not None and is_namespaced:
        return "globalReference is not allowed in namespaced policies"
    if as_map(entry.get("apiCall")).get("urlPath") and as_map(entry.get("apiCall")).get("service"):
        return "a URLPath cannot be used for service API calls"
    if variable is not None and not variable.get("jmesPath"):
        if variable.get("value") is None:
            return "a variable must define a value or a jmesPath expression"
        if variable.get("default") is not None:
            return "a variable must define a default value only when a jmesPath expression is defined"
    return None


def _no_kind_problem(rule: Rule) -> str | None:
    match = as_map(rule.get("match"))
    filters = match.get("any") or match.get("all") or [match]
    if all(as_map(each.get("resources")).get("kinds") for each in filters):
        return None
    if not _is_about_metadata(rule):
        return _METADATA_ALONE
    return "at least one element must be specified in a kind block, the kind attribute is mandatory when working with the resources element"


def _mutation_problem(place: str, mutation: Rule) -> str | None:
    patches = [field for field in ("patchStrategicMerge", "patchesJson6902") if mutation.get(field)]
    if mutation.get("foreach") and patches:
        return f"path: {place}.mutate.foreach.: only one of `foreach`, `patchStrategicMerge`, or `patchesJson6902` is allowed"
    if len(patches) > 1:
        return f"path: {place}.mutate.foreach.: only one of `patchStrategicMerge` or `patchesJson6902` is allowed"
    return None


def _validation_problem(place: str, rule: Rule) -> str | None:
    validation = rule.get("validate")
    if validation is None:
        return None
    bodies = [field for field in _BODIES if validation.get(field) is not None]
    if len(bodies) != 1:
        count = "one of" if not bodies else "only one of"
        verb = "must" if not bodies else "can"
        return f"path: {place}.validate..: {count} pattern, anyPattern, deny, foreach, cel {verb} be specified"
    patterns = [("pattern", validation.get("pattern"))]
    if validation.get("anyPattern") is not None:
        if not isinstance(validation["anyPattern"], list):
            return f"path: {place}.validate.anyPattern.: failed to deserialize anyPattern, expect array: it is none"
        patterns = [(f"anyPattern[{index}]", each) for index, each in enumerate(validation["anyPattern"])]
    for field, pattern in patterns:
        if (problem := _pattern_problem(pattern, "/")) is not None:
            return f"path: {place}.validate.{field}.{problem}"
    if rule.get("celPreconditions") is not None and validation.get("cel") is None:
        return f"path: {place}.validate..: celPrecondition can only be used with validate.cel"
    return None


def _pattern_problem(pattern: JSON, path: str) -> str | None:
    """Return the error for an anchor that patterns do not support, or an existence anchor without a list."""
    items: list[tuple[str, JSON]] = []
    if isinstance(pattern, dict):
        for key, value in pattern.items():
            anchor, own = parse_anchor(key), f"{path}/{key}"
            if anchor is not None and anchor.modifier not in _PATTERN_ANCHORS:
                return f"{own}.: unsupported anchor {key}"
            if anchor is not None and anchor.modifier == EXISTENCE and not isinstance(value, list):
                return f"{own}.: existence anchor should have value of type list"
            if anchor is not None and anchor.modifier == EXISTENCE and not value:
                return f"{own}.: existence anchor: should have at least one value"
            items.append((own, value))
    elif isinstance(pattern, list):
        items = [(f"{path}{index}/", each) for index, each in enumerate(pattern)]
    return next((found for own, value in items if (found := _pattern_problem(value, own))), None)


def _has_text_labels(rule: Rule) -> bool:
    """Return whether all labels and annotations in a rule's pattern or patch are strings."""
    validation, mutation = as_map(rule.get("validate")), as_map(rule.get("mutate"))
    patterns = [validation.get("pattern"), mutation.get("patchStrategicMerge")]
    patterns += validation["anyPattern"] if isinstance(validation.get("anyPattern"), list) else []
    # Kyverno looks only at the first loop.
    for loop in (validation.get("foreach") or ())[:1]:
        patterns.append(loop.get("pattern"))
    for loop in (mutation.get("foreach") or ())[:1]:
        patterns.append(loop.get("patchStrategicMerge"))
    for pattern in patterns:
        fields = as_map(pattern)
        template = as_map(as_map(fields.get("spec")).get("template"))
        metadata = as_map(fields["metadata"] if "metadata" in fields else template.get("metadata"))
        for field in ("labels", "annotations"):
            if not all(isinstance(value, str) for value in as_map(metadata.get(field)).values()):
                return False
    return True

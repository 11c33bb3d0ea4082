"""`replay check --migrate`: rules of ClusterPolicies and Policies with the CEL policies that decide the same."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from replay.json import JSON
from replay.kube.discovery import Discovery, builtin_discovery
from replay.kube.schema import Schemas
from replay.kyverno.cel.spec import GROUP
from replay.kyverno.cel.webhook import CELPolicies
from replay.kyverno.migrate.condition import Outcome, Variables, conditions_outcome, path_fields
from replay.kyverno.migrate.formula import (
    COMPARISON,
    FALSE,
    LOOSEST,
    TRUE,
    Formula,
    NoEquivalentError,
    Place,
    Type,
    all_of,
    any_of,
    negated,
)
from replay.kyverno.migrate.match import Match, Reading, match_of
from replay.kyverno.migrate.mutation import patch_expression
from replay.kyverno.migrate.pattern import fits_patterns
from replay.kyverno.naming import key_of
from replay.kyverno.policy_schema import is_known_kind, schema_refusal, without_nulls
from replay.kyverno.rules.autogen import compute_rules
from replay.kyverno.rules.go_value import as_map
from replay.kyverno.rules.jmespath.syntax import Kind, parse
from replay.kyverno.rules.response import JMESPathError
from replay.kyverno.rules.substitution import VARIABLES
from replay.kyverno.rules.validate import allows_existing_violations, is_enforced
from replay.kyverno.rules.webhook import enforces
from replay.kyverno.wildcard import kinds_of, parse_kind_selector
from replay.manifests.engine_object import Migrated

# `foreach` of validating rules as CEL: some element of a list violates (see `replay.kyverno.rules.validate`).
# Kyverno stops at the first element that violates or cannot be evaluated. Both deny if `failurePolicy` is Fail.

_READ: Final = frozenset({"list", "preconditions", "deny", "pattern", "anyPattern"})
_ELEMENT: Final = "element"


def _loops_outcome(loops: Sequence[Mapping[str, Any]], variables: Variables) -> Outcome:
    """Return when some element violates, and when evaluating one fails. Both may be true at once. Raises UnsaidError."""
    outcomes = [each for loop in loops for each in _loop(loop, variables)]
    return Outcome(any_of(*(each.holds for each in outcomes)), any_of(*(each.errs for each in outcomes)))


def _loop(loop: Mapping[str, Any], variables: Variables) -> list[Outcome]:
    if unread := sorted(loop.keys() - _READ):
        raise NoEquivalentError(f"its foreach has `{unread[0]}`")
    return [_list(each, loop, variables) for each in _lists(str(loop.get("list") or ""), variables)]


def _list(place: Place, loop: Mapping[str, Any], variables: Variables) -> Outcome:
    if place.type is not Type.LIST:
        raise NoEquivalentError(f"{place.path} is not a list")
    element = place.item(_ELEMENT)
    if element.type is not Type.OBJECT:
        raise NoEquivalentError(f"{place.path} is not a list of objects")
    own = replace(variables, element=element)
    met = Outcome(TRUE)
    if loop.get("preconditions") is not None:
        met = conditions_outcome(loop["preconditions"], own)
    # An element whose preconditions cannot be evaluated is skipped.
    is_asked = all_of(negated(met.errs), met.holds)
    violates = _loop_violation(loop, element, own)
    return Outcome(_some(place, all_of(is_asked, violates.holds)), _some(place, all_of(is_asked, violates.errs)))


def _loop_violation(loop: Mapping[str, Any], element: Place, variables: Variables) -> Outcome:
    if loop.get("deny") is not None:
        return conditions_outcome(as_map(loop["deny"]).get("conditions"), variables)
    patterns = [loop["pattern"]] if loop.get("pattern") is not None else loop.get("anyPattern")
    if not isinstance(patterns, list) or not patterns:
        raise NoEquivalentError("its foreach has neither pattern nor conditions")
    return Outcome(negated(fits_patterns(element, patterns)))


def _some(place: Place, condition: Formula) -> Formula:
    return FALSE if condition == FALSE else Formula(f"{place.default('[]')}.exists({_ELEMENT}, {condition.text})")


def _lists(expression: str, variables: Variables) -> list[Place]:
    """Return the lists of an expression: one path, or several fields of one path. Absent lists have no elements."""
    try:
        node = parse(expression)
    except JMESPathError:
        raise NoEquivalentError(f"`{expression}` is no JMESPath") from None
    is_flattened = node.kind is Kind.PROJECTION and node.children[0].kind is Kind.FLATTEN
    if is_flattened and node.children[1].kind is Kind.IDENTITY:
        node = node.children[0].children[0]
    if is_flattened and node.kind is Kind.SUBEXPRESSION and node.children[1].kind is Kind.LIST:
        parent, names = node.children
        fields = path_fields(parent, expression)
        return [_place([*fields, *path_fields(each, expression)], expression, variables) for each in names.children]
    return [_place(path_fields(node, expression), expression, variables)]


def _place(fields: Sequence[str], expression: str, variables: Variables) -> Place:
    if tuple(fields[:2]) != ("request", "object") or len(fields) == 2:
        raise NoEquivalentError(f"`{expression}` is not a list of the object")
    root = variables.reading.object
    place = Place(root, root, variables.schemas)
    for field in fields[2:]:
        place = place.field(field)
    return place


_NO_NAME = re.compile(r"[^a-z0-9.-]+")
_UNSUPPORTED_KINDS = (
    ("generate", "it generates objects: write a GeneratingPolicy"),
    ("verifyImages", "it verifies images: write an ImageValidatingPolicy"),
    ("context", "it has a context"),
)
_UNSUPPORTED_MUTATIONS = (
    ("targets", "it changes other objects: write a MutatingPolicy with targets"),
    ("foreach", "its mutation has a foreach"),
)
_UNSUPPORTED_VALIDATIONS = (
    ("podSecurity", "CEL has no Pod Security Standards"),
    ("manifests", "it verifies the signature of a manifest"),
    ("assert", "it has an assertion tree"),
)


class _CelRule(Struct, frozen=True):
    """Rule translated to CEL: when it applies, and when it allows or what it changes."""

    match: Match
    conditions: Formula
    validations: Sequence[Mapping[str, str]] = ()
    mutations: Sequence[Mapping[str, Any]] = ()
    variables: Sequence[Mapping[str, str]] = ()


def migration(objects: Sequence[JSON], cluster: Sequence[JSON] = ()) -> Iterator[Migrated]:
    """Yield the rules in the order of the set. `cluster` may hold the CustomResourceDefinitions of custom kinds."""
    definitions = [each for each in cluster if each.get("kind") == "CustomResourceDefinition"]
    discovery, schemas = builtin_discovery().with_crds(definitions), Schemas(definitions)
    own = [without_nulls(each) for each in objects if is_known_kind(each)]
    own = [each for each in own if str(each["apiVersion"]).startswith("kyverno.io/") and schema_refusal(each) is None]
    exceptions = [each for each in own if each["kind"] == "PolicyException"]
    for each in own:
        if each["kind"] in ("ClusterPolicy", "Policy"):
            yield from _migrated_rules(each, exceptions, discovery, schemas)


def _migrated_rules(
    policy: Mapping[str, Any], exceptions: Sequence[Mapping[str, Any]], discovery: Discovery, schemas: Schemas
) -> Iterator[Migrated]:
    """Yield each rule as written, with the CEL policies that replace it."""
    own = f"{policy.get('kind')}/{key_of(policy)}"
    made = compute_rules(policy, "")
    for rule in as_map(policy.get("spec")).get("rules") or ():
        name = str(rule.get("name") or "")
        try:
            _check(policy, rule, exceptions)
            places = [
                each
                for each in made
                if each.get("name") in (name, f"autogen-{name}"[:63], f"autogen-cronjob-{name}"[:63])
            ]
            policies = [_policy(policy, rule, each, discovery, schemas) for each in places]
            yield Migrated(own, name, tuple(policies))
        except NoEquivalentError as error:
            yield Migrated(own, name, reason=str(error))


def _check(policy: Mapping[str, Any], rule: Mapping[str, Any], exceptions: Sequence[Mapping[str, Any]]) -> None:
    """Raise UnsaidError for features that CEL policies do not have."""
    spec, validation, mutation = (
        as_map(each) for each in (policy.get("spec"), rule.get("validate"), rule.get("mutate"))
    )
    for field, reason in _UNSUPPORTED_KINDS:
        if rule.get(field):
            raise NoEquivalentError(reason)
    for field, reason in _UNSUPPORTED_MUTATIONS:
        if mutation.get(field):
            raise NoEquivalentError(reason)
    for field, reason in _UNSUPPORTED_VALIDATIONS:
        if validation.get(field):
            raise NoEquivalentError(reason)
    if not validation and not mutation:
        raise NoEquivalentError("it neither validates nor mutates")
    if validation and mutation:
        raise NoEquivalentError("it mutates and validates")
    if mutation and spec.get("emitWarning") is True:
        raise NoEquivalentError("it warns about what it changes")
    if validation.get("failureActionOverrides") or spec.get("validationFailureActionOverrides"):
        raise NoEquivalentError("its action differs between namespaces: write one policy for each action")
    if spec.get("applyRules") == "One" and len(spec["rules"]) > 1:
        raise NoEquivalentError("`applyRules: One` stops at the first rule that applies")
    if as_map(spec.get("webhookConfiguration")).get("matchConditions"):
        raise NoEquivalentError("the webhook of its policy has match conditions")
    names = {key_of(policy)}
    for exception in exceptions:
        for each in as_map(exception.get("spec")).get("exceptions") or ():
            if each.get("policyName") in names:
                metadata = exception["metadata"]
                raise NoEquivalentError(f"PolicyException/{metadata['name']} is about its policy")


def _policy(
    policy: Mapping[str, Any], rule: Mapping[str, Any], made: Mapping[str, Any], discovery: Discovery, schemas: Schemas
) -> dict[str, Any]:
    """Return the CEL policy for a rule. Raises UnsaidError.

    `made` is the rule as written for pods, or as generated for their controllers.
    """
    spec = as_map(policy.get("spec"))
    translated = _translated_by_formulas
    if made.get("mutate"):
        translated = _translated_by_patch
    elif as_map(made.get("validate")).get("cel"):
        translated = _translated_cel
    said = translated(policy, made, discovery, schemas)
    fails = _fails(policy)
    name = _NO_NAME.sub("-", f"{policy['metadata']['name']}-{_suffixed(rule, made)}".lower())[:253].strip("-.")
    metadata = {"name": name}
    if policy["metadata"].get("namespace"):
        metadata["namespace"] = policy["metadata"]["namespace"]
    # The background scan reports no objects that a mutating rule would change.
    off = [
        key for key in ("admission", "background") if spec.get(key) is False or (key == "background" and said.mutations)
    ]
    evaluation = {key: {"enabled": False} for key in off}
    conditions = said.conditions
    written: dict[str, Any] = {
        **({} if said.mutations else {"validationActions": _actions(policy, made)}),
        **({} if fails else {"failurePolicy": "Ignore"}),
        **({"evaluation": evaluation} if evaluation else {}),
        # The policies for controllers are written out, so Kyverno must not generate them again.
        "autogen": {"podControllers": {"controllers": []}},
        "matchConstraints": {"resourceRules": said.match.rules()},
    }
    if conditions != TRUE:
        written["matchConditions"] = [{"name": "match", "expression": conditions.text}]
    if said.variables:
        written["variables"] = list(said.variables)
    key, items = ("mutations", said.mutations) if said.mutations else ("validations", said.validations)
    written[key] = list(items)
    kind = f"{'Namespaced' if 'namespace' in metadata else ''}{'Mutating' if said.mutations else 'Validating'}Policy"
    result = {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": metadata, "spec": written}
    refusal = schema_refusal(result) or "; ".join(CELPolicies([result]).refused)
    if refusal:
        raise NoEquivalentError(f"Kyverno would refuse the policy: {' '.join(refusal.split())}")
    return result


def _suffixed(rule: Mapping[str, Any], made: Mapping[str, Any]) -> str:
    name = str(rule.get("name") or "")
    if made.get("name") == name:
        return name
    return f"{name}-cronjob" if str(made["name"]).startswith("autogen-cronjob-") else f"{name}-controllers"


def _fails(policy: Mapping[str, Any]) -> bool:
    spec = as_map(policy.get("spec"))
    webhook = as_map(spec.get("webhookConfiguration"))
    return (webhook.get("failurePolicy") or spec.get("failurePolicy") or "Fail") == "Fail"


def _actions(policy: Mapping[str, Any], rule: Mapping[str, Any]) -> list[str]:
    spec = as_map(policy.get("spec"))
    action = as_map(rule.get("validate")).get("failureAction") or spec.get("validationFailureAction")
    warns = ["Warn"] if spec.get("emitWarning") is True else []
    return ["Deny"] if enforces(action) else ["Audit", *warns]


def _translated_cel(
    policy: Mapping[str, Any], rule: Mapping[str, Any], discovery: Discovery, schemas: Schemas
) -> _CelRule:
    """Return the translation of a rule that is written in CEL."""
    match = match_of(rule, ("CREATE", "UPDATE", "DELETE", *_connects(rule)), discovery, schemas)
    validation = rule["validate"]
    cel = validation["cel"]
    if cel.get("paramKind") or cel.get("paramRef"):
        raise NoEquivalentError("it reads parameters")
    if not _fails(policy):
        raise NoEquivalentError("its expressions deny where they fail, whatever `failurePolicy` says")
    texts = [
        *(each["expression"] for each in rule.get("celPreconditions") or ()),
        *(each["expression"] for each in cel.get("variables") or ()),
        *(each["expression"] for each in cel.get("expressions") or ()),
        *(str(each.get("messageExpression") or "") for each in cel.get("expressions") or ()),
    ]
    if set(match.operations) & {"DELETE", "CONNECT"}:
        raise NoEquivalentError(
            "name CREATE and UPDATE as its operations: `object` is null on DELETE, and an empty map in policies"
        )
    if "CREATE" in match.operations and any("oldObject" in each for each in texts):
        raise NoEquivalentError("`oldObject` is null on CREATE, and an empty map in policies")
    # Conditions that fail do not decide: the expressions do.
    met = all_of(*(Formula(each["expression"], LOOSEST) for each in rule.get("celPreconditions") or ()))
    validations = [
        {
            "expression": any_of(negated(met), Formula(each["expression"], LOOSEST)).text,
            **{key: each[key] for key in ("message", "messageExpression") if each.get(key)},
        }
        for each in cel.get("expressions") or ()
    ]
    for each in validations:
        if "message" not in each and "messageExpression" not in each and validation.get("message"):
            each["message"] = validation["message"]
    conditions = match.condition(Reading("object"))
    return _CelRule(match, conditions, validations, variables=[dict(each) for each in cel.get("variables") or ()])


def _connects(rule: Mapping[str, Any]) -> tuple[str, ...]:
    """Return `CONNECT` if a rule names the kind of a subresource."""
    kinds = kinds_of(rule.get("match"))
    return ("CONNECT",) if any(parse_kind_selector(kind).subresource for kind in kinds) else ()


def _translated_by_formulas(
    policy: Mapping[str, Any], rule: Mapping[str, Any], discovery: Discovery, schemas: Schemas
) -> _CelRule:
    """Return the translation of a rule with a pattern, several patterns, or deny conditions."""
    validation = as_map(rule.get("validate"))
    is_pattern = validation.get("deny") is None
    connects = _connects(rule)
    match = asked = match_of(rule, ("CREATE", "UPDATE", "DELETE", *connects), discovery, schemas)
    if is_pattern:
        # What is deleted is not compared with a pattern.
        match = replace(asked, operations=tuple(each for each in asked.operations if each != "DELETE"))
    if not match.operations:
        raise NoEquivalentError("a pattern denies no DELETE")
    fails = _fails(policy)
    root = match.root
    reading = Reading(root)
    inner = Reading("variables.resource") if " " in root else reading
    variables: list[dict[str, str]] = []
    conditions = match.condition(reading)
    met = Outcome(TRUE)
    if rule.get("preconditions") is not None:
        met = conditions_outcome(rule["preconditions"], Variables(reading, match.schemas, match.is_namespaced))
    violates = _violation(validation, inner, match)
    allowed = negated(_denies(violates, fails=fails))
    if fails and met.errs != FALSE and is_pattern and "DELETE" in asked.operations:
        raise NoEquivalentError(
            "its preconditions cannot be evaluated where a path is absent, on DELETE too: name its operations"
        )
    if met.errs == FALSE:
        conditions = all_of(conditions, met.holds)
    else:
        allowed = any_of(all_of(negated(met.errs), any_of(negated(met.holds), allowed)), FALSE if fails else met.errs)
    if validation.get("foreach") and violates.errs != FALSE and not fails:
        raise NoEquivalentError("its foreach stops at an element that cannot be evaluated, where a path is absent")
    before = FALSE
    is_lenient = is_enforced(rule, policy) and allows_existing_violations(rule)
    if is_lenient and "UPDATE" in match.operations and rule.get("preconditions") is None:
        if validation.get("foreach") and violates.errs != FALSE:
            raise NoEquivalentError("its foreach cannot be evaluated where a path is absent, in the old object too")
        before = _before(validation, match)
    if before != FALSE:
        variables.append({"name": "violatedBefore", "expression": before.text})
        # Only a violation is let through, not what cannot be evaluated.
        allowed = any_of(
            allowed, all_of(violates.holds if violates.errs != FALSE else TRUE, Formula("variables.violatedBefore"))
        )
    if inner.object != root and inner.object in allowed.text:
        variables.insert(0, {"name": "resource", "expression": root.strip("()")})
    return _CelRule(match, conditions, [{"expression": allowed.text, **_message(rule)}], variables=variables)


def _translated_by_patch(
    policy: Mapping[str, Any], rule: Mapping[str, Any], discovery: Discovery, schemas: Schemas
) -> _CelRule:
    """Return the translation of a rule that mutates the object of the request."""
    match = _mutated(rule, discovery, schemas)
    for other in compute_rules(policy, ""):
        mutation = as_map(other.get("mutate"))
        if mutation and not mutation.get("targets") and other.get("name") != rule.get("name"):
            try:
                is_apart = set(match.resources).isdisjoint(_mutated(other, discovery, schemas).resources)
            except NoEquivalentError:
                is_apart = False
            if not is_apart:
                raise NoEquivalentError(f"rule {other.get('name')} mutates the same resources, and rules act in order")
    reading = Reading("object")
    met = Outcome(TRUE)
    if rule.get("preconditions") is not None:
        met = conditions_outcome(rule["preconditions"], Variables(reading, match.schemas, match.is_namespaced))
    if met.errs != FALSE:
        raise NoEquivalentError("its preconditions cannot be evaluated where a path is absent")
    expression = patch_expression(rule["mutate"], Place("object", "object", match.schemas, is_there=True))
    conditions = all_of(match.condition(reading), met.holds)
    return _CelRule(match, conditions, mutations=[{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}])


def _mutated(rule: Mapping[str, Any], discovery: Discovery, schemas: Schemas) -> Match:
    """Return what a mutating rule matches. It is asked for CREATE and UPDATE alone. Raises UnsaidError."""
    match = match_of(rule, ("CREATE", "UPDATE"), discovery, schemas)
    match = replace(match, operations=tuple(each for each in match.operations if each in ("CREATE", "UPDATE")))
    if not match.operations:
        raise NoEquivalentError("only CREATE and UPDATE mutate")
    return match


def _denies(violation: Outcome, *, fails: bool) -> Formula:
    if violation.errs == FALSE:
        return violation.holds
    return any_of(violation.errs, violation.holds) if fails else all_of(negated(violation.errs), violation.holds)


def _before(validation: Mapping[str, Any], match: Match) -> Formula:
    """Return the condition that the old object violated the rule too, if it were created now."""
    reading = Reading("oldObject", is_before=True)
    matched = match.condition(reading)
    if any(subresource for *_, subresource in match.resources if subresource != "ephemeralcontainers"):
        raise NoEquivalentError("it is about a subresource, whose old object is matched as another kind")
    violated = _violation(validation, reading, match)
    return all_of(Formula("request.operation == 'UPDATE'", COMPARISON), matched, negated(violated.errs), violated.holds)


def _violation(validation: Mapping[str, Any], reading: Reading, match: Match) -> Outcome:
    """Return when an object violates a rule, and when evaluating it fails."""
    variables = Variables(reading, match.schemas, match.is_namespaced)
    if validation.get("deny") is not None:
        return conditions_outcome(as_map(validation["deny"]).get("conditions"), variables)
    if validation.get("foreach") and validation.get("pattern") is None and validation.get("anyPattern") is None:
        return _loops_outcome(validation["foreach"], variables)
    root = Place(reading.object, reading.object, match.schemas, is_there=True)
    patterns = [validation["pattern"]] if validation.get("pattern") is not None else validation.get("anyPattern")
    if not isinstance(patterns, list) or not patterns:
        raise NoEquivalentError("it has neither pattern nor conditions")
    return Outcome(negated(fits_patterns(root, patterns)))


def _message(rule: Mapping[str, Any]) -> dict[str, str]:
    """Return the message with its variables replaced by `…`."""
    message = str(as_map(rule.get("validate")).get("message") or "")
    text = " ".join(VARIABLES.sub(lambda found: found[0][:1].strip("{") + "…", message).split())
    return {"message": text or f"rule {rule.get('name')} failed"}

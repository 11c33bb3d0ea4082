"""Rules that validate with CEL, as a native policy would (`pkg/engine/handlers/validation/validate_cel.go`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from replay.admission.inputs import Inputs
from replay.admission.request import admission_request
from replay.admission.validating.outcome import NO_DECISION, Action
from replay.admission.validating.validator import Validator
from replay.cellib.version import KubernetesVersion
from replay.json import JSON
from replay.kube.admission_request import attributes_of
from replay.kube.admissionregistration import MatchCondition, ValidatingAdmissionPolicy, Validation, Variable
from replay.kube.attributes import Missing
from replay.kyverno.rules.context import ClusterReads
from replay.kyverno.rules.go_value import as_map
from replay.kyverno.rules.request import Request
from replay.kyverno.rules.response import FAIL, PASS, SKIP, RuleResponse, UndeterminedError, rule_error

_VERSION = KubernetesVersion(1, 36)
"""Server version of Kyverno's libraries. `orValue` of a value that is not optional returns it, as in Kyverno."""
_HOLDS = "conditions hold"
_AUTHORIZER = Missing("authorizer", "Kyverno sends the question to the API server")


def validate_cel(
    request: Request, rule: Mapping[str, Any], resource: JSON, cluster: ClusterReads
) -> RuleResponse | None:
    """Return the result of a rule. Raises UndeterminedError."""
    name = str(rule.get("name") or "")
    cel = rule["validate"]["cel"]
    if cel.get("paramKind") or cel.get("paramRef"):
        raise UndeterminedError(f"rule {name} reads parameters, which replay does not look up")
    old = request.old
    namespace = (
        ""
        if request.kind.kind == "Namespace"
        else str(as_map((resource or old or {}).get("metadata")).get("namespace") or "")
    )
    namespace_object: JSON = None
    if namespace:
        namespace_object = cluster.namespace(namespace)
        if isinstance(namespace_object, Missing):
            raise UndeterminedError(f"namespace {namespace}: {namespace_object.reason}")
        if namespace_object is None:
            return rule_error(name, f'Error getting the resource\'s namespace: namespaces "{namespace}" not found')
    conditions, validator = _validators(
        json.dumps([rule.get("celPreconditions") or [], cel, rule["validate"].get("message") or ""])
    )
    inputs = _inputs(request, resource, old, namespace_object)
    if conditions is not None and conditions.validate(inputs) is NO_DECISION:
        return RuleResponse(name, SKIP, "cel preconditions not met")
    result = validator.validate(inputs)
    if result.unknown:
        raise UndeterminedError(f"{result.unknown[0].path}: {result.unknown[0].reason}")
    for decision in result.decisions:
        if decision.action is Action.UNKNOWN:
            raise UndeterminedError(f"{decision.unknown[0].path}: {decision.unknown[0].reason}")
        if decision.action is Action.DENY:
            return RuleResponse(name, FAIL, decision.message)
    return RuleResponse(name, PASS, f"Validation rule '{name}' passed.")


def matches_conditions(policy: Mapping[str, Any], request: Request) -> bool:
    """Return whether a policy's webhook match conditions hold. An error counts as false.

    Kyverno shows an absent object as one that has only a kind (`checkMatchConditions`).
    """
    conditions = as_map(as_map(policy.get("spec")).get("webhookConfiguration")).get("matchConditions")
    if not conditions:
        return True
    validator = _conditions(tuple((str(each["name"]), str(each["expression"])) for each in conditions))
    kind = request.kind
    bare = {"apiVersion": f"{kind.group}/{kind.version}" if kind.group else kind.version, "kind": kind.kind}
    new, old = (bare if obj is None else {**obj, **bare} for obj in (request.new, request.old))
    result = validator.validate(_inputs(request, new, old, None))
    if result.unknown:
        raise UndeterminedError(f"{result.unknown[0].path}: {result.unknown[0].reason}")
    return result is not NO_DECISION and all(each.message == _HOLDS for each in result.decisions)


def _inputs(request: Request, new: JSON, old: JSON, namespace: JSON) -> Inputs:
    attributes = attributes_of(request.request)
    shown = admission_request(attributes, attributes.resource, request.kind)
    bindings = {
        "object": new,
        "oldObject": old,
        "request": shown,
        "namespaceObject": namespace,
        "params": None,
        "authorizer": _AUTHORIZER,
        "authorizer.requestResource": _AUTHORIZER,
    }
    return Inputs(bindings, shown)


@lru_cache(maxsize=256)
def _conditions(conditions: tuple[tuple[str, str], ...]) -> Validator:
    """Return a validator that makes a decision exactly if all conditions hold, because its only validation is false."""
    matched = tuple(MatchCondition(name, expression) for name, expression in conditions)
    policy = ValidatingAdmissionPolicy(
        "", static=False, match_conditions=matched, validations=(Validation("false", _HOLDS),)
    )
    return Validator(policy, _VERSION)


@lru_cache(maxsize=256)
def _validators(text: str) -> tuple[Validator | None, Validator]:
    """Return the validators of a rule's conditions and of its expressions."""
    preconditions, cel, message = json.loads(text)
    named = tuple((str(each["name"]), str(each["expression"])) for each in preconditions)
    policy = ValidatingAdmissionPolicy(
        "",
        static=False,
        match_conditions=tuple(MatchCondition(name, expression) for name, expression in named),
        variables=tuple(Variable(each["name"], each["expression"]) for each in cel.get("variables") or ()),
        validations=tuple(
            Validation(
                each["expression"],
                each.get("message") or message,
                each.get("messageExpression") or "",
                each.get("reason"),
            )
            for each in cel.get("expressions") or ()
        ),
    )
    return (_conditions(named) if named else None), Validator(policy, _VERSION)

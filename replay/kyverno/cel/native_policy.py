"""Native policies that Kyverno generates from its own. The API server then decides by them instead of Kyverno.

The rules are those of `pkg/controllers/admissionpolicygenerator` and `pkg/admissionpolicy/builder.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from replay.json import JSON
from replay.kyverno.cel.autogen import generated_specs
from replay.kyverno.cel.compiler import PolicyError
from replay.kyverno.cel.spec import MutatingSpec, Spec, ValidatingSpec, read_spec
from replay.kyverno.rules.go_value import as_map

_API = "admissionregistration.k8s.io/v1"


def native_policy(policy: JSON, exceptions: Iterable[JSON]) -> tuple[JSON, JSON] | None:
    """Return the native policy and binding generated from a policy, or None if Kyverno itself decides.

    `exceptions` are all exceptions of the set.
    """
    own = [as_map(each.get("spec")) for each in exceptions if _names(each, policy)]
    try:
        if policy.get("kind") == "ValidatingPolicy":
            return _validating(policy, own)
        if policy.get("kind") == "MutatingPolicy":
            return _mutating(policy, own)
    except PolicyError:
        pass  # it is refused as what it is
    return None


def _names(exception: Mapping[str, Any], policy: Mapping[str, Any]) -> bool:
    """Return whether an exception names a policy. As in Kyverno, the kind does not matter here."""
    references = as_map(exception.get("spec")).get("policyRefs") or ()
    return any(as_map(each).get("name") == policy["metadata"]["name"] for each in references)


def _is_for_controllers(policy: JSON, spec: Spec, *, mutates: bool) -> bool:
    return next(generated_specs(policy["spec"], spec.controllers, mutates=mutates), None) is not None


def _validating(policy: JSON, exceptions: list[dict[str, Any]]) -> tuple[JSON, JSON] | None:
    read, spec = read_spec(policy, ValidatingSpec), policy["spec"]
    switch = read.autogen.validating_admission_policy if read.autogen is not None else None
    if switch is None or not switch.enabled or _is_for_controllers(policy, read, mutates=False):
        return None
    variables = [*(spec.get("variables") or ())]
    for each in exceptions:
        for name, key in (("allowedImages", "images"), ("allowedValues", "allowedValues")):
            if each.get(key):
                values = ", ".join(f"'{value}'" for value in each[key])
                variables.append({"name": name, "expression": f"[{values}]"})
    validations = [
        {**each, "expression": each["expression"].replace("exceptions.allowed", "variables.allowed")}
        for each in spec.get("validations") or ()
    ]
    made = {
        "matchConstraints": spec.get("matchConstraints"),
        # The exceptions come last here, but first in mutating policies, as in Kyverno.
        "matchConditions": [*(spec.get("matchConditions") or ()), *_negated(exceptions)],
        "variables": variables,
        "validations": validations,
        "auditAnnotations": spec.get("auditAnnotations") or [],
    }
    name = f"vpol-{policy['metadata']['name']}"
    binding = {"policyName": name, "validationActions": list(read.actions)}
    return _object("ValidatingAdmissionPolicy", name, made), _object(
        "ValidatingAdmissionPolicyBinding", f"{name}-binding", binding
    )


def _mutating(policy: JSON, exceptions: list[dict[str, Any]]) -> tuple[JSON, JSON] | None:
    read, spec = read_spec(policy, MutatingSpec), policy["spec"]
    if not read.generates_policy or read.is_applied_as_by_clients or _is_for_controllers(policy, read, mutates=True):
        return None
    rules = as_map(spec.get("matchConstraints")).get("resourceRules") or []
    made = {
        "matchConstraints": {"resourceRules": rules},
        "matchConditions": [*_negated(exceptions), *(spec.get("matchConditions") or ())],
        "variables": spec.get("variables") or [],
        "mutations": spec.get("mutations") or [],
        "reinvocationPolicy": spec.get("reinvocationPolicy") or "Never",
    }
    if spec.get("failurePolicy"):
        made["failurePolicy"] = spec["failurePolicy"]
    name = f"mpol-{policy['metadata']['name']}"
    return _object("MutatingAdmissionPolicy", name, made), _object(
        "MutatingAdmissionPolicyBinding", f"{name}-binding", {"policyName": name}
    )


def _negated(exceptions: Iterable[Mapping[str, Any]]) -> Iterator[JSON]:
    """Yield the negated match conditions of exceptions: if one is true, the policy does not match."""
    for each in exceptions:
        for condition in each.get("matchConditions") or ():
            yield {"name": condition["name"], "expression": f"!({condition['expression']})"}


def _object(kind: str, name: str, spec: JSON) -> JSON:
    return {"apiVersion": _API, "kind": kind, "metadata": {"name": name}, "spec": spec}

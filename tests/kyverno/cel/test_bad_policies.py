"""Policies that Kyverno refuses, with its words."""

from __future__ import annotations

from typing import Any

import pytest

from replay.json import JSON
from replay.kyverno.cel.webhook import CELPolicies

_REFUSED = "<nil>: Internal error: validating policy compiler 1.0 error: failed to compile policy"
_MATCH = {
    "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]
}


def _policy(kind: str, **spec: JSON) -> dict[str, Any]:
    return {
        "apiVersion": "policies.kyverno.io/v1",
        "kind": kind,
        "metadata": {"name": "bad"},
        "spec": {"matchConstraints": _MATCH, **spec},
    }


def _validating(expression: JSON, **spec: JSON) -> dict[str, Any]:
    return _policy("ValidatingPolicy", validations=[{"expression": expression}], **spec)


def _compiled(*errors: str) -> list[str]:
    return [f"failed to compile policy bad ([{', '.join([_REFUSED, *errors])}])"]


_ROWS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "unknown function": (
        _validating("nope(object)"),
        _compiled(
            'spec.validations[0].expression: Invalid value: "nope(object)": ERROR: <input>:1:5: '
            "undeclared reference to 'nope' (in container '')\n | nope(object)\n | ....^"
        ),
    ),
    "orValue is dynamic": (
        _validating("object.?spec.orValue(true)"),
        _compiled(
            'spec.validations[0].expression: Invalid value: "object.?spec.orValue(true)": '
            "output is expected to be of type bool"
        ),
    ),
    "variable without a program": (
        _policy(
            "MutatingPolicy",
            variables=[{"name": "a", "expression": "int('x')"}, {"name": "b", "expression": "variables.a + 1"}],
            mutations=[{"patchType": "JSONPatch", "jsonPatch": {"expression": "[]"}}],
        ),
        [
            (
                "failed to compile policy bad (spec.variables[0].expression: Invalid value: \"int('x')\": "
                "type conversion error from 'string' to 'int')"
            )
        ],
    ),
    "all audit annotations": (
        _validating(
            "true",
            auditAnnotations=[
                {"key": "a", "valueExpression": "object.metadata.name"},
                {"key": "b", "valueExpression": "'b'"},
                {"key": "c", "valueExpression": "1"},
            ],
        ),
        _compiled(
            'spec.auditAnnotations[0].valueExpression: Invalid value: "object.metadata.name": '
            "output is expected to be either of type string or null_type",
            'spec.auditAnnotations[2].valueExpression: Invalid value: "1": '
            "output is expected to be either of type string or null_type",
        ),
    ),
    "match conditions do not see variables": (
        _validating(
            "true",
            variables=[{"name": "a", "expression": "1"}],
            matchConditions=[{"name": "a", "expression": "variables.a == 1"}],
        ),
        _compiled(
            'spec.matchConditions[0].expression: Invalid value: "variables.a == 1": ERROR: <input>:1:10: '
            "undefined field 'a'\n | variables.a == 1\n | .........^"
        ),
    ),
    "text where an expression stands": (
        _validating(1),
        ["failed to compile policy bad (spec.validations[0].expression: Invalid value: expected `str`, got `int`)"],
    ),
    "no list": (
        _policy("ValidatingPolicy", validations={"a": "b"}),
        ["failed to compile policy bad (spec.validations: Invalid value: expected `array`, got `object`)"],
    ),
    "no spec": (
        {"apiVersion": "policies.kyverno.io/v1", "kind": "MutatingPolicy", "metadata": {"name": "bad"}},
        ["failed to compile policy bad (spec: Invalid value: expected `object`, got `null`)"],
    ),
    "mutation of another type": (
        _policy(
            "MutatingPolicy",
            mutations=[{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "{'a': 'b'}"}}],
        ),
        [
            (
                "failed to compile policy bad (spec.mutations[0].applyConfiguration.expression: "
                "Invalid value: \"{'a': 'b'}\": output is expected to be of type Object)"
            )
        ],
    ),
    "a native policy without variables in conditions": (
        _policy(
            "MutatingPolicy",
            variables=[{"name": "a", "expression": "true"}],
            matchConditions=[{"name": "a", "expression": "variables.a"}],
            autogen={"mutatingAdmissionPolicy": {"enabled": True}},
        ),
        [
            (
                "failed to compile policy bad (spec.matchConditions[0].expression: Forbidden: variables cannot be "
                "referenced in matchConditions when spec.autogen.mutatingAdmissionPolicy.enabled is true; native "
                "MutatingAdmissionPolicy evaluates match conditions before variables, so inline the expression instead)"
            )
        ],
    ),
}


@pytest.mark.parametrize("name", _ROWS)
def test_refused(name: str) -> None:
    policy, refused = _ROWS[name]
    policies = CELPolicies([policy])
    assert (policies.refused, bool(policies)) == (refused, False)

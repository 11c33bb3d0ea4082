"""The words of validation by minor."""

from __future__ import annotations

from typing import Any

import pytest

from replay.cellib.version import KubernetesVersion
from replay.manifests.defaulting import set_defaults
from replay.manifests.validation import validate

RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}


def errors(kind: str, minor: int, spec: dict[str, Any], metadata: dict[str, Any] | None = None) -> list[str]:
    value = {"metadata": {"name": "p", **(metadata or {})}, "spec": spec}
    set_defaults(kind, value)
    return [str(error) for error in validate(kind, value, KubernetesVersion(1, minor))[0]]


def policy(**spec: Any) -> dict[str, Any]:
    return {"matchConstraints": {"resourceRules": [RULE]}, "validations": [{"expression": "true"}], **spec}


POLICIES: list[tuple[str, dict[str, Any], int, str, str]] = [
    (
        "a variable's name",
        policy(variables=[{"name": "a-b", "expression": "1"}]),
        34,
        'spec.variables[0].name: Invalid value: "a-b": name is not a valid CEL identifier',
        'spec.variables[0].name: Invalid value: "a-b": must be a valid CEL identifier',
    ),
    (
        "a blank message",
        policy(validations=[{"expression": "true", "message": " "}]),
        34,
        'spec.validations[0].message: Invalid value: " ": message must be non-empty if specified',
        'spec.validations[0].message: Invalid value: " ": must be non-empty if specified',
    ),
    (
        "a message of two lines",
        policy(validations=[{"expression": "true", "message": "a\nb"}]),
        34,
        'spec.validations[0].message: Invalid value: "a\\nb": message must not contain line breaks',
        'spec.validations[0].message: Invalid value: "a\\nb": must not contain line breaks',
    ),
    (
        "a blank messageExpression",
        policy(validations=[{"expression": "true", "messageExpression": " "}]),
        99,
        'spec.validations[0].messageExpression: Invalid value: " ": must be non-empty if specified',
        "",
    ),
    (
        "a regular expression that does not compile",
        policy(validations=[{"expression": "'a'.find('(?<=a)b') == ''"}]),
        99,
        (
            "spec.validations[0].expression: Internal error: program instantiation failed: "
            "error parsing regexp: invalid named capture: `(?<=a)b`"
        ),
        "",
    ),
]


@pytest.mark.parametrize(
    ("spec", "since", "before", "after"), [row[1:] for row in POLICIES], ids=[r[0] for r in POLICIES]
)
def test_policies(spec: dict[str, Any], since: int, before: str, after: str) -> None:
    for minor in range(30, 38):
        assert errors("ValidatingAdmissionPolicy", minor, spec) == [after if minor >= since else before]


def test_labels() -> None:
    labels = {"a/b/c": "x", "d": "y" * 64}
    found = {
        minor: errors("ValidatingAdmissionPolicy", minor, policy(), {"labels": labels}) for minor in (30, 34, 35, 37)
    }
    assert found[30] == found[34]
    assert found[35] == found[37]
    assert [
        text.replace("a valid label key", "a qualified name").replace(" bytes", " characters") for text in found[35]
    ] == (found[34])
    assert "characters" in found[34][1]
    assert "bytes" in found[35][1]


@pytest.mark.parametrize(("minor", "path"), [(31, "spec.matchResouces"), (32, "spec.matchResources")])
def test_the_path_of_bindings(minor: int, path: str) -> None:
    spec = {
        "policyName": "p",
        "validationActions": ["Deny"],
        "matchResources": {"resourceRules": [{**RULE, "operations": ["NOPE"]}]},
    }
    (found,) = errors("ValidatingAdmissionPolicyBinding", minor, spec)
    assert found.startswith(f"{path}.resourceRules[0].operations")

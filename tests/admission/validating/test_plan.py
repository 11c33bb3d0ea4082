"""Many policies that begin alike decide as each does in a set of its own."""

from __future__ import annotations

from typing import Any

import pytest

from replay.admission.decision import Decision
from replay.admission.validating.outcome import VALIDATION_FAILURE_KEY
from replay.json import JSON
from tests.admission.validating.test_validating import cases, decide

COPIES = 3
OWN = {
    "which never holds": "request.name == 'copy {}'",
    "which holds for one": "request.operation != '{}' && {} == 2",
    "which fails for all but one": "[request.operation][{}] != ''",
}
"""An operand that each copy has to itself, of its number."""


def copied(case: dict[str, Any], number: int, own: str) -> dict[str, Any]:
    """The policies and bindings of a case under other names, each validation with an operand of its own."""

    def named(name: str) -> str:
        return f"{name}-{number}"

    def policy(obj: JSON) -> JSON:
        spec = obj["spec"]
        validations = [
            {**each, "expression": f"({each['expression']}) || {own.format(number, number)}"}
            for each in spec.get("validations") or ()
        ]
        changed = {**spec, "validations": validations} if validations else spec
        return {**obj, "metadata": {**obj["metadata"], "name": named(obj["metadata"]["name"])}, "spec": changed}

    def binding(obj: JSON) -> JSON:
        spec = {**obj["spec"], "policyName": named(obj["spec"]["policyName"])}
        return {**obj, "metadata": {**obj["metadata"], "name": named(obj["metadata"]["name"])}, "spec": spec}

    return {
        **case,
        "policies": list(map(policy, case["policies"])),
        "bindings": list(map(binding, case["bindings"])),
    }


def together(parts: list[dict[str, Any]]) -> dict[str, Any]:
    lists = {name: [each for part in parts for each in part[name]] for name in ("policies", "bindings")}
    return {**parts[0], **lists}


def effects(*decisions: Decision) -> tuple[list[str], list[str], dict[str, str]]:
    """What comes of policies, in any order, but for the one annotation that is about all of them."""
    annotations = {key: value for each in decisions for key, value in each.audit_annotations.items()}
    annotations.pop(VALIDATION_FAILURE_KEY, None)
    return (
        sorted(str(denial) for each in decisions for denial in each.denials),
        sorted(warning for each in decisions for warning in each.warnings),
        annotations,
    )


@pytest.mark.parametrize("own", OWN.values(), ids=OWN)
@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in cases()])
def test_many_as_each_alone(case: dict[str, Any], own: str) -> None:
    parts = [copied(case, number, own) for number in range(COPIES)]
    assert effects(decide(together(parts))) == effects(*map(decide, parts))

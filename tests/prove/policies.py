"""Small policies that tests hold against their edits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from replay.kube.admissionregistration import (
    FailurePolicy,
    LabelSelector,
    MatchCondition,
    MatchResources,
    Rule,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
    Validation,
    Variable,
)
from replay.prove.unit import Unit

DEPLOYMENTS = Rule(("CREATE", "UPDATE"), ("apps",), ("v1",), ("deployments",))
PODS = Rule(("CREATE", "UPDATE"), ("",), ("v1",), ("pods",))
CONFIG_MAPS = Rule(("CREATE", "UPDATE", "DELETE"), ("",), ("v1",), ("configmaps",))
WIDGETS = Rule(("CREATE", "UPDATE"), ("example.com",), ("*",), ("widgets",))


def unit(
    *validations: str,
    rules: Sequence[Rule] = (DEPLOYMENTS,),
    variables: dict[str, str] | None = None,
    conditions: Sequence[str] = (),
    failure_policy: str = "Fail",
    actions: Sequence[str] = ("Deny",),
    **match: Any,
) -> Unit:
    """A policy with one binding."""
    policy = ValidatingAdmissionPolicy(
        name="policy.static.k8s.io",
        static=True,
        failure_policy=FailurePolicy(failure_policy),
        match_constraints=MatchResources(resource_rules=tuple(rules), **match),
        match_conditions=tuple(MatchCondition(f"c{index}", text) for index, text in enumerate(conditions)),
        variables=tuple(Variable(name, text) for name, text in (variables or {}).items()),
        validations=tuple(Validation(text) for text in validations),
    )
    binding = ValidatingAdmissionPolicyBinding(
        name="binding.static.k8s.io", static=True, policy_name=policy.name, validation_actions=tuple(actions)
    )
    return Unit(policy, (binding,))


def labelled(key: str, value: str) -> LabelSelector:
    """A selector of one label."""
    return LabelSelector(match_labels={key: value})

"""Small policies that tests hold against their edits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from replay.kube.admissionregistration import (
    FailurePolicy,
    LabelSelector,
    MatchCondition,
    MatchResources,
    ParamKind,
    ParamRef,
    Rule,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
    Validation,
    Variable,
)
from replay.prove.unit import BoundPolicy

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
) -> BoundPolicy:
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
    return BoundPolicy(policy, (binding,))


def labelled(key: str, value: str) -> LabelSelector:
    """A selector of one label."""
    return LabelSelector(match_labels={key: value})


def with_params(original: BoundPolicy, *refs: ParamRef, kind: str = "ConfigMap") -> BoundPolicy:
    """The same with parameters: a binding for each reference."""
    policy = replace(original.policy, param_kind=ParamKind("v1", kind))
    first = original.bindings[0]
    bound = (replace(first, name=f"b{index}.static.k8s.io", param_ref=ref) for index, ref in enumerate(refs))
    return BoundPolicy(policy, tuple(bound))

"""The expressions of one policy or webhook: where they stand, and the compiler that knows the variables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from replay.cellib.environment import ExpressionKind
from replay.cellib.expression import ExpressionCompiler
from replay.cellib.version import KubernetesVersion
from replay.kube.admissionregistration import MutatingAdmissionPolicy, Policy, ValidatingAdmissionPolicy, Webhook

PATCH_KINDS: Final = {
    "ApplyConfiguration": ExpressionKind.APPLY_CONFIGURATION,
    "JSONPatch": ExpressionKind.JSON_PATCH,
}


class StoredExpression(NamedTuple):
    """Expression of a policy or webhook, with its path in the object."""

    path: str
    kind: ExpressionKind
    text: str


def compiler_of(policy: Policy, version: KubernetesVersion) -> ExpressionCompiler:
    """Return a compiler with the variables of a policy, declared in order: a later one may use an earlier one."""
    compiler = ExpressionCompiler(version, has_params=policy.param_kind is not None)
    for variable in policy.variables:
        compiler.declare_variable(variable.name, variable.expression)
    return compiler


def expressions_of(holder: Policy | Webhook) -> Iterator[StoredExpression]:
    """Yield all expressions in the order of the API, without the variables."""
    prefix = "" if isinstance(holder, Webhook) else "spec."
    for index, condition in enumerate(holder.match_conditions):
        path = f"{prefix}matchConditions[{index}].expression"
        yield StoredExpression(path, ExpressionKind.MATCH_CONDITION, condition.expression)
    if isinstance(holder, MutatingAdmissionPolicy):
        for index, mutation in enumerate(holder.mutations):
            kind = PATCH_KINDS[mutation.patch_type]
            yield StoredExpression(f"spec.mutations[{index}].{kind}.expression", kind, mutation.expression)
    elif isinstance(holder, ValidatingAdmissionPolicy):
        for index, each in enumerate(holder.validations):
            path = f"spec.validations[{index}]"
            yield StoredExpression(f"{path}.expression", ExpressionKind.VALIDATION, each.expression)
            if each.message_expression:
                kind = ExpressionKind.MESSAGE_EXPRESSION
                yield StoredExpression(f"{path}.messageExpression", kind, each.message_expression)
        for index, annotation in enumerate(holder.audit_annotations):
            path = f"spec.auditAnnotations[{index}].valueExpression"
            yield StoredExpression(path, ExpressionKind.AUDIT_ANNOTATION, annotation.value_expression)

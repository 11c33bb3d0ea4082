"""Which validation belongs to which kind."""

from __future__ import annotations

from replay.cellib.version import KubernetesVersion
from replay.json import JSON
from replay.manifests.expression import CheckedExpression, Expressions
from replay.manifests.field_error import FieldError
from replay.manifests.validate.policy import (
    validate_mutating_binding,
    validate_mutating_policy,
    validate_validating_binding,
    validate_validating_policy,
)
from replay.manifests.validate.webhook import validate_webhook_configuration
from replay.manifests.validate.wording import as_worded


def validate(
    kind: str, obj: JSON, version: KubernetesVersion
) -> tuple[list[FieldError], tuple[CheckedExpression, ...]]:
    """The errors of a defaulted object, and its expressions as they were compiled."""
    has_params = kind.endswith("Policy") and obj["spec"].get("paramKind") is not None
    mutation = kind == "MutatingAdmissionPolicy"
    composed = mutation or (kind == "ValidatingAdmissionPolicy" and bool(obj["spec"].get("variables")))
    expressions = Expressions(version, has_params=has_params, composed=composed)
    if kind == "ValidatingAdmissionPolicy":
        errors = validate_validating_policy(obj, expressions)
    elif kind == "MutatingAdmissionPolicy":
        errors = validate_mutating_policy(obj, expressions)
    elif kind == "ValidatingAdmissionPolicyBinding":
        errors = validate_validating_binding(obj)
    elif kind == "MutatingAdmissionPolicyBinding":
        errors = validate_mutating_binding(obj)
    else:
        errors = validate_webhook_configuration(obj, expressions)
    return [as_worded(error, kind, version) for error in errors], tuple(expressions.checked)

"""Validation by kind, and the wording of errors in earlier server versions. The rules are the same in all versions.

Wordings are from `k8s.io/kubernetes/pkg/apis/admissionregistration/validation`, and
`k8s.io/apimachinery/pkg/util/validation` for keys and values of labels.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from msgspec.structs import replace

from replay.cellib.version import KubernetesVersion
from replay.json import JSON
from replay.kube.names import WORDING, wording_of
from replay.manifests.expression import CheckedExpression, Expressions
from replay.manifests.field_error import FieldError
from replay.manifests.validate.policy import (
    validate_mutating_binding,
    validate_mutating_policy,
    validate_validating_binding,
    validate_validating_policy,
)
from replay.manifests.validate.webhook import validate_webhook_configuration


def validate(
    kind: str, obj: JSON, version: KubernetesVersion
) -> tuple[list[FieldError], tuple[CheckedExpression, ...]]:
    """Return the errors of a defaulted object, and its compiled expressions."""
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


class _Rewording(NamedTuple):
    """Old wording `old` for the end `new` of an error.

    It was used before minor version `since`, for fields with this name.
    """

    since: int
    field: str
    new: str
    old: str


_REWORDED = (
    _Rewording(34, ".name", "must be a valid CEL identifier", "name is not a valid CEL identifier"),
    _Rewording(34, ".message", "must be non-empty if specified", "message must be non-empty if specified"),
    _Rewording(34, ".message", "must not contain line breaks", "message must not contain line breaks"),
)

_MATCH_RESOURCES = "spec.matchResources"
_MISSPELT_UNTIL = 31
_MATCH_RESOUCES = "spec.matchResouces"
"""The path of a binding's matchResources, as early errors misspelled it."""

_LENGTH = re.compile(rf"(must be no more than \d+) {WORDING.unit}\Z")


def as_worded(error: FieldError, kind: str, version: KubernetesVersion) -> FieldError:
    """Return an error of an object in the wording of a server version."""
    body = error.body
    for each in _REWORDED:
        if version.minor < each.since and error.path.endswith(each.field) and body.endswith(f": {each.new}"):
            body = body.removesuffix(each.new) + each.old
    words = wording_of(version.minor)
    if words is not WORDING:
        body = _LENGTH.sub(rf"\1 {words.unit}", body)
        head, separator, after = body.rpartition(f": {WORDING.key} ")
        body = f"{head}: {words.key} {after}" if separator else body
    shown = ""
    if version.minor <= _MISSPELT_UNTIL and kind.endswith("Binding") and error.path.startswith(_MATCH_RESOURCES):
        shown = _MATCH_RESOUCES + error.path.removeprefix(_MATCH_RESOURCES)
    return error if body is error.body and not shown else replace(error, body=body, shown_path=shown)

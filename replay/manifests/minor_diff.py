"""Expressions that compile on a server of only one of two versions, for the same objects and without a log."""

from __future__ import annotations

from collections.abc import Iterator

from replay.cellib.environment import ExpressionKind
from replay.cellib.expression import ExpressionCompiler
from replay.cellib.version import KubernetesVersion, Versions
from replay.kube.admissionregistration import (
    ManifestSet,
    MutatingAdmissionPolicy,
    ValidatingAdmissionPolicy,
    Webhook,
)
from replay.manifests.object_diff import FieldDiff, ObjectDiff, Verb

COMPILES = "compiles"
_MUTATIONS = {"ApplyConfiguration": ExpressionKind.APPLY_CONFIGURATION, "JSONPatch": ExpressionKind.JSON_PATCH}
_Field = tuple[str, ExpressionKind | None, str, str]
"""Path of an expression, its kind (None for a variable), the name of the variable, and the text."""


def diff_minors(current: ManifestSet, candidate: ManifestSet, versions: Versions) -> Iterator[ObjectDiff]:
    """Yield the unchanged objects with expressions that compile on only one server, with the error of the other."""
    if not versions.differ:
        return
    before, after = ({(kind, name): each for kind, name, each in _holders(of_set)} for of_set in (current, candidate))
    for key, holder in after.items():
        if before.get(key) != holder:
            continue
        old, new = (dict(_errors(holder, version)) for version in versions)
        changes = tuple(_changes(old, new, versions))
        if changes:
            yield ObjectDiff(*key, Verb.CHANGED, changes)


def _changes(before: dict[str, str], after: dict[str, str], versions: Versions) -> Iterator[FieldDiff]:
    for path, old in before.items():
        new = after[path]
        if bool(old) != bool(new):
            told = (f"on {minor}: {text or COMPILES}" for minor, text in zip(versions, (old, new), strict=True))
            yield FieldDiff(path, Verb.CHANGED, *told)


def _holders(
    manifests: ManifestSet,
) -> Iterator[tuple[str, str, ValidatingAdmissionPolicy | MutatingAdmissionPolicy | Webhook]]:
    for validating in manifests.validating_policies:
        yield "ValidatingAdmissionPolicy", validating.name, validating
    for mutating in manifests.mutating_policies:
        yield "MutatingAdmissionPolicy", mutating.name, mutating
    for kind, configurations in (
        ("ValidatingWebhookConfiguration", manifests.validating_webhooks),
        ("MutatingWebhookConfiguration", manifests.mutating_webhooks),
    ):
        for configuration in configurations:
            for webhook in configuration.webhooks:
                yield kind, f"{configuration.name}/{webhook.name}", webhook


def _errors(
    holder: ValidatingAdmissionPolicy | MutatingAdmissionPolicy | Webhook, version: KubernetesVersion
) -> Iterator[tuple[str, str]]:
    """Yield the error of each stored expression in one line. It is empty if the expression compiles."""
    has_params = not isinstance(holder, Webhook) and holder.param_kind is not None
    compiler = ExpressionCompiler(version, has_params=has_params)
    for path, kind, name, expression in _fields(holder):
        compiled = compiler.declare_variable(name, expression) if kind is None else compiler.compile(kind, expression)
        yield path, " ".join((compiled.error or "").partition("\n |")[0].split())


def _fields(holder: ValidatingAdmissionPolicy | MutatingAdmissionPolicy | Webhook) -> Iterator[_Field]:
    prefix = "" if isinstance(holder, Webhook) else "spec."
    if not isinstance(holder, Webhook):
        for index, variable in enumerate(holder.variables):
            yield f"spec.variables[{index}].expression", None, variable.name, variable.expression
    for index, condition in enumerate(holder.match_conditions):
        path = f"{prefix}matchConditions[{index}].expression"
        yield path, ExpressionKind.MATCH_CONDITION, "", condition.expression
    if isinstance(holder, MutatingAdmissionPolicy):
        for index, mutation in enumerate(holder.mutations):
            part = mutation.patch_type[0].lower() + mutation.patch_type[1:]
            path = f"spec.mutations[{index}].{'jsonPatch' if part == 'jSONPatch' else part}.expression"
            yield path, _MUTATIONS[mutation.patch_type], "", mutation.expression
    elif isinstance(holder, ValidatingAdmissionPolicy):
        for index, validation in enumerate(holder.validations):
            yield f"spec.validations[{index}].expression", ExpressionKind.VALIDATION, "", validation.expression
            if validation.message_expression:
                path = f"spec.validations[{index}].messageExpression"
                yield path, ExpressionKind.MESSAGE_EXPRESSION, "", validation.message_expression
        for index, annotation in enumerate(holder.audit_annotations):
            path = f"spec.auditAnnotations[{index}].valueExpression"
            yield path, ExpressionKind.AUDIT_ANNOTATION, "", annotation.value_expression

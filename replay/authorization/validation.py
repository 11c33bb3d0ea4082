"""Validation of an AuthorizationConfiguration (`k8s.io/apiserver/pkg/apis/apiserver/validation`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replay.authorization.configuration import (
    AuthorizationConfiguration,
    AuthorizerConfiguration,
    AuthorizerWebhook,
    ServerFiles,
)
from replay.authorization.match_condition import MOST_CONDITIONS
from replay.cellib.authorization import compile_condition
from replay.cellib.library.strings import GO_SPACE
from replay.cellib.version import KubernetesVersion
from replay.go.time import SECOND, duration_text
from replay.kube.names import dns1123_subdomain
from replay.manifests.field_error import (
    FieldError,
    duplicate,
    internal,
    invalid,
    not_supported,
    not_supported_struct,
    required,
    too_many,
)

TYPES = ("ABAC", "AlwaysAllow", "AlwaysDeny", "Node", "RBAC", "Webhook")
"""Authorizer types of a kube-apiserver (`k8s.io/kubernetes/pkg/kubeapiserver/authorizer/modes`), sorted."""
WEBHOOK = "Webhook"
IN_CLUSTER, KUBE_CONFIG_FILE = "InClusterConfig", "KubeConfigFile"
_FAILURE_POLICIES = ("NoOpinion", "Deny")
_REVIEW_VERSIONS = ("v1", "v1beta1")
_MAX_TIMEOUT = 30 * SECOND


def validate_configuration(
    configuration: AuthorizationConfiguration, version: KubernetesVersion, files: ServerFiles
) -> Iterator[FieldError]:
    """Yield all errors, in the server's order."""
    if not configuration.authorizers:
        yield required("authorizers", "at least one authorization mode must be defined")
    types: set[str] = set()
    names: set[str] = set()
    for index, authorizer in enumerate(configuration.authorizers):
        path = f"authorizers[{index}]"
        problem = _type_problem(authorizer.type, path, types)
        if problem is not None:
            yield problem
            continue
        types.add(authorizer.type)
        yield from _validate_name(authorizer.name, f"{path}.name", names)
        names.add(authorizer.name)
        yield from _validate_webhook(authorizer, path, version, files)


def _type_problem(type_: str, path: str, types: set[str]) -> FieldError | None:
    if not type_:
        return required(f"{path}.type")
    if type_ not in TYPES:
        return not_supported(f"{path}.type", type_, TYPES)
    return duplicate(f"{path}.type", type_) if type_ in types and type_ != WEBHOOK else None


def _validate_name(name: str, path: str, names: set[str]) -> Iterator[FieldError]:
    if not name:
        yield required(path)
    elif name in names:
        yield duplicate(path, name)
    elif problems := dns1123_subdomain(name):
        yield invalid(path, name, f"authorizer name is invalid: {', '.join(problems)}")


def _validate_webhook(
    authorizer: AuthorizerConfiguration, path: str, version: KubernetesVersion, files: ServerFiles
) -> Iterator[FieldError]:
    webhook = authorizer.webhook
    if authorizer.type != WEBHOOK:
        if webhook is not None:
            yield invalid(f"{path}.webhook", "non-null", "may only be specified when type=Webhook")
        return
    if webhook is None:
        yield required(f"{path}.webhook", "required when type=Webhook")
        return
    yield from _validate_times(webhook, path)
    yield from _validate_versions(webhook, path)
    if not webhook.failure_policy:
        yield required(f"{path}.failurePolicy")
    elif webhook.failure_policy not in _FAILURE_POLICIES:
        yield not_supported(f"{path}.failurePolicy", webhook.failure_policy, _FAILURE_POLICIES)
    yield from _validate_connection(webhook, f"{path}.connectionInfo", files)
    yield from validate_conditions(webhook.match_conditions or (), f"{path}.matchConditions", version)


def _validate_times(webhook: AuthorizerWebhook, path: str) -> Iterator[FieldError]:
    """Yield the errors of the timeout and the TTLs. As in the server, their paths lack `webhook`."""
    if not webhook.timeout:
        yield required(f"{path}.timeout")
    # The message differs from the test because a timeout of zero is already reported as missing.
    elif not 0 <= webhook.timeout <= _MAX_TIMEOUT:
        yield invalid(f"{path}.timeout", duration_text(webhook.timeout), "must be > 0s and <= 30s")
    for field, value in (("authorizedTTL", webhook.authorized_ttl), ("unauthorizedTTL", webhook.unauthorized_ttl)):
        if value < 0:
            yield invalid(f"{path}.{field}", duration_text(value), "must be > 0s")


def _validate_versions(webhook: AuthorizerWebhook, path: str) -> Iterator[FieldError]:
    version = webhook.subject_access_review_version
    if not version:
        yield required(f"{path}.subjectAccessReviewVersion")
    elif version not in _REVIEW_VERSIONS:
        yield not_supported(f"{path}.subjectAccessReviewVersion", version, _REVIEW_VERSIONS)
    version, field = webhook.match_condition_subject_access_review_version, "matchConditionSubjectAccessReviewVersion"
    if not version and webhook.match_conditions:
        yield required(f"{path}.{field}", "required if match conditions are specified")
    elif version not in ("", "v1"):
        yield not_supported(f"{path}.{field}", version, ("v1",))


def _validate_connection(webhook: AuthorizerWebhook, path: str, files: ServerFiles) -> Iterator[FieldError]:
    kind, file, file_path = webhook.connection_type, webhook.kube_config_file, f"{path}.kubeConfigFile"
    if not kind:
        yield required(f"{path}.type")
    elif kind == IN_CLUSTER:
        if file is not None:
            yield invalid(file_path, file, "can only be set when type=KubeConfigFile")
    elif kind != KUBE_CONFIG_FILE:
        shown = {"Type": kind, "KubeConfigFile": file}
        yield not_supported_struct(f"{path}.type", shown, (IN_CLUSTER, KUBE_CONFIG_FILE))
    elif not file:
        yield required(file_path)
    elif not file.startswith("/"):
        yield invalid(file_path, file, "must be an absolute path")
    elif problem := files.problem(file):
        yield invalid(file_path, file, problem)


def validate_conditions(expressions: Sequence[str], path: str, version: KubernetesVersion) -> Iterator[FieldError]:
    """Yield the errors of the match conditions of a webhook: blank, duplicate, or not a Boolean."""
    if len(expressions) > MOST_CONDITIONS:
        yield too_many(path, len(expressions), MOST_CONDITIONS)
        return
    earlier_expressions: set[str] = set()
    for index, expression in enumerate(expressions):
        own = f"{path}[{index}].expression"
        if not expression.strip(GO_SPACE):
            yield required(own)
        elif expression in earlier_expressions:
            yield duplicate(own, expression)
        else:
            earlier_expressions.add(expression)
            compiled = compile_condition(version, expression)
            if compiled.error is None:
                continue
            if compiled.is_internal_error:
                yield internal(own, compiled.error)
            else:
                yield invalid(own, expression, compiled.error)


def validate_names(configuration: AuthorizationConfiguration) -> Iterator[str]:
    """Yield the errors that a kube-apiserver adds (`LoadAndValidateData`).

    The name of an authorizer must be its type, except for webhooks.
    """
    for authorizer in configuration.authorizers:
        expected = authorizer.type.lower()
        if authorizer.type != WEBHOOK and authorizer.name != expected:
            yield f"expected name {expected} for authorizer {authorizer.type} instead of {authorizer.name}"

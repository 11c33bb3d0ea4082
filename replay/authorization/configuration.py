"""The AuthorizationConfiguration of a server, read as strictly as the server does.

See `k8s.io/apiserver/pkg/apis/apiserver/load`. The configuration names files of the server, of which local copies may
be known.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct, field

from replay.authorization.abac import ABACPolicy
from replay.authorization.match_condition import MOST_CONDITIONS
from replay.cellib.authorization import compile_condition
from replay.cellib.library.strings import GO_SPACE
from replay.cellib.version import KubernetesVersion
from replay.go.time import SECOND, duration_text, parse_duration
from replay.json import JSON
from replay.kube.names import dns1123_subdomain
from replay.manifests.finding import (
    FieldError,
    duplicate,
    internal,
    invalid,
    not_supported,
    not_supported_struct,
    required,
    too_many,
)
from replay.manifests.go_type.decode import Problem
from replay.manifests.go_type.schema import SCHEME_NAME, Registered, Scheme
from replay.manifests.read.document_reader import UndecodableError, read_object
from replay.manifests.read.documents import os_reason


class ServerFiles(Struct):
    """The files of a server below `root`, at their path on the server or by name only.

    Without `root`, nothing is known about the files, and `unseen` collects their paths.
    """

    root: Path | None = None
    unseen: list[str] = field(default_factory=list)

    def problem(self, path: str) -> str | None:
        """Return the server's validation error for a file, or None if the file is regular or unknown."""
        local = self.local(path)
        if local is None:
            self.unseen.append(path)
            return None
        try:
            mode = local.stat().st_mode
        except OSError as error:
            return f"error loading file: stat {path}: {os_reason(error)}"
        return None if stat.S_ISREG(mode) else "must be a regular file"

    def local(self, path: str) -> Path | None:
        """Return the local path of a server's file, or None if it is unknown."""
        if self.root is None:
            return None
        mirror = self.root / path.lstrip("/")
        return mirror if mirror.parent.is_dir() else self.root / Path(path).name


_GROUP, _LEGACY_GROUP = "apiserver.config.k8s.io", "apiserver.k8s.io"
_KIND = "AuthorizationConfiguration"
_SHARED_KINDS = ("AuthenticationConfiguration", _KIND, "TracingConfiguration")
_KINDS = {
    f"{_GROUP}/v1": (*_SHARED_KINDS, "AdmissionConfiguration", "EncryptionConfiguration"),
    f"{_GROUP}/v1beta1": _SHARED_KINDS,
    f"{_GROUP}/v1alpha1": _SHARED_KINDS,
    f"{_LEGACY_GROUP}/v1beta1": ("EgressSelectorConfiguration",),
    f"{_LEGACY_GROUP}/v1alpha1": ("AdmissionConfiguration", "EgressSelectorConfiguration"),
}
_UNVERSIONED = ("Status", "APIVersions", "APIGroupList", "APIGroup", "APIResourceList")
_DEFAULT_AUTHORIZED_TTL, _DEFAULT_UNAUTHORIZED_TTL = parse_duration("5m"), parse_duration("30s")


def _registered(api_version: str, kind: str) -> Registered:
    """Return a kind of the server's configuration.

    Strict decoding comes before the test whether the kind is the expected one.
    """
    return Registered(kind, f"v1.{kind}", api_version.rpartition("/")[2], f"apiserver.{kind}")


_SCHEME = Scheme(
    {(version, kind): _registered(version, kind) for version, kinds in _KINDS.items() for kind in kinds}
    | {
        ("v1", "EncryptionConfig"): Registered(
            "EncryptionConfig", "v1.EncryptionConfiguration", "v1", "apiserver.EncryptionConfiguration"
        )
    },
    {kind: Registered(kind, "runtime.Unknown") for kind in _UNVERSIONED},
    SCHEME_NAME,
)


class ConfigurationError(Exception):
    """A file that the server cannot load. `str()` is the server's text, `problems` have the positions."""

    def __init__(self, text: str, problems: tuple[Problem, ...] = ()) -> None:
        """`text` is the text of the server."""
        super().__init__(text)
        self.problems = problems


class AuthorizerWebhook(Struct, frozen=True):
    """Settings for calling a webhook. Times are in nanoseconds. `match_conditions` None and empty differ, as in Go."""

    authorized_ttl: int
    cache_authorized_requests: bool
    unauthorized_ttl: int
    cache_unauthorized_requests: bool
    timeout: int
    subject_access_review_version: str
    match_condition_subject_access_review_version: str
    failure_policy: str
    connection_type: str
    kube_config_file: str | None
    match_conditions: tuple[str, ...] | None


class AuthorizerConfiguration(Struct, frozen=True):
    """One authorizer of the chain."""

    type: str
    name: str
    webhook: AuthorizerWebhook | None = None
    policies: tuple[ABACPolicy, ...] | None = None
    """Policies of ABAC. None if their file is unknown."""


class AuthorizationConfiguration(Struct, frozen=True):
    """The configured chain, with defaults."""

    authorizers: tuple[AuthorizerConfiguration, ...]


def read_configuration(data: bytes) -> AuthorizationConfiguration:
    """Decode a file and set the defaults. An empty file is an empty configuration. Raises ConfigurationError."""
    if not data:
        return AuthorizationConfiguration(())
    try:
        decoded = read_object(data, 1, _SCHEME)
    except UndecodableError as error:
        raise ConfigurationError(f"failed to load {_KIND} from file: {error}", error.problems) from error
    if decoded.registered.kind != _KIND:
        text = f"expected {_KIND}, got {decoded.registered.shown}"
        raise ConfigurationError(f"failed to load {_KIND} from file: {text}")
    return AuthorizationConfiguration(tuple(map(_authorizer, decoded.value.get("authorizers") or ())))


def _authorizer(value: JSON) -> AuthorizerConfiguration:
    webhook = value.get("webhook")
    return AuthorizerConfiguration(value["type"], value["name"], None if webhook is None else _webhook(webhook))


def _webhook(value: JSON) -> AuthorizerWebhook:
    """Return the configuration of a webhook with the defaults of `SetDefaults_WebhookConfiguration`.

    A time of zero counts as left out.
    """
    conditions = value["matchConditions"]
    return AuthorizerWebhook(
        # For the defaulting in Go, a TTL of zero is not set.
        authorized_ttl=_nanoseconds(value["authorizedTTL"]) or _DEFAULT_AUTHORIZED_TTL,
        cache_authorized_requests=value.get("cacheAuthorizedRequests", True),
        unauthorized_ttl=_nanoseconds(value["unauthorizedTTL"]) or _DEFAULT_UNAUTHORIZED_TTL,
        cache_unauthorized_requests=value.get("cacheUnauthorizedRequests", True),
        timeout=_nanoseconds(value["timeout"]),
        subject_access_review_version=value["subjectAccessReviewVersion"],
        match_condition_subject_access_review_version=value["matchConditionSubjectAccessReviewVersion"],
        failure_policy=value["failurePolicy"],
        connection_type=value["connectionInfo"]["type"],
        kube_config_file=value["connectionInfo"]["kubeConfigFile"],
        match_conditions=None if conditions is None else tuple(condition["expression"] for condition in conditions),
    )


def _nanoseconds(text: str) -> int:
    return parse_duration(text) if text else 0


def mode_configuration(modes: tuple[str, ...]) -> AuthorizationConfiguration:
    """Return the configuration of `--authorization-mode`. Each authorizer has the name of its mode."""
    return AuthorizationConfiguration(tuple(AuthorizerConfiguration(mode, mode.lower()) for mode in modes))


# Validation of an AuthorizationConfiguration (`k8s.io/apiserver/pkg/apis/apiserver/validation`).

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
    for name, value in (("authorizedTTL", webhook.authorized_ttl), ("unauthorizedTTL", webhook.unauthorized_ttl)):
        if value < 0:
            yield invalid(f"{path}.{name}", duration_text(value), "must be > 0s")


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

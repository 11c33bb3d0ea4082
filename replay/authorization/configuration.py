"""The AuthorizationConfiguration of a server, read as strictly as the server does.

See `k8s.io/apiserver/pkg/apis/apiserver/load`. The configuration names files of the server, of which local copies may
be known.
"""

from __future__ import annotations

import stat
from pathlib import Path

from msgspec import Struct, field

from replay.authorization.abac import ABACPolicy
from replay.go.time import parse_duration
from replay.json import JSON
from replay.manifests.go_type.decode import Problem
from replay.manifests.go_type.scheme import SCHEME_NAME, Registered, Scheme
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
_DECODED = frozenset({_KIND, "AdmissionConfiguration"})
"""Kinds whose fields are known. Of the other kinds only the name is read."""
_UNVERSIONED = ("Status", "APIVersions", "APIGroupList", "APIGroup", "APIResourceList")
_ANY = "runtime.Unknown"
_DEFAULT_AUTHORIZED_TTL, _DEFAULT_UNAUTHORIZED_TTL = parse_duration("5m"), parse_duration("30s")


def _registered(api_version: str, kind: str) -> Registered:
    """Return a kind of the server's configuration.

    Strict decoding comes before the test whether the kind is the expected one.
    """
    go_type = f"v1.{kind}" if kind in _DECODED else _ANY
    return Registered(kind, go_type, api_version.rpartition("/")[2], f"apiserver.{kind}")


_SCHEME = Scheme(
    {(version, kind): _registered(version, kind) for version, kinds in _KINDS.items() for kind in kinds}
    | {("v1", "EncryptionConfig"): Registered("EncryptionConfig", _ANY, "v1", "apiserver.EncryptionConfiguration")},
    {kind: Registered(kind, _ANY) for kind in _UNVERSIONED},
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

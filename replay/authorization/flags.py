"""The authorization flags of a kube-apiserver, and the reasons for which it refuses them before it starts.

`pkg/kubeapiserver/options/authorization.go` of Kubernetes: `Validate` has the texts, and
`buildAuthorizationConfiguration` builds the configuration from flags that name no file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from replay.authorization.abac import ABACPolicy, PolicyFileError, read_policies
from replay.authorization.configuration import (
    TYPES,
    WEBHOOK,
    AuthorizationConfiguration,
    AuthorizerConfiguration,
    AuthorizerWebhook,
)
from replay.authorization.start import kubeconfig_error
from replay.cellib.version import KubernetesVersion
from replay.checkout import require_inside
from replay.errors import ManifestError
from replay.go.format import quote
from replay.go.time import parse_duration
from replay.manifests.server.flags import ServerFlags, read_server_flags, server_file_of

ABAC: Final = "ABAC"
MODE, CONFIGURATION, POLICY_FILE = "authorization-mode", "authorization-config", "authorization-policy-file"
WEBHOOK_FILE, WEBHOOK_VERSION = "authorization-webhook-config-file", "authorization-webhook-version"
AUTHORIZED_TTL = "authorization-webhook-cache-authorized-ttl"
UNAUTHORIZED_TTL = "authorization-webhook-cache-unauthorized-ttl"
_LEGACY: Final = (MODE, WEBHOOK_FILE, WEBHOOK_VERSION, AUTHORIZED_TTL, UNAUTHORIZED_TTL)
"""Flags that cannot be combined with a configuration file (`AreLegacyFlagsSet`)."""
_GATE, _GATE_IS_FIXED = "StructuredAuthorizationConfiguration", 32
_AUTHENTICATION, _OIDC = "authentication-config", ("oidc-issuer-url", "oidc-client-id")
_AUTHENTICATION_GATE, _AUTHENTICATION_GATE_IS_FIXED = "StructuredAuthenticationConfiguration", 34
_VERSIONS = ("v1", "v1beta1")
_TIMEOUT = 30_000_000_000
_DEFAULTS = {WEBHOOK_VERSION: "v1beta1", AUTHORIZED_TTL: "5m", UNAUTHORIZED_TTL: "30s"}


def flags_of(path: Path, version: KubernetesVersion) -> ServerFlags | None:
    """Return the server flags of a set, or None if the set has none. Raises ManifestError."""
    server = server_file_of(path)
    return None if server is None else read_server_flags(server, version)


def says_authorization(flags: ServerFlags) -> bool:
    """Return whether any flag is about authorization."""
    return any(name in flags.values for name in (*_LEGACY, CONFIGURATION, POLICY_FILE))


def problems_of(flags: ServerFlags, version: KubernetesVersion) -> Iterator[str]:
    """Yield the server's reasons for not starting with these flags.

    The contents of its configuration file are checked elsewhere.
    """
    yield from _authentication_problems(flags, version)
    if not flags.values.get(CONFIGURATION):
        yield from _mode_problems(flags)
    elif version.minor < _GATE_IS_FIXED and flags.gates.get(_GATE) is False:
        yield f"--{CONFIGURATION} cannot be used without enabling {_GATE} feature flag"
    elif any(name in flags.values for name in _LEGACY):
        yield f"--{CONFIGURATION} can not be specified when --{MODE} or --authorization-webhook-* flags are defined"


def _authentication_problems(flags: ServerFlags, version: KubernetesVersion) -> Iterator[str]:
    """Yield the problems of the flags that configure authentication (`validateOIDCOptions`).

    The other rules of these flags do not matter here, because the log says who each user was.
    """
    has_oidc = any(name.startswith("oidc-") for name in flags.values)
    if not flags.values.get(_AUTHENTICATION):
        if has_oidc and not all(flags.values.get(name) for name in _OIDC):
            yield "oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set"
        return
    if version.minor < _AUTHENTICATION_GATE_IS_FIXED and flags.gates.get(_AUTHENTICATION_GATE) is False:
        yield f"set --feature-gates={_AUTHENTICATION_GATE}=true to use authentication-config file"
    if has_oidc:
        yield "authentication-config file and oidc-* flags are mutually exclusive"


def _mode_problems(flags: ServerFlags) -> Iterator[str]:
    """Yield the problems of flags that name authorization modes."""
    values, modes = flags.values, flags.names(MODE) or ()
    for mode in modes:
        if mode not in TYPES:
            yield f"authorization-mode {quote(mode)} is not a valid mode"
        if mode == ABAC and not values.get(POLICY_FILE):
            yield "authorization-mode ABAC's authorization policy file not passed"
        if mode == WEBHOOK and not values.get(WEBHOOK_FILE):
            yield "authorization-mode Webhook's authorization config file not passed"
    if values.get(POLICY_FILE) and ABAC not in modes:
        yield f"cannot specify --{POLICY_FILE} without mode ABAC"
    if values.get(WEBHOOK_FILE) and WEBHOOK not in modes:
        yield f"cannot specify --{WEBHOOK_FILE} without mode Webhook"
    if len(set(modes)) != len(modes):
        yield f"authorization-mode [{' '.join(map(quote, modes))}] has mode specified more than once"


def built_problem(flags: ServerFlags) -> str | None:
    """Return why the authorizers of valid flags cannot be built, or None.

    Only the files beside the set can be read.
    """
    modes = flags.names(MODE) or ()
    try:
        if ABAC in modes:
            _policies(flags)
    except PolicyFileError as error:
        return str(error)
    served = flags.values.get(WEBHOOK_VERSION, _DEFAULTS[WEBHOOK_VERSION])
    if WEBHOOK in modes and served not in _VERSIONS:
        known = ", ".join(map(quote, _VERSIONS))
        return f"unsupported webhook authorizer version {quote(served)}, supported versions are {known}"
    local = _local(flags, WEBHOOK_FILE)
    return None if local is None else kubeconfig_error(local, flags.values[WEBHOOK_FILE])


def _policies(flags: ServerFlags) -> tuple[ABACPolicy, ...] | None:
    """Return the ABAC policies, or None if their file is not beside the set. Raises PolicyFileError."""
    local = _local(flags, POLICY_FILE)
    return None if local is None else read_policies(local.read_bytes(), flags.values[POLICY_FILE])


def refusal_of(flags: ServerFlags, version: KubernetesVersion) -> str | None:
    """Return the text with which a server refuses its authorization flags, or None if it accepts them."""
    texts = list(dict.fromkeys(problems_of(flags, version)))
    if texts:
        return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    return built_problem(flags)


def configuration_of_flags(flags: ServerFlags) -> AuthorizationConfiguration:
    """Return the chain of flags that name modes and no file. Without a mode, everything is allowed (`Complete`)."""
    modes = flags.names(MODE) or ("AlwaysAllow",)
    webhook = _webhook(flags) if WEBHOOK in modes else None
    return AuthorizationConfiguration(
        tuple(
            AuthorizerConfiguration(mode, "default", webhook)
            if mode == WEBHOOK
            else AuthorizerConfiguration(mode, mode.lower(), policies=_policies(flags) if mode == ABAC else None)
            for mode in modes
        )
    )


def _webhook(flags: ServerFlags) -> AuthorizerWebhook:
    values = _DEFAULTS | dict(flags.values)
    authorized, unauthorized = parse_duration(values[AUTHORIZED_TTL]), parse_duration(values[UNAUTHORIZED_TTL])
    return AuthorizerWebhook(
        authorized_ttl=authorized,
        # A TTL of zero switches the cache off: flags have no other way to say so.
        cache_authorized_requests=authorized != 0,
        unauthorized_ttl=unauthorized,
        cache_unauthorized_requests=unauthorized != 0,
        timeout=_TIMEOUT,
        subject_access_review_version=values[WEBHOOK_VERSION],
        match_condition_subject_access_review_version="",
        failure_policy="NoOpinion",
        connection_type="KubeConfigFile",
        kube_config_file=values[WEBHOOK_FILE],
        match_conditions=None,
    )


def local_configuration(flags: ServerFlags) -> Path | None:
    """Return the local path of the file of `--authorization-config`, or None if it is not beside the set.

    Raises ReplayError for a path that leads out of a checkout.
    """
    return _local(flags, CONFIGURATION)


def _local(flags: ServerFlags, flag: str) -> Path | None:
    """Return the local path of the file that a flag names, or None.

    Searched are the path below the directory of the set, and the name in the directory and beside it.
    """
    named, directory = flags.values.get(flag, ""), Path(flags.path).parent
    if not named:
        return None
    name = Path(named).name
    above = directory.parent if directory.parts else directory.absolute().parent
    for path in (directory / named.lstrip("/"), directory / name, above / name):
        if path.is_file():
            require_inside(path, flags.path)
            return path
    return None


def unseen_files(flags: ServerFlags) -> Iterator[str]:
    """Yield a text for each file of the flags that is not beside the set."""
    for flag in (CONFIGURATION, POLICY_FILE, WEBHOOK_FILE):
        if flags.values.get(flag) and _local(flags, flag) is None:
            yield f"--{flag} names {flags.values[flag]}, which is not beside the set"


def require_flags(flags: ServerFlags, version: KubernetesVersion) -> None:
    """Raise ManifestError, with the server's text, for authorization flags with which a server does not start."""
    refusal = refusal_of(flags, version)
    if refusal is not None:
        raise ManifestError(refusal, path=flags.path)

"""The result when a server starts with an AuthorizationConfiguration, or reloads it.

The kubeconfig file of a webhook shows whether the webhook can be called (`k8s.io/client-go/tools/clientcmd`).
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Final

import yaml
from msgspec import Struct

from replay.authorization.abac import ABACPolicy, PolicyFileError, read_policies
from replay.authorization.configuration import (
    TYPES,
    WEBHOOK,
    AuthorizationConfiguration,
    AuthorizerConfiguration,
    AuthorizerWebhook,
    ConfigurationError,
    ServerFiles,
    mode_configuration,
    read_configuration,
    validate_configuration,
    validate_names,
)
from replay.cellib.version import KubernetesVersion
from replay.checkout import require_inside
from replay.errors import ManifestError, ReplayError
from replay.go.format import aggregate, quote
from replay.go.time import parse_duration
from replay.json import JSON
from replay.manifests.finding import FieldError
from replay.manifests.go_type.decode import Problem, json_type, plain
from replay.manifests.read.document_reader import UndecodableError, read_untyped
from replay.manifests.read.documents import os_reason
from replay.manifests.read.node import Mapping, Node, Scalar, Sequence
from replay.manifests.server.flags import ServerFlags, read_server_flags, server_file_of

_EMPTY = "invalid configuration: no configuration has been provided, try setting KUBERNETES_MASTER environment variable"
_LISTS = {"clusters": "NamedCluster", "users": "NamedAuthInfo", "contexts": "NamedContext"}


def _kubeconfig_error(local: Path, path: str) -> str | None:
    """Return the server's text for a kubeconfig that it cannot use, or None. `path` is its path in the configuration."""
    try:
        node = read_untyped(local.read_bytes(), "v1", "Config")
    except OSError as error:
        return f"error loading config file {quote(path)}: open {path}: {os_reason(error)}"
    except UndecodableError as error:
        return f"error loading config file {quote(path)}: {error}"
    if not isinstance(node, Mapping):
        return _EMPTY
    mismatch = _mismatch(node)
    if mismatch is not None:
        return f"error loading config file {quote(path)}: {mismatch}"
    problems = _problems(plain(node))
    if not problems or problems[0] == _EMPTY:
        return problems[0] if problems else None
    return f"invalid configuration: {aggregate(problems)}"


def _mismatch(node: Mapping) -> str | None:
    """Return the error of the first list of the wrong type, as Go's JSON decoder reports it. None if there is none."""
    for entry in node.entries:
        if entry.key in _LISTS and not isinstance(entry.value, Sequence) and not _is_null(entry.value):
            go_type = f"Config.{entry.key} of type []v1.{_LISTS[entry.key]}"
            return f"json: cannot unmarshal {json_type(entry.value)} into Go struct field {go_type}"
    return None


def _is_null(node: Node) -> bool:
    return isinstance(node, Scalar) and node.value is None


def _problems(config: JSON) -> list[str]:
    """Return the reasons for which the current context is unusable (`ConfirmUsable`)."""
    contexts, clusters = _named(config, "contexts", "context"), _named(config, "clusters", "cluster")
    current = config.get("current-context") or ""
    if not current:
        return [_EMPTY]
    if current not in contexts:
        return [f"context was not found for specified context: {current}", "cluster has no server defined"]
    name = contexts[current].get("cluster") or ""
    cluster = clusters.get(name)
    if not cluster:
        return [_EMPTY]
    return [] if cluster.get("server") else [f"no server found for cluster {quote(name)}"]


def _named(config: JSON, field: str, inner: str) -> dict[str, JSON]:
    entries = (entry for entry in config.get(field) or () if isinstance(entry, dict))
    return {str(entry.get("name") or ""): entry.get(inner) or {} for entry in entries}


PANIC = "invalid memory address or nil pointer dereference"
"""Text of the panic of a server whose webhook has no kubeconfig. The server dereferences its path without a test."""
_BUILT_AT_START = ("Node", "RBAC", "ABAC")


class LoadResult(StrEnum):
    """Result when a server loads a file."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    RELOADED = "reloaded"
    EQUAL = "accepted, equal to the loaded one"
    PANIC = "panic (server dies)"


class Checked(Struct, frozen=True):
    """The result for a file. `error` is the server's text, None if it continues. `warnings` are ours.

    `configuration` is set if the file could be decoded. `field_errors` and `problems` have the positions of errors.
    """

    result: LoadResult
    error: str | None = None
    configuration: AuthorizationConfiguration | None = None
    field_errors: tuple[FieldError, ...] = ()
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def is_accepted(self) -> bool:
        """Whether the server continues with the configuration."""
        return self.result not in (LoadResult.REFUSED, LoadResult.PANIC)

    @property
    def explained(self) -> str | None:
        """The error, with advice if the server's own text does not help."""
        if self.result is not LoadResult.PANIC or self.configuration is None:
            return self.error
        name = next(each.name for each in self.configuration.authorizers if _calls_itself(each))
        return (
            f"`{name}`: connectionInfo.type InClusterConfig: the server dies of it ({PANIC}), because it cannot call itself; "
            "name a kubeConfigFile"
        )


def check_start(data: bytes, version: KubernetesVersion, files: ServerFiles) -> Checked:
    """Return the result when a server starts with a file."""
    checked = _validated(data, version, files, frozenset())
    if checked.configuration is None or not checked.is_accepted:
        return checked
    return _built(checked, files, frozenset(each.type for each in checked.configuration.authorizers), at_start=True)


def check_reload(data: bytes, running: bytes, version: KubernetesVersion, files: ServerFiles) -> Checked:
    """Return the result when a server runs with the file `running` and that changes to `data`.

    Raises ConfigurationError if no server can start with `running`.
    """
    current = _validated(running, version, ServerFiles(), frozenset())
    if current.configuration is None or not current.is_accepted:
        raise ConfigurationError(current.error or "")
    enabled = frozenset(each.type for each in current.configuration.authorizers)
    checked = _validated(data, version, files, enabled - {WEBHOOK})
    if checked.configuration is None or not checked.is_accepted:
        return checked
    if checked.configuration == current.configuration:
        return _with(checked, LoadResult.EQUAL)
    return _built(checked, files, enabled, at_start=False)


def _validated(data: bytes, version: KubernetesVersion, files: ServerFiles, needed: frozenset[str]) -> Checked:
    """Load and validate a configuration. `needed` are the authorizer types that it must have."""
    try:
        configuration = read_configuration(data)
    except ConfigurationError as error:
        return Checked(LoadResult.REFUSED, str(error), problems=error.problems)
    errors = tuple(validate_configuration(configuration, version, files))
    warnings = tuple(f"{path} is a file of the server, which was not checked" for path in dict.fromkeys(files.unseen))
    if errors:
        return Checked(LoadResult.REFUSED, aggregate(errors), configuration, errors, (), warnings)
    texts = list(validate_names(configuration))
    missing = needed - {each.type for each in configuration.authorizers}
    if missing:
        texts.append(f"missing required types: [{' '.join(sorted(missing))}]")
    if texts:
        return Checked(LoadResult.REFUSED, aggregate(texts), configuration, warnings=warnings)
    return Checked(LoadResult.ACCEPTED, None, configuration, warnings=warnings)


def _built(checked: Checked, files: ServerFiles, enabled: frozenset[str], *, at_start: bool) -> Checked:
    """Build the authorizers one after the other, up to the first failure."""
    assert checked.configuration is not None
    authorizers = checked.configuration.authorizers
    if at_start and any(each.type == "ABAC" for each in authorizers):
        # A policy file is a flag, and flags do not go together with a configuration.
        return _with(checked, LoadResult.REFUSED, "open : no such file or directory")
    for authorizer in authorizers:
        if authorizer.type in _BUILT_AT_START and authorizer.type not in enabled:
            text = f"authorizer type {authorizer.type} is not allowed if it was not enabled at initial server startup"
            return _with(checked, LoadResult.REFUSED, text)
        if authorizer.webhook is None:
            continue
        if _calls_itself(authorizer):
            return _with(checked, LoadResult.PANIC, PANIC)
        path = authorizer.webhook.kube_config_file or ""
        local = files.local(path)
        error = _kubeconfig_error(local, path) if local is not None else None
        if error is not None:
            return _with(checked, LoadResult.REFUSED, error)
    return checked if at_start else _with(checked, LoadResult.RELOADED)


def _calls_itself(authorizer: AuthorizerConfiguration) -> bool:
    """Return whether a webhook has no kubeconfig, as with `InClusterConfig`.

    The webhook would be the server itself. The server expects a kubeconfig and panics.
    """
    return authorizer.webhook is not None and authorizer.webhook.kube_config_file is None


def _with(checked: Checked, result: LoadResult, error: str | None = None) -> Checked:
    return Checked(result, error, checked.configuration, warnings=checked.warnings)


# The authorization flags of a kube-apiserver, and the reasons for which it refuses them before it starts.
# `pkg/kubeapiserver/options/authorization.go` of Kubernetes: `Validate` has the texts, and `buildAuthorizationConfiguration` builds
# the configuration from flags that name no file.

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


def has_authorization_flags(flags: ServerFlags) -> bool:
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
    return None if local is None else _kubeconfig_error(local, flags.values[WEBHOOK_FILE])


def _policies(flags: ServerFlags) -> tuple[ABACPolicy, ...] | None:
    """Return the ABAC policies, or None if their file is not beside the set. Raises PolicyFileError."""
    local = _local(flags, POLICY_FILE)
    return None if local is None else read_policies(local.read_bytes(), flags.values[POLICY_FILE])


def refusal_of(flags: ServerFlags, version: KubernetesVersion) -> str | None:
    """Return the text with which a server refuses its authorization flags, or None if it accepts them."""
    return aggregate(problems_of(flags, version)) or built_problem(flags)


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


_MODE_OPTION, _CONFIGURATION_OPTION = f"--{MODE}", f"--{CONFIGURATION}"
_ALWAYS_ALLOW = "AlwaysAllow"


def configuration_of_mode(text: str) -> AuthorizationConfiguration:
    """Return the chain of `Node,RBAC`, or of the flag in the kube-apiserver manifest at this path.

    A server without the flag allows everything. Raise ReplayError for an unknown mode, and for a manifest that names
    an AuthorizationConfiguration.
    """
    path = Path(text)
    is_path = path.exists() or path.suffix in (".yaml", ".yml", ".json") or "/" in text
    flag = _flag_of(path) if is_path else text
    modes = tuple(flag.split(",")) if flag else (_ALWAYS_ALLOW,)
    for mode in modes:
        if mode not in TYPES:
            raise ReplayError(
                f"authorization-mode `{mode}` is not a valid mode; there are: {', '.join(TYPES)}", path=_MODE_OPTION
            )
    if len(set(modes)) != len(modes):
        raise ReplayError(f"authorization-mode `{flag}` has a mode more than once", path=_MODE_OPTION)
    return mode_configuration(modes)


def _flag_of(path: Path) -> str:
    """Return the flag's values in the manifest, joined as the server does, empty if absent."""
    try:
        manifest = yaml.safe_load(path.read_bytes())
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ReplayError(f"no kube-apiserver manifest: {str(error).splitlines()[0]}", path=str(path)) from error
    words = list(_words(manifest))
    if not any("kube-apiserver" in word for word in words):
        raise ReplayError("no kube-apiserver manifest: no container calls it", path=str(path))
    file = ",".join(_values(words, _CONFIGURATION_OPTION))
    if file:
        reason = f"the server reads its chain from {_CONFIGURATION_OPTION}={file}: give that file as authorization.yaml of a set"
        raise ReplayError(reason, path=str(path))
    return ",".join(_values(words, _MODE_OPTION))


def _words(manifest: JSON) -> Iterator[str]:
    """Yield the command lines of all containers. Values of a wrong type have none."""
    spec = manifest.get("spec") if isinstance(manifest, dict) else None
    containers = spec.get("containers") if isinstance(spec, dict) else None
    for container in containers if isinstance(containers, list) else ():
        for field in ("command", "args"):
            words = container.get(field) if isinstance(container, dict) else None
            yield from map(str, words if isinstance(words, list) else ())


def _values(words: list[str], flag: str) -> Iterator[str]:
    for place, word in enumerate(words):
        if word.startswith(f"{flag}="):
            yield word.partition("=")[2]
        elif word == flag and place + 1 < len(words):
            yield words[place + 1]

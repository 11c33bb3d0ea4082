"""The result when a server starts with an AuthorizationConfiguration, or reloads it.

The kubeconfig file of a webhook shows whether the webhook can be called (`k8s.io/client-go/tools/clientcmd`).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from replay.authorization.configuration import (
    WEBHOOK,
    AuthorizationConfiguration,
    AuthorizerConfiguration,
    ConfigurationError,
    ServerFiles,
    read_configuration,
    validate_configuration,
    validate_names,
)
from replay.cellib.version import KubernetesVersion
from replay.go.format import quote
from replay.json import JSON
from replay.manifests.field_error import FieldError, aggregate
from replay.manifests.go_type.decode import Problem, json_type, plain
from replay.manifests.read.document_reader import UndecodableError, read_untyped
from replay.manifests.read.documents import os_reason
from replay.manifests.read.node import Mapping, Node, Scalar, Sequence

_EMPTY = "invalid configuration: no configuration has been provided, try setting KUBERNETES_MASTER environment variable"
_LISTS = {"clusters": "NamedCluster", "users": "NamedAuthInfo", "contexts": "NamedContext"}


def kubeconfig_error(local: Path, path: str) -> str | None:
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
    message = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
    return f"invalid configuration: {message}"


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
    warnings = tuple(f"{path} lies on the server and was not looked at" for path in dict.fromkeys(files.unseen))
    if errors:
        return Checked(LoadResult.REFUSED, aggregate(errors), configuration, errors, (), warnings)
    texts = list(validate_names(configuration))
    missing = needed - {each.type for each in configuration.authorizers}
    if missing:
        texts.append(f"missing required types: [{' '.join(sorted(missing))}]")
    if texts:
        return Checked(LoadResult.REFUSED, _joined(texts), configuration, warnings=warnings)
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
        error = kubeconfig_error(local, path) if local is not None else None
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


def _joined(texts: Iterable[str]) -> str:
    distinct = list(dict.fromkeys(texts))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"

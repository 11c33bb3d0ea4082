"""What a server says about an AuthorizationConfiguration, when it starts with it and when it reloads it.

`k8s.io/kubernetes/pkg/kubeapiserver/authorizer`: load, validate, then build the authorizers. The types that a running server began
with bind it: all of them but webhooks must stay, and ABAC, Node and RBAC cannot be added.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct

from replay.authorization.configuration import (
    AuthorizationConfiguration,
    AuthorizerConfiguration,
    ConfigurationError,
    read_configuration,
)
from replay.authorization.kubeconfig import kubeconfig_error
from replay.authorization.server_file import ServerFiles
from replay.authorization.validation import WEBHOOK, validate_configuration, validate_names
from replay.cellib.version import KubernetesVersion
from replay.manifests.field_error import FieldError, aggregate
from replay.manifests.go_type.decode import Problem

PANIC = "invalid memory address or nil pointer dereference"
"""End of a server whose webhook lacks a kubeconfig: it assumes one."""
_BUILT_AT_START = ("Node", "RBAC", "ABAC")


class LoadResult(StrEnum):
    """Result of loading a file."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    RELOADED = "reloaded"
    EQUAL = "accepted, equal to the loaded one"
    PANIC = "panic (server dies)"


class Checked(Struct, frozen=True):
    """What a server says about a file: `error` is its text, None if it goes on; `warnings` are ours.

    `configuration` is there if it could be decoded, `field_errors` and `problems` say where something is wrong.
    """

    result: LoadResult
    error: str | None = None
    configuration: AuthorizationConfiguration | None = None
    field_errors: tuple[FieldError, ...] = ()
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def is_accepted(self) -> bool:
        """Return whether the server continues with it."""
        return self.result not in (LoadResult.REFUSED, LoadResult.PANIC)

    @property
    def explained(self) -> str | None:
        """The error, with what to do where the server does not say it."""
        if self.result is not LoadResult.PANIC or self.configuration is None:
            return self.error
        name = next(each.name for each in self.configuration.authorizers if _calls_itself(each))
        return (
            f"`{name}`: connectionInfo.type InClusterConfig: the server dies of it ({PANIC}), because it cannot call itself; "
            "name a kubeConfigFile"
        )


def check_start(data: bytes, version: KubernetesVersion, files: ServerFiles) -> Checked:
    """Return the result of a server start with a file."""
    checked = _validated(data, version, files, frozenset())
    if checked.configuration is None or not checked.is_accepted:
        return checked
    return _built(checked, files, frozenset(each.type for each in checked.configuration.authorizers), at_start=True)


def check_reload(data: bytes, running: bytes, version: KubernetesVersion, files: ServerFiles) -> Checked:
    """What a server says that was started with the file `running` when that becomes `data`.

    Raises ConfigurationError where no server starts with `running`.
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
    """Load and validation; `needed` are the types that must be there."""
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
    """Whether a webhook is the server that asks it: `InClusterConfig` has no kubeconfig, which the server takes for given."""
    return authorizer.webhook is not None and authorizer.webhook.kube_config_file is None


def _with(checked: Checked, result: LoadResult, error: str | None = None) -> Checked:
    return Checked(result, error, checked.configuration, warnings=checked.warnings)


def _joined(texts: Iterable[str]) -> str:
    distinct = list(dict.fromkeys(texts))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"

"""The file of `--admission-control-config-file` and the plugins that it configures (`k8s.io/apiserver/pkg/admission`).

The server builds its plugins one after the other. It stops at the first that fails on its own configuration or on its
manifests. The entries of other plugins are ignored, and an unknown name has no effect and no error.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from replay.cellib.version import KubernetesVersion
from replay.checkout import require_inside, require_links_inside
from replay.go.format import quote
from replay.manifests.finding import SERVER, FieldError, Finding, Severity, invalid
from replay.manifests.go_type.schema import Registered, Scheme
from replay.manifests.loader import LoadedDirectory, load_directory
from replay.manifests.plugin import ALL_PLUGINS, PluginName
from replay.manifests.read.document_reader import DecodedObject, UndecodableError, read_item, read_object
from replay.manifests.read.documents import Unreadable, os_reason, read_file
from replay.manifests.read.node import Mapping, Node, Position, Scalar, Sequence
from replay.manifests.served import NO_GATES, Gates, static_directory_problem

_GROUP = "apiserver.config.k8s.io"
_LEGACY_GROUP = "apiserver.k8s.io"
_LEGACY_KEYS = ("imagePolicy", "podNodeSelectorPluginConfig")

DEFAULT_PLUGINS = [each.name for each in ALL_PLUGINS if each.is_on]
"""Plugins that are on by default, in the server's order."""


_INTERNAL = "__internal"
_ADMISSION_CONFIGURATION = "AdmissionConfiguration"
_SERVER_KINDS = {
    f"{_GROUP}/v1": (
        _ADMISSION_CONFIGURATION,
        "AuthenticationConfiguration",
        "AuthorizationConfiguration",
        "EncryptionConfiguration",
        "TracingConfiguration",
    ),
    f"{_GROUP}/v1alpha1": ("AuthenticationConfiguration", "AuthorizationConfiguration", "TracingConfiguration"),
    f"{_LEGACY_GROUP}/v1alpha1": (_ADMISSION_CONFIGURATION, "EgressSelectorConfiguration"),
    f"{_GROUP}/{_INTERNAL}": (_ADMISSION_CONFIGURATION, "TracingConfiguration"),
    f"{_LEGACY_GROUP}/{_INTERNAL}": (_ADMISSION_CONFIGURATION, "EgressSelectorConfiguration"),
}
_POLICY_KINDS = ("ValidatingAdmissionPolicyConfiguration", "MutatingAdmissionPolicyConfiguration")
_WEBHOOK_KIND = "WebhookAdmissionConfiguration"


def _server_kind(api_version: str, kind: str) -> Registered:
    """Return a kind of the server's own configuration. Of a kind that is not expected, only apiVersion and kind are read."""
    version = api_version.rpartition("/")[2]
    is_decoded = kind == _ADMISSION_CONFIGURATION and version != _INTERNAL
    return Registered(kind, f"v1.{kind}" if is_decoded else "v1.TypeMeta", version, f"apiserver.{kind}")


def _plugin_scheme(kinds: Iterable[str], go_types: dict[str, str], package: str) -> Scheme:
    """Return the scheme of a plugin's configuration.

    The internal version has no JSON names, so every field is unknown in it.
    """
    registry = {}
    for kind in kinds:
        go_type = go_types.get(kind, kind)
        for version in ("v1", _INTERNAL):
            decoded = "v1.TypeMeta" if version == _INTERNAL else f"v1.{go_type}"
            registry[f"{_GROUP}/{version}", kind] = Registered(kind, decoded, "v1", f"{package}.{go_type}")
    return Scheme(registry, {})


_SCHEME = Scheme(
    {(version, kind): _server_kind(version, kind) for version, kinds in _SERVER_KINDS.items() for kind in kinds}
    | {("v1", "EncryptionConfig"): _server_kind("v1", "EncryptionConfiguration")},
    {kind: Registered(kind, f"v1.{kind}") for kind in ("Status", "APIVersions", "APIGroupList", "APIGroup")},
)
_POLICY_SCHEME = _plugin_scheme(_POLICY_KINDS, {}, "policyconfig")
_POD_SECURITY_GROUP = "pod-security.admission.config.k8s.io"
_QUOTA_GROUP = "resourcequota.admission.k8s.io"
_OTHER_SCHEMES = {
    "PodSecurity": Scheme(
        {
            (f"{_POD_SECURITY_GROUP}/{version}", "PodSecurityConfiguration"): Registered(
                "PodSecurityConfiguration", "v1.PodSecurityConfiguration", version
            )
            for version in ("v1", "v1beta1", "v1alpha1")
        },
        {},
    ),
    "ResourceQuota": Scheme(
        {
            (f"{_GROUP}/v1", "ResourceQuotaConfiguration"): Registered("Configuration", "v1.Configuration"),
            (f"{_QUOTA_GROUP}/v1beta1", "Configuration"): Registered("Configuration", "v1.Configuration", "v1beta1"),
            (f"{_QUOTA_GROUP}/v1alpha1", "Configuration"): Registered("Configuration", "v1.Configuration", "v1alpha1"),
        },
        {},
    ),
}
"""Schemes of the other default plugins with a configuration. It is decoded and not interpreted."""
_WEBHOOK_SCHEME = _plugin_scheme((_WEBHOOK_KIND,), {_WEBHOOK_KIND: "WebhookAdmission"}, "webhookadmission")


class PluginConfiguration(Struct, frozen=True):
    """Entry of one plugin. `path` is absolute, `configuration` the inline document, or None."""

    name: str
    path: str
    configuration: Node | None
    position: Position


class LoadedConfiguration(Struct, frozen=True):
    """Result of loading the file: the directories loaded before the server stopped, and the reason why it stopped.

    `stage` is `read` (the file), `config` (a plugin's file), `plugin` (its configuration) or `manifests`. `entries` are
    the entries of the file, in their order.
    """

    path: str
    directories: tuple[LoadedDirectory, ...] = ()
    error: str | None = None
    stage: str = ""
    plugin: str = ""
    findings: tuple[Finding, ...] = ()
    entries: tuple[PluginConfiguration, ...] = ()


class _StoppedError(Exception):
    """Reason for the server to stop. `str()` is its text."""

    def __init__(self, text: str, stage: str, finding: Finding | None = None) -> None:
        super().__init__(text)
        self.stage = stage
        self.finding = finding


def load_configuration(path: Path, version: KubernetesVersion, gates: Gates = NO_GATES) -> LoadedConfiguration:
    """Read the file and load the directory of each of the four plugins. The result contains the reasons for a refusal.

    Raises ReplayError for a path that leads out of an untrusted checkout.
    """
    try:
        entries = _read_entries(path)
    except _StoppedError as stopped:
        return LoadedConfiguration(str(path), (), str(stopped), stopped.stage, "", (_stop_finding(stopped, path),))
    directories: list[LoadedDirectory] = []
    # The server initializes plugins in its own order, whatever the order of the entries.
    for name in DEFAULT_PLUGINS:
        entry = next((entry for entry in entries if entry.name == name), None)
        try:
            if entry is not None and (directory := _load_plugin(entry, version, gates, path)) is not None:
                directories.append(directory)
                _check_manifests(directory)
        except _StoppedError as stopped:
            findings = directories[-1].findings if stopped.stage == "manifests" else (_stop_finding(stopped, path),)
            text, loaded = str(stopped), tuple(directories)
            plugin = "" if stopped.stage == "config" else name
            return LoadedConfiguration(str(path), loaded, text, stopped.stage, plugin, findings, entries)
    return LoadedConfiguration(str(path), tuple(directories), entries=entries)


def _check_manifests(directory: LoadedDirectory) -> None:
    if directory.error is None:
        return
    sort = "webhook" if directory.plugin.is_webhook else "policy"
    where = f"failed to load static {sort} manifests from {quote(directory.path)}: {directory.error}"
    text = f"failed to initialize admission plugin {quote(directory.plugin.value)}: {where}"
    raise _StoppedError(text, "manifests")


def _read_entries(path: Path) -> tuple[PluginConfiguration, ...]:
    try:
        data = read_file(path)
    except Unreadable as error:
        cause = error.__cause__
        reason = f"open {path}: {os_reason(cause)}" if isinstance(cause, OSError) else error.reason
        text = f"unable to read admission control configuration from {quote(str(path))} [{reason}]"
        raise _StoppedError(text, "read") from error
    try:
        decoded = read_object(data, 1, _SCHEME)
    except UndecodableError as error:
        # The old form can only configure plugins without manifests.
        if _is_legacy(error.untyped):
            return ()
        raise _StoppedError(str(error), "read", _problem_finding(error, str(path))) from error
    if decoded.registered.kind != _ADMISSION_CONFIGURATION:
        raise _StoppedError(f"unexpected type: {decoded.registered.shown}", "read")
    return tuple(_entries(decoded, path))


def _is_legacy(node: Node | None) -> bool:
    """Return whether a file is in the old form without a kind.

    Two plugins, both off by default, once had such files. The server still accepts them.
    """
    return isinstance(node, Mapping) and any(node.get(key) is not None for key in _LEGACY_KEYS)


def _entries(decoded: DecodedObject, path: Path) -> Iterator[PluginConfiguration]:
    assert isinstance(decoded.node, Mapping)
    nodes = decoded.node.get("plugins")
    for value, node in zip(
        decoded.value.get("plugins") or (), nodes.items if isinstance(nodes, Sequence) else (), strict=True
    ):
        configuration = node.get("configuration") if isinstance(node, Mapping) else None
        if isinstance(configuration, Scalar) and configuration.value is None:
            configuration = None
        own_path = os.path.normpath(path.parent / value["path"]) if value["path"] else ""
        yield PluginConfiguration(value["name"], str(own_path), configuration, node.position)


def _load_plugin(
    entry: PluginConfiguration, version: KubernetesVersion, gates: Gates, named_by: str | Path
) -> LoadedDirectory | None:
    """Load the directory that an entry names. None for a plugin without manifests or without a configuration."""
    if entry.path:
        require_inside(entry.path, named_by)
    data = _configuration_file(entry)
    if entry.configuration is None and data is None:
        return None
    if entry.name in _OTHER_SCHEMES:
        _decode(entry, data, _OTHER_SCHEMES[entry.name])
    if entry.name not in list(PluginName):
        return None
    plugin = PluginName(entry.name)
    directory = _manifests_directory(plugin, entry, data, version, gates)
    if not directory:
        return LoadedDirectory(plugin, "", "", ())
    require_inside(directory, named_by)
    require_links_inside(directory)
    return replace(load_directory(Path(directory), plugin, version), path=directory)


def _configuration_file(entry: PluginConfiguration) -> bytes | None:
    """Return the content of the plugin's own file, or None.

    If the server cannot read it, it exits at once and prints the error as a Go value.
    """
    if entry.configuration is not None or not entry.path:
        return None
    try:
        return Path(entry.path).read_bytes()
    except OSError as error:
        operation = "read" if error.errno == errno.EISDIR else "open"
        shown = f'&fs.PathError{{Op:"{operation}", Path:{quote(entry.path)}, Err:{(error.errno or 0):#x}}}'
        text = f"Couldn't open admission plugin configuration {entry.path}: {shown}"
        raise _StoppedError(text, "config") from error


def _manifests_directory(
    plugin: PluginName, entry: PluginConfiguration, data: bytes | None, version: KubernetesVersion, gates: Gates
) -> str:
    """Return `staticManifestsDir` of a plugin's configuration, checked as the plugin does."""
    decoded = _decode(entry, data, _WEBHOOK_SCHEME if plugin.is_webhook else _POLICY_SCHEME)
    kind = _WEBHOOK_KIND if plugin.is_webhook else f"{plugin.value}Configuration"
    if decoded.registered.kind != kind:
        raise _StoppedError(f"{_prefix(entry)}unexpected type: {decoded.registered.shown}", "plugin")
    directory: str = decoded.value.get("staticManifestsDir", "")
    text = static_directory_problem(version, gates, webhooks=plugin.is_webhook) if directory else ""
    if text:
        raise _StoppedError(f"{_prefix(entry)}{text}", "plugin")
    for problem in _configuration_problems(decoded.value):
        raise _StoppedError(f"{_prefix(entry)}{problem}", "plugin")
    return directory


def _decode(entry: PluginConfiguration, data: bytes | None, scheme: Scheme) -> DecodedObject:
    """Decode the inline configuration, or else the plugin's own file."""
    try:
        if entry.configuration is not None:
            return read_item(entry.configuration, scheme)
        return read_object(data or b"", 1, scheme)
    except UndecodableError as error:
        finding = _problem_finding(error, entry.path)
        raise _StoppedError(f"{_prefix(entry)}{error}", "plugin", None if data is None else finding) from error


def _prefix(entry: PluginConfiguration) -> str:
    return f"couldn't init admission plugin {quote(entry.name)}: "


def _configuration_problems(value: dict[str, str]) -> Iterator[FieldError | str]:
    kubeconfig, directory = value.get("kubeConfigFile", ""), value.get("staticManifestsDir", "")
    if kubeconfig and not kubeconfig.startswith("/"):
        yield invalid("kubeConfigFile", kubeconfig, "must be an absolute file path")
    if directory:
        yield from _directory_problems(directory)
    if kubeconfig:
        try:
            os.stat(kubeconfig)  # noqa: PTH116 - the text is that of stat on the path as written
        except OSError as error:
            yield f"stat {kubeconfig}: {os_reason(error)}"


def _directory_problems(directory: str) -> Iterator[FieldError]:
    if not directory.startswith("/"):
        yield invalid("staticManifestsDir", directory, "must be an absolute file path")
        return
    try:
        mode = Path(directory).stat().st_mode
    except OSError as error:
        yield invalid("staticManifestsDir", directory, f"unable to read: stat {directory}: {os_reason(error)}")
        return
    if not stat.S_ISDIR(mode):
        yield invalid("staticManifestsDir", directory, "must be a directory")


def _problem_finding(error: UndecodableError, path: str) -> Finding:
    problem = error.problems[0]
    return Finding(Severity.ERROR, SERVER, str(error), path, problem.position, problem.path, first=True)


def _stop_finding(stopped: _StoppedError, path: Path) -> Finding:
    return stopped.finding or Finding(Severity.ERROR, SERVER, str(stopped), str(path), first=True)

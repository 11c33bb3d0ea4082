"""`replay check`: the refusals of the server and the warnings for one set."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from replay.cellib.version import KubernetesVersion
from replay.errors import ManifestError
from replay.json import JSON
from replay.kube.admissionregistration import ManifestSet
from replay.manifests.admission_configuration import LoadedConfiguration, load_configuration
from replay.manifests.api_object import LoadedApi
from replay.manifests.bundle import is_bundle
from replay.manifests.bundle_source import STDIN
from replay.manifests.engine_object import EngineDocument, holds_engine_objects_alone
from replay.manifests.finding import SERVER, Finding, Severity
from replay.manifests.lint.run import lint
from replay.manifests.loader import LoadedDirectory, load_directory
from replay.manifests.plugin import PluginName
from replay.manifests.read.node import NOWHERE, Position
from replay.manifests.server.flags import is_server_file
from replay.manifests.server.settings import NO_SERVER, ServerSettings
from replay.manifests.set_loader import load_set, require_static


class CheckedSet(Struct, frozen=True):
    """A set with its findings. `silenced` counts warnings that a comment or an option hides.

    `configuration` is set only for an AdmissionConfiguration file. `error` is the text with which the server stops, or
    with which its API refuses the first object of `api`.
    """

    path: str
    directories: tuple[LoadedDirectory, ...]
    findings: tuple[Finding, ...]
    silenced: int
    error: str | None
    configuration: LoadedConfiguration | None = None
    api: LoadedApi | None = None
    hints: tuple[str, ...] = ()
    """Assumptions about the set."""
    server: ServerSettings = NO_SERVER
    """Settings of the server in the set."""
    engine: tuple[EngineDocument, ...] = ()
    """Objects of policy engines."""

    @property
    def is_accepted(self) -> bool:
        """Whether a server starts with the set, and its API accepts the rest."""
        return self.error is None

    def with_findings(self, found: Iterable[Finding], silenced: Iterable[str]) -> CheckedSet:
        """Return the set with more findings. The first error refuses it. `silenced` are the names of warnings to hide."""
        hidden = frozenset(silenced)
        findings = tuple(found)
        shown = tuple(each for each in findings if each.name not in hidden)
        first = next((each.message for each in shown if each.severity is Severity.ERROR), None)
        return replace(
            self,
            findings=(*self.findings, *shown),
            error=first if self.error is None else self.error,
            silenced=self.silenced + len(findings) - len(shown),
        )


def check_minors(check: Callable[[KubernetesVersion], CheckedSet], versions: Sequence[KubernetesVersion]) -> CheckedSet:
    """Check one set for several server versions. A finding that not all share names its versions.

    If a server version does not accept the set at all, the set is refused for this version.
    """
    if len(versions) == 1:
        return check(versions[0])
    checked = [_refused_as_whole(check, version) for version in versions]
    told: dict[Finding, list[str]] = {}
    for version, each in zip(versions, checked, strict=True):
        for finding in each.findings:
            told.setdefault(finding, []).append(str(version))
    findings = (
        finding
        if len(minors) == len(versions)
        else replace(finding, message=f"Kubernetes {', '.join(minors)}: {finding.message}")
        for finding, minors in told.items()
    )
    error = next((each.error for each in checked if each.error is not None), None)
    largest = max(checked, key=lambda each: len(each.directories) + (each.api is not None))
    return replace(largest, findings=tuple(findings), error=error, silenced=max(each.silenced for each in checked))


def _refused_as_whole(check: Callable[[KubernetesVersion], CheckedSet], version: KubernetesVersion) -> CheckedSet:
    try:
        return check(version)
    except ManifestError as error:
        position = Position(error.line, error.column) if error.line else NOWHERE
        path = error.path or ""
        finding = Finding(Severity.ERROR, SERVER, error.message, path, position, first=True)
        return CheckedSet(path, (), (finding,), 0, error.message)


def check_set(
    path: Path,
    version: KubernetesVersion,
    *,
    plugin: PluginName | None = None,
    cluster: Sequence[JSON] | None = None,
    silenced: Iterable[str] = (),
) -> CheckedSet:
    """Check the set at `path`: for one plugin a single directory, otherwise a set in any form.

    `cluster` are objects of the cluster, for the warnings that need them. Raises ManifestError if there is no set.
    """
    if path != STDIN and not path.exists():
        raise ManifestError("no such file or directory", path=str(path))
    configuration = api = None
    hints: tuple[str, ...] = ()
    server, engine = NO_SERVER, tuple[EngineDocument, ...]()
    own: tuple[JSON, ...] = ()
    if not (path.is_dir() or is_bundle(path) or is_server_file(path) or holds_engine_objects_alone(path)):
        configuration = load_configuration(path, version)
        directories, errors = configuration.directories, configuration.findings
        error = configuration.error
        server = ServerSettings(configuration=path)
    else:
        directories, api, hints, server, engine, own = _parts(path, version, plugin)
        parts: tuple[LoadedDirectory | LoadedApi, ...] = directories if api is None else (*directories, api)
        errors = tuple(dict.fromkeys(finding for part in parts for finding in part.findings))
        error = next((part.error for part in parts if part.error is not None), None)
    warnings = lint(
        directories, version, configuration=configuration, cluster=cluster, api=api, own=own, gates=server.gates
    )
    hidden = frozenset(silenced)
    shown = tuple(warning.finding for warning in warnings if warning.finding.name not in hidden | warning.silenced)
    return CheckedSet(
        str(path),
        directories,
        (*errors, *shown),
        silenced=len(warnings) - len(shown),
        error=error,
        configuration=configuration,
        api=api,
        hints=hints,
        server=server,
        engine=engine,
    )


def _parts(
    path: Path, version: KubernetesVersion, plugin: PluginName | None
) -> tuple[
    tuple[LoadedDirectory, ...],
    LoadedApi | None,
    tuple[str, ...],
    ServerSettings,
    tuple[EngineDocument, ...],
    tuple[JSON, ...],
]:
    """Return the parts of a set: directories, `api/`, hints, server settings, objects of engines, and all other objects."""
    if plugin is not None and path.is_dir():
        require_static(path, version)
        return (load_directory(path, plugin, version),), None, (), NO_SERVER, (), ()
    loaded = load_set(path, version)
    loaded.server.completed(ManifestSet(), version)
    own = (*loaded.server.objects, *loaded.others)
    return tuple(loaded.directories.values()), loaded.api, loaded.hints, loaded.server, loaded.engine or (), own


def counts(findings: Iterable[Finding]) -> tuple[int, int]:
    """Return the numbers of errors and warnings."""
    severities = [finding.severity for finding in findings]
    return severities.count(Severity.ERROR), severities.count(Severity.WARNING)

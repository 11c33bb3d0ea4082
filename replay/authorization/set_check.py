"""`replay check` of a whole set: what is wrong with its authorization, beside what is wrong with its admission."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec.structs import replace

from replay.authorization.flags import flags_of, local_configuration, refusal_of, unseen_files
from replay.authorization.lint import lint_configuration
from replay.authorization.manifest import dangling_bindings, load_rbac
from replay.authorization.server_file import ServerFiles
from replay.authorization.start import Checked, check_start
from replay.cellib.version import KubernetesVersion
from replay.errors import ReplayError
from replay.json import JSON
from replay.manifests.authorization_file import CONFIGURATION_FILE, is_about_authorization, is_configuration
from replay.manifests.check import CheckedSet, check_set
from replay.manifests.finding import SERVER, Finding, Severity
from replay.manifests.plugin import PluginName
from replay.manifests.read.node import NOWHERE, Position
from replay.manifests.server.flags import ServerFlags, server_file_of, version_contradiction

_ON_SERVER, _DANGLING = "file-on-the-server", "binding-without-role"
_OTHER_VERSION = "image-of-another-version"


def check_whole_set(
    path: Path,
    version: KubernetesVersion,
    *,
    plugin: PluginName | None = None,
    cluster: list[JSON] | None = None,
    silenced: Iterable[str] = (),
) -> CheckedSet:
    """`check_set` with what is found in `authorization.yaml`, in flags of the server and in `rbac/`. Raises ManifestError if there is nothing."""
    hidden = frozenset(silenced)
    alone = path.is_file() and is_about_authorization(path)
    checked = (
        CheckedSet(str(path), (), (), 0, None)
        if alone
        else check_set(path, version, plugin=plugin, cluster=cluster, silenced=hidden)
    )
    if plugin is not None:
        return checked
    error = checked.error
    findings = list(checked.findings)
    if contradiction := version_contradiction(path, version):
        findings.append(Finding(Severity.WARNING, _OTHER_VERSION, contradiction, str(server_file_of(path))))
    flags = flags_of(path, version)
    refusal = None if flags is None else refusal_of(flags, version)
    if flags is not None and refusal is not None:
        error = error if error is not None else refusal
        findings.append(Finding(Severity.ERROR, SERVER, refusal, flags.path, _place(flags), first=True))
    file = path if is_configuration(path) else path / CONFIGURATION_FILE
    if not file.is_file() and flags is not None and refusal is None:
        file = local_configuration(flags) or file
        place = _place(flags)
        findings += [Finding(Severity.WARNING, _ON_SERVER, text, flags.path, place) for text in unseen_files(flags)]
    configured = check_start(file.read_bytes(), version, ServerFiles()) if file.is_file() else None
    if configured is not None:
        error = error if error is not None or configured.is_accepted else configured.error
        findings += _configuration_findings(str(file), configured, version)
    cluster_keys = [_key(obj) for obj in cluster or () if str(obj.get("apiVersion")).startswith("rbac.")]
    rbac = list(_rbac_findings(path, cluster_keys))
    error = next((each.message for each in rbac if each.severity is Severity.ERROR and error is None), error)
    shown = [each for each in (*findings, *rbac) if each.name not in hidden]
    quiet = checked.silenced + len(findings) + len(rbac) - len(shown)
    return replace(checked, findings=tuple(shown), error=error, silenced=quiet)


def _place(flags: ServerFlags) -> Position:
    """Where the first flag of authorization stands in its file."""
    lines = Path(flags.path).read_text("utf-8", "replace").splitlines()
    return next((Position(number, 1) for number, line in enumerate(lines, 1) if "authorization-" in line), NOWHERE)


def _configuration_findings(path: str, checked: Checked, version: KubernetesVersion) -> Iterator[Finding]:
    if checked.field_errors:
        for each in checked.field_errors:
            yield Finding(Severity.ERROR, SERVER, str(each), path, field_path=each.path, first=True)
    elif checked.error:
        position = checked.problems[0].position if checked.problems else NOWHERE
        yield Finding(Severity.ERROR, SERVER, checked.error, path, position, first=True)
    for warning in checked.warnings:
        yield Finding(Severity.WARNING, _ON_SERVER, warning, path)
    for lint in lint_configuration(checked, version):
        yield Finding(Severity.WARNING, lint.name, lint.message, path, field_path=lint.path)


def _rbac_findings(path: Path, cluster_keys: list[tuple[str, str, str]]) -> Iterator[Finding]:
    try:
        where, objects = load_rbac(path)
    except ReplayError as error:
        yield Finding(Severity.ERROR, SERVER, error.message, error.path)
        return
    for warning in dangling_bindings(objects, cluster_keys):
        yield Finding(Severity.WARNING, _DANGLING, warning, where)


def _key(obj: JSON) -> tuple[str, str, str]:
    metadata = obj.get("metadata") or {}
    return str(obj.get("kind")), str(metadata.get("namespace") or ""), str(metadata.get("name"))

"""`replay check`."""

from __future__ import annotations

import sys
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import replace

from replay.cli.options import MinorVersion, MinorVersions, OutputFile
from replay.errors import ManifestError, ReplayError
from replay.json import json_document
from replay.manifests.plugin import PluginName
from replay.pipeline.version import version_of, versions_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replay.cellib.version import KubernetesVersion
    from replay.json import JSON
    from replay.manifests.check import CheckedSet
    from replay.prove.properties import Property


CHECK_EPILOG = (
    "Examples: replay check manifests/next --format github\n\n"
    "replay check vap/ --plugin ValidatingAdmissionPolicy --hash\n\n"
    "replay check --drift server-1 server-2 server-3\n\n"
    "replay check --authorization authorization.yaml --reload-from running.yaml\n\n"
    "replay check manifests/next --reload-from manifests/current\n\n"
    "replay check manifests/next --prove\n\n"
    "replay check kyverno/ --migrate --out kyverno-cel.yaml\n\n"
    "Exit code: 0 a server starts with every set, 2 it does not, or an error. With --drift: 1 if servers differ. "
    "With --never-errors: 1 if a policy can fail with an error."
)
REFUSED, DIFFERENT = 2, 1


class CheckFormat(StrEnum):
    """Output format of findings."""

    TERMINAL = "terminal"
    JSON = "json"
    GITHUB = "github"
    SARIF = "sarif"
    JUNIT = "junit"
    GITLAB = "gitlab"


Sets = Annotated[
    list[Path] | None,
    typer.Argument(
        envvar="REPLAY_CANDIDATE",
        help="Sets of manifests: directories, or AdmissionConfiguration files. None with --authorization.",
    ),
]
Authorization = Annotated[
    Path | None, typer.Option(help="Check only this AuthorizationConfiguration, as at the start of the API server.")
]
RunningConfiguration = Annotated[
    Path | None,
    typer.Option(
        help="Check the reload by an API server that started with this set, or, for --authorization, with this file."
    ),
]
KubeconfigRoot = Annotated[
    Path | None,
    typer.Option(help="Directory with the server's files: by path below it, or by name in it."),
]
PluginChoice = Annotated[
    PluginName | None,
    typer.Option("--plugin", help="Each set is the manifest directory of this plugin."),
]
SilencedWarnings = Annotated[
    list[str] | None, typer.Option("--silence", help="Hide this warning, given by its name. Repeatable.")
]
ClusterSnapshot = Annotated[
    Path | None,
    typer.Option(help="Snapshot of cluster objects, for warnings that need namespaces or CRDs."),
]
Metrics = Annotated[
    list[Path] | None, typer.Option(help="Compare with the metrics text of a server. Repeatable, one per server.")
]


def check(
    sets: Sets = None,
    plugin: PluginChoice = None,
    output: Annotated[CheckFormat, typer.Option("--format", help="Output format.")] = CheckFormat.TERMINAL,
    out: OutputFile = None,
    hash_only: Annotated[
        bool, typer.Option("--hash", help="Print only the hashes that the API server exports.")
    ] = False,
    drift: Annotated[
        bool, typer.Option("--drift", help="Compare the sets, or AuthorizationConfigurations, of several API servers.")
    ] = False,
    drift_metrics: Metrics = None,
    silence: SilencedWarnings = None,
    cluster: ClusterSnapshot = None,
    authorization: Authorization = None,
    reload_from: RunningConfiguration = None,
    kubeconfig_root: KubeconfigRoot = None,
    prove: Annotated[
        bool, typer.Option("--prove", help="Prove what each policy can never do: fail with an error, deny, or matter.")
    ] = False,
    never_errors: Annotated[
        bool,
        typer.Option(
            "--never-errors", help="Only prove for each policy whether any request makes it fail with an error."
        ),
    ] = False,
    migrate: Annotated[
        bool,
        typer.Option(
            "--migrate",
            help="Print for each rule of Kyverno's ClusterPolicies the CEL policy that decides the same, or why there is none.",
        ),
    ] = False,
    kubernetes_version: MinorVersion = None,
    versions: MinorVersions = None,
) -> None:
    """Would an API server accept these manifests, and what would you regret later?

    Prints each error with file, line and column in the words of the API server, and warns of valid manifests that are probably a
    mistake. Hide a warning with --silence, or with `# replay: silence NAME` in its document.
    """
    from replay.authorization.check import check_whole_set
    from replay.manifests.check import check_minors

    if authorization is not None:
        as_json = output is CheckFormat.JSON
        accepted = _check_authorization(
            authorization, reload_from, kubeconfig_root, str(version_of(kubernetes_version)), as_json=as_json
        )
        raise typer.Exit(0 if accepted else REFUSED)
    if not sets:
        raise ReplayError("give a set to check, or --authorization FILE")
    if reload_from is not None:
        if len(sets) > 1 or output not in (CheckFormat.TERMINAL, CheckFormat.JSON):
            raise ReplayError("--reload-from is about one set, and prints text or JSON")
        version = version_of(kubernetes_version, (sets[0], reload_from))
        raise typer.Exit(_check_reload(sets[0], reload_from, version, as_json=output is CheckFormat.JSON))
    if hash_only or drift or drift_metrics:
        raise typer.Exit(_compare_hashes(sets, plugin, drift, drift_metrics or []))

    def minors(path: Path) -> tuple[KubernetesVersion, ...]:
        """Return the minors of the option, else the minor of the set's server."""
        is_asked = versions is not None or kubernetes_version is not None
        return versions_of(versions, kubernetes_version) if is_asked else (version_of(None, (path,)),)

    objects = _cluster_objects(cluster) if cluster is not None else None
    if output is CheckFormat.JSON:
        # `DIR` stands for the directory in texts, where a short relative path would stand for other things too.
        sets = [path.absolute() for path in sets]

    def check_on(path: Path, minor: KubernetesVersion) -> CheckedSet:
        whole = check_whole_set(path, minor, plugin=plugin, cluster=objects, silenced=silence or ())
        return whole if plugin is not None else _with_engine_findings(_with_plugins(whole, minor), silence or ())

    checked = [check_minors(partial(check_on, path), minors(path)) for path in sets]
    is_accepted = all(each.is_accepted for each in checked)
    if migrate and is_accepted:
        _print_migration(checked, objects or (), output, out)
        raise typer.Exit
    is_proved = is_accepted and (prove or never_errors)
    properties = [_properties(path, minors(path)[-1], errors_alone=not prove) if is_proved else () for path in sets]
    _print(checked, properties, output, out)
    errs = never_errors and any(
        each.name in {"errors", "may-err"} for proved_properties in properties for each in proved_properties
    )
    raise typer.Exit(REFUSED if not is_accepted else DIFFERENT if errs else 0)


def _with_engine_findings(checked: CheckedSet, silenced: list[str] | tuple[str, ...]) -> CheckedSet:
    """Return the set with the problems of its policy engine objects."""
    if not checked.engine:
        return checked
    from replay.kube.engine_policy import ENGINES, function_of

    for engine in ENGINES:
        checked = function_of(engine.check)(checked, silenced)
    return checked


def _with_plugins(checked: CheckedSet, version: KubernetesVersion) -> CheckedSet:
    """Return the set, with the refusals of built-in plugins that do not start with their configuration.

    A plugin without a configuration always starts.
    """
    from replay.kube.admissionregistration import ManifestSet
    from replay.manifests.finding import SERVER, Finding, Severity

    if not checked.is_accepted:
        return checked
    try:
        configured = checked.server.completed(ManifestSet(), version)
        if configured.names_plugins:
            from replay.admission.ordered.registry import check_plugins

            check_plugins(configured)
    except ManifestError as error:
        finding = Finding(Severity.ERROR, SERVER, error.message, error.path, first=True)
        return replace(checked, findings=(*checked.findings, finding), error=error.message)
    return checked


def _properties(path: Path, version: KubernetesVersion, *, errors_alone: bool) -> tuple[Property, ...]:
    """Return the proved properties of a set."""
    from replay.manifests.set_loader import load_manifest_set
    from replay.prove.properties import errors_of, properties_of
    from replay.prove.prover import proving

    with proving(version) as prover:
        prove_ = errors_of if errors_alone else properties_of
        return tuple(prove_(prover, load_manifest_set(path, version=version)))


def _print(
    checked: list[CheckedSet], properties: list[tuple[Property, ...]], output: CheckFormat, out: Path | None
) -> None:
    from replay.pipeline.whole_file import put
    from replay.report import findings as report
    from replay.report.proof import property_findings, property_json, property_lines

    if output is CheckFormat.JSON:
        documents = [report.checked_json(each) for each in checked]
        for one, proved in zip(documents, properties, strict=True):
            one.update({"properties": [property_json(each) for each in proved]} if proved else {})
        is_accepted = all(each.is_accepted for each in checked)
        document = documents[0] if len(documents) == 1 else {"ok": is_accepted, "sets": documents}
        text = json_document(document)
    elif output is CheckFormat.TERMINAL:
        lines = [line for each in checked for line in report.findings_text(each)]
        lines += [line for proved in properties for each in proved for line in property_lines(each)]
        text = "".join(f"{line}\n" for line in lines)
    else:
        from replay.report.annotate import ANNOTATED

        both = zip(checked, properties, strict=True)
        shown = [
            replace(each, findings=(*each.findings, *property_findings(proved, each.path))) for each, proved in both
        ]
        text = ANNOTATED[output.value](report.findings_annotations(shown))
    put([text], out)


def _print_migration(checked: list[CheckedSet], cluster: Sequence[JSON], output: CheckFormat, out: Path | None) -> None:
    from replay.kube.engine_policy import engine_with, function_of
    from replay.pipeline.whole_file import STDOUT, put
    from replay.report.diff_report import migration_json, migration_lines, migration_summary

    rules = list(
        function_of(engine_with("migration").migration)(
            [document.value for each in checked for document in each.engine], cluster
        )
    )
    if not rules:
        raise ReplayError("--migrate found no rule of a ClusterPolicy or Policy")
    if output is CheckFormat.JSON:
        put([json_document(migration_json(rules))], out)
    else:
        put(migration_lines(rules), out)
        if out is not None and str(out) != STDOUT:
            sys.stdout.writelines(f"{line}\n" for line in migration_summary(rules, out))


def _check_reload(path: Path, running: Path, version: KubernetesVersion, *, as_json: bool) -> int:
    """Print what a running server does with a changed set: by plugin, and for its AuthorizationConfiguration."""
    from replay.authorization.configuration import ConfigurationError, ServerFiles
    from replay.authorization.start import check_reload
    from replay.manifests.authorization_file import CONFIGURATION_FILE
    from replay.manifests.drift import reloaded
    from replay.report.findings import configuration_check_json, configuration_check_text

    results = list(reloaded(path, running, version))
    file, before = path / CONFIGURATION_FILE, running / CONFIGURATION_FILE
    has_file = file.is_file() and before.is_file()
    try:
        checked = check_reload(file.read_bytes(), before.read_bytes(), version, ServerFiles()) if has_file else None
    except ConfigurationError as error:
        raise ReplayError(f"no server runs with it: {str(error).splitlines()[0]}", path=str(before)) from error
    is_accepted = all(each.is_accepted for each in results) and (checked is None or checked.is_accepted)
    if as_json:
        plugins = {each.plugin.value: {"result": each.result.value, "error": each.error} for each in results}
        document = {"ok": is_accepted, "plugins": plugins}
        document |= {} if checked is None else {"authorization": configuration_check_json(checked)}
        sys.stdout.write(json_document(document))
    else:
        for each in results:
            sys.stdout.write(f"{each.plugin.value}: {each.result.value}\n")
            sys.stdout.writelines(f"    {line}\n" for line in each.error.splitlines())
        sys.stdout.writelines(
            f"{line}\n" for line in (configuration_check_text(str(file), checked) if checked is not None else ())
        )
    return 0 if is_accepted else REFUSED


def _compare_hashes(sets: list[Path], plugin: PluginName | None, drift: bool, metrics: list[Path]) -> int:
    from replay.manifests import drift as comparison

    hashes = [comparison.set_hashes(path, plugin) for path in sets]
    if not drift and not metrics:
        sys.stdout.writelines(f"{line}\n" for line in comparison.hash_lines(hashes))
        return 0
    servers = [*hashes, *(comparison.hashes_from_metrics(path) for path in metrics)]
    differences = list(comparison.drift_lines(servers))
    sys.stdout.writelines(f"{line}\n" for line in differences or ["no drift: all servers have the same manifests"])
    return DIFFERENT if differences else 0


def _cluster_objects(path: Path) -> list[JSON]:
    from replay.reconstruct.snapshot import read_snapshot

    return list(read_snapshot(path))


def _check_authorization(
    file: Path, running: Path | None, kubeconfig_root: Path | None, version: str, *, as_json: bool
) -> bool:
    """Print a server's answer to an AuthorizationConfiguration; return whether it continues with it.

    Raises ReplayError for unreadable files, and if no server runs with `running`.
    """
    from replay.authorization.check import lint_configuration
    from replay.authorization.configuration import ConfigurationError, ServerFiles
    from replay.authorization.start import check_reload, check_start
    from replay.cellib.version import KubernetesVersion
    from replay.report.findings import configuration_check_json, configuration_check_text

    minor, files = KubernetesVersion.parse(version), ServerFiles(kubeconfig_root)
    data = file.read_bytes()
    try:
        checked = (
            check_start(data, minor, files)
            if running is None
            else check_reload(data, running.read_bytes(), minor, files)
        )
    except ConfigurationError as error:
        raise ReplayError(f"no server runs with it: {str(error).splitlines()[0]}", path=str(running)) from error
    warnings = [f"{each.path}: {each.message} [{each.name}]" for each in lint_configuration(checked, minor)]
    shown = replace(checked, warnings=(*checked.warnings, *warnings))
    if as_json:
        sys.stdout.write(json_document(configuration_check_json(shown)))
    else:
        sys.stdout.writelines(f"{line}\n" for line in configuration_check_text(str(file), shown))
    return checked.is_accepted

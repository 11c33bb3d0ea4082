"""`replay check`."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from replay.cli.check_authorization import check_authorization
from replay.errors import ReplayError

if TYPE_CHECKING:
    from replay.cellib.version import KubernetesVersion
    from replay.manifests.check import CheckedSet

EPILOG = (
    "Examples: replay check manifests/next --format github\n\n"
    "replay check vap/ --plugin ValidatingAdmissionPolicy --hash\n\n"
    "replay check --drift server-1/vap server-2/vap server-3/vap\n\n"
    "replay check --authorization authorization.yaml --reload-from running.yaml\n\n"
    "replay check manifests/next --prove\n\n"
    "Exit code: 0 a server starts with every set, 2 it does not (or an error); with --drift 1 where servers differ."
)
REFUSED, DIFFERENT = 2, 1


class Format(StrEnum):
    """How findings are printed."""

    TEXT = "text"
    JSON = "json"
    GITHUB = "github"
    SARIF = "sarif"


class PluginName(StrEnum):
    """The plugins that read static manifests."""

    VAP = "ValidatingAdmissionPolicy"
    MAP = "MutatingAdmissionPolicy"
    VWH = "ValidatingAdmissionWebhook"
    MWH = "MutatingAdmissionWebhook"


Sets = Annotated[
    list[Path] | None,
    typer.Argument(
        help="Sets: a directory with vap/, map/, vwc/, mwc/, a flat one, or an AdmissionConfiguration file. "
        "None with --authorization."
    ),
]
Authorization = Annotated[
    Path | None, typer.Option(help="Check this AuthorizationConfiguration alone, as a server that starts with it.")
]
ReloadFrom = Annotated[
    Path | None, typer.Option(help="What a server says that was started with this file and reloads --authorization.")
]
KubeconfigRoot = Annotated[
    Path | None,
    typer.Option(help="Where the server's files are: below this directory by their paths, or in it by their names."),
]
OnePlugin = Annotated[
    PluginName | None, typer.Option("--plugin", help="Each set is the directory of this plugin alone.")
]
Silenced = Annotated[
    list[str] | None, typer.Option("--silence", help="Do not tell this warning, by name (repeatable).")
]
Cluster = Annotated[
    Path | None,
    typer.Option(help="A snapshot of cluster objects, for the warnings that depend on namespaces and CRDs."),
]
Metrics = Annotated[
    list[Path] | None, typer.Option(help="Compare with the metrics text of a server (repeatable, one per server).")
]


def check(
    sets: Sets = None,
    plugin: OnePlugin = None,
    output: Annotated[Format, typer.Option("--format", help="How to print what is found.")] = Format.TEXT,
    hash_only: Annotated[
        bool, typer.Option("--hash", help="Print the hashes that the server exports, no more.")
    ] = False,
    drift: Annotated[
        bool, typer.Option("--drift", help="The sets are those of several servers: compare them.")
    ] = False,
    drift_metrics: Metrics = None,
    silence: Silenced = None,
    cluster: Cluster = None,
    authorization: Authorization = None,
    reload_from: ReloadFrom = None,
    kubeconfig_root: KubeconfigRoot = None,
    prove: Annotated[
        bool, typer.Option("--prove", help="Say what policies can never do: err, deny, deny anything else, be needed.")
    ] = False,
    kubernetes_version: Annotated[
        str, typer.Option("--kubernetes-version", help="The API server's minor version, 1.30 to 1.37.")
    ] = "1.37",
) -> None:
    """What would a real API server refuse in these manifests, before it refuses to start?

    Prints everything that is wrong with file, line and column in the server's own words, and warns of what it accepts
    and one would regret. A warning is silenced by --silence, or in its document by `# replay: silence NAME`.
    """
    from replay.authorization.set_check import check_whole_set  # noqa: PLC0415 - `--help` must not pay for it
    from replay.cellib.version import KubernetesVersion  # noqa: PLC0415
    from replay.manifests.plugin import Plugin  # noqa: PLC0415

    if authorization is not None:
        as_json = output is Format.JSON
        accepted = check_authorization(authorization, reload_from, kubeconfig_root, kubernetes_version, as_json=as_json)
        raise typer.Exit(0 if accepted else REFUSED)
    if not sets:
        raise ReplayError("give a set to check, or --authorization FILE")
    if hash_only or drift or drift_metrics:
        raise typer.Exit(_compare_hashes(sets, plugin, drift, drift_metrics or []))
    version = KubernetesVersion.parse(kubernetes_version)
    objects = _cluster_objects(cluster) if cluster is not None else None
    one = Plugin(plugin.value) if plugin is not None else None
    if output is Format.JSON:
        # `DIR` stands for the directory in texts, where a short relative path would stand for other things too.
        sets = [path.absolute() for path in sets]
    checked = [check_whole_set(path, version, plugin=one, cluster=objects, silenced=silence or ()) for path in sets]
    _print(checked, output)
    if prove and output is Format.TEXT and all(each.is_accepted for each in checked):
        _print_properties(sets, version)
    raise typer.Exit(0 if all(each.is_accepted for each in checked) else REFUSED)


def _print_properties(sets: list[Path], version: KubernetesVersion) -> None:
    from replay.manifests.set_loader import load_manifest_set  # noqa: PLC0415
    from replay.prove.properties import contradictions, properties_of  # noqa: PLC0415
    from replay.prove.prover import Prover, Settings  # noqa: PLC0415
    from replay.report.proof import property_lines  # noqa: PLC0415

    prover = Prover(Settings(version=version))
    try:
        for path in sets:
            manifests = load_manifest_set(path, version=version)
            for found in (*properties_of(prover, manifests), *contradictions(prover, manifests)):
                sys.stdout.writelines(f"{line}\n" for line in property_lines(found))
    finally:
        prover.close()


def _print(checked: list[CheckedSet], output: Format) -> None:
    from replay.report import findings as report  # noqa: PLC0415

    found = [finding for each in checked for finding in each.findings]
    if output is Format.JSON:
        shown = [report.checked_json(each) for each in checked]
        document = shown[0] if len(shown) == 1 else {"ok": all(each.is_accepted for each in checked), "sets": shown}
        sys.stdout.write(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    elif output is Format.SARIF:
        sys.stdout.write(report.findings_sarif(found) + "\n")
    elif output is Format.GITHUB:
        sys.stdout.writelines(f"{line}\n" for line in report.findings_github(found))
    else:
        sys.stdout.writelines(f"{line}\n" for each in checked for line in report.findings_text(each))


def _compare_hashes(sets: list[Path], plugin: PluginName | None, drift: bool, metrics: list[Path]) -> int:
    from replay.manifests import drift as comparison  # noqa: PLC0415
    from replay.manifests.plugin import Plugin  # noqa: PLC0415

    one = Plugin(plugin.value) if plugin is not None else None
    hashes = [comparison.set_hashes(path, one) for path in sets]
    if not drift and not metrics:
        sys.stdout.writelines(f"{line}\n" for line in comparison.hash_lines(hashes))
        return 0
    servers = [*hashes, *(comparison.hashes_from_metrics(path) for path in metrics)]
    differences = list(comparison.drift_lines(servers))
    sys.stdout.writelines(f"{line}\n" for line in differences or ["no drift: all servers have the same manifests"])
    return DIFFERENT if differences else 0


def _cluster_objects(path: Path) -> list[object]:
    from replay.reconstruct.snapshot import read_snapshot  # noqa: PLC0415

    return list(read_snapshot(path))

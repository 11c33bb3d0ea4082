"""Commands about manifest sets: `replay diff` compares two, `replay convert` writes one in another form."""

from __future__ import annotations

import sys
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from replay.cli.options import (
    Baseline,
    CandidateVersion,
    ClusterSnapshot,
    CurrentVersion,
    FullReport,
    MinorVersion,
    Workspaces,
)
from replay.errors import ReplayError
from replay.json import JSON, json_document
from replay.pipeline.version import version_of, versions_of_sides

if TYPE_CHECKING:
    from collections.abc import Iterable

    from replay.cellib.version import Versions
    from replay.kube.admissionregistration import Sets
    from replay.manifests.object_diff import ObjectDiff


DIFF_EPILOG = (
    "Example: replay diff manifests/current manifests/next --format markdown\n\n"
    "replay diff manifests/current manifests/next --prove --format json\n\n"
    "replay diff template.yaml audit.jsonl --engines --cluster cluster.jsonl\n\n"
    "replay diff manifests/current manifests/next --no-new-access --cluster cluster.jsonl\n\n"
    "Exit code: 0 the sets, or the sources, are equivalent, 1 they differ, 2 or more an error. With --no-new-access: 0 nothing new, "
    "1 new access, or a role that is not known."
)
DIFFERENT = 1


class DiffFormat(StrEnum):
    """Output format of differences."""

    TERMINAL = "terminal"
    MARKDOWN = "markdown"
    JSON = "json"


def diff(
    current: Annotated[Path, typer.Argument(help="Baseline: the manifests in force.")],
    candidate: Annotated[
        Path | None,
        typer.Argument(help="Candidate: the planned manifests. With --engines: an audit log or a scenario directory."),
    ] = None,
    *,
    output: Annotated[DiffFormat, typer.Option("--format", help="Output format.")] = DiffFormat.TERMINAL,
    full: FullReport = False,
    prove: Annotated[
        bool,
        typer.Option("--prove", help="Prove what each policy change can do for any request, with an example request."),
    ] = False,
    save_cases: Annotated[
        Path | None, typer.Option(help="With --prove: write each example request into this directory as a test case.")
    ] = None,
    engines: Annotated[
        bool,
        typer.Option("--engines", help="Compare Rego and CEL of the ConstraintTemplates at PATH on real requests."),
    ] = False,
    cases: Annotated[
        list[Path] | None,
        typer.Option(help="With --engines: AdmissionRequests, one {id, request} object per line. Repeatable."),
    ] = None,
    log: Annotated[
        list[str] | None,
        typer.Option(help="An audit log: compare the policies of both sets pair by pair on its requests. Repeatable."),
    ] = None,
    pairs: Annotated[
        Path | None,
        typer.Option(
            help="With --log: a list of `{old: NAME, new: NAME}`. Other policies are paired by name, then by what they match."
        ),
    ] = None,
    no_new_access: Annotated[
        bool,
        typer.Option("--no-new-access", help="Compare only what RBAC grants: who would newly be allowed to do what?"),
    ] = False,
    cluster: ClusterSnapshot = None,
    workspace: Workspaces = None,
    kubernetes_version: MinorVersion = None,
    current_version: CurrentVersion = None,
    candidate_version: CandidateVersion = None,
) -> None:
    """What does a change of manifests mean, without a log?

    Lists policies and bindings that are added, removed, renamed or changed: expressions, actions, failure policies, and whether a
    match is wider or narrower. For authorizers and RBAC it lists what becomes wider and narrower.

    With --prove, each changed policy is compared over all possible requests: no difference, only stricter, only looser, both, or
    unknown. Each difference comes with a request that the two policies decide differently.

    With --engines, Rego and CEL of each ConstraintTemplate that has both decide the requests of a log and of --cases. The answer lists the
    requests that the two sources decide differently.

    With --no-new-access, the answer lists every subject that RBAC would newly allow something, and the rules. Roles and bindings of both sets
    are laid over those of --cluster.

    With --current-version and --candidate-version, the sets are those of servers of two minors, and one set may be enough. The list then also
    has expressions that only one server compiles.

    With --log, each policy of the baseline is compared with the one that takes its place, on the requests of a log. Each pair that differs
    comes with a request.
    """
    if engines:
        _compare_engines(current, candidate, cases or [], cluster, kubernetes_version, output)
    versions = versions_of_sides(current_version, candidate_version, kubernetes_version, (current, candidate))
    candidate = candidate or (current if versions.differ else None)
    if candidate is None:
        raise ReplayError("no candidate: give the planned manifests after the baseline, or --engines for one template")
    if no_new_access:
        _compare_access((current, candidate), cluster, kubernetes_version, output)
    if log or pairs is not None:
        _compare_pairs((current, candidate), log or [], pairs, cluster, kubernetes_version, output)
    from replay.pipeline.set_diff import set_difference
    from replay.report import diff_report

    differences, sets = set_difference(current, candidate, versions, workspace or ())
    if prove:
        _print_proofs(differences, sets, output, save_cases, versions)
    text = diff_report.diff_text(differences) if full else diff_report.diff_screen(differences)
    _print(
        output,
        diff_report.diff_json(differences),
        text,
        diff_report.diff_markdown(differences),
        differs=bool(differences),
    )


def _print(output: DiffFormat, data: JSON, text: Iterable[str], markdown: Iterable[str], *, differs: bool) -> NoReturn:
    """Print a comparison in one of its forms, and end the command."""
    if output is DiffFormat.JSON:
        sys.stdout.write(json_document(data))
    else:
        sys.stdout.writelines(f"{line}\n" for line in (markdown if output is DiffFormat.MARKDOWN else text))
    raise typer.Exit(DIFFERENT if differs else 0)


def _compare_engines(
    path: Path,
    log: Path | None,
    cases: list[Path],
    cluster: Path | None,
    kubernetes_version: str | None,
    output: DiffFormat,
) -> NoReturn:
    """Print the requests that Rego and CEL of one template decide differently."""
    from replay.cli.progress import progress_on
    from replay.pipeline.diff_requests import compare_sources
    from replay.pipeline.options import Options
    from replay.report.diff_report import sources_json, sources_markdown, sources_text

    logs = [] if log is None else [str(log)]
    scenario = Baseline(logs, cluster=cluster, kubernetes_version=kubernetes_version).scenario()
    with progress_on() as progress:
        result = compare_sources(path, scenario, cases, Options(), progress)
    _print(output, sources_json(result), sources_text(result), sources_markdown(result), differs=bool(result.differing))


def _compare_access(
    sides: tuple[Path, Path], cluster: Path | None, kubernetes_version: str | None, output: DiffFormat
) -> NoReturn:
    """Print the permissions that RBAC newly grants."""
    from replay.pipeline.output import show
    from replay.pipeline.project.format import DocumentFormat
    from replay.pipeline.scenario import name_of
    from replay.pipeline.set_diff import compare_access
    from replay.report.access import access_document, access_json, access_screen

    change = compare_access(*sides, cluster, version_of(kubernetes_version, sides))
    if output is DiffFormat.JSON:
        sys.stdout.write(json_document(access_json(change)))
    else:
        names = (name_of(sides[0]), name_of(sides[1]))
        show(access_document(change, names), DocumentFormat(output.value), access_screen(change, names))
    raise typer.Exit(0 if change.is_empty else DIFFERENT)


def _compare_pairs(
    sides: tuple[Path, Path],
    log: list[str],
    pairs: Path | None,
    cluster: Path | None,
    kubernetes_version: str | None,
    output: DiffFormat,
) -> NoReturn:
    """Print the requests that each pair of policies decides differently."""
    if not log:
        raise ReplayError("--pairs compares policies on real requests: give them with --log")
    from msgspec.structs import replace

    from replay.cli.progress import progress_on
    from replay.pipeline.diff_requests import compare_pairs
    from replay.pipeline.options import Options
    from replay.report.diff_report import pairs_json, pairs_text

    current, candidate = sides
    inputs = Baseline(log, cluster=cluster, kubernetes_version=kubernetes_version)
    scenario = replace(inputs.scenario(), current=current, candidate=candidate)
    version = version_of(kubernetes_version, sides)
    with progress_on() as progress:
        compared = compare_pairs(scenario, pairs, Options(), progress, version)
    text, markdown = pairs_text(compared, code=""), pairs_text(compared, code="`")
    _print(output, pairs_json(compared), text, markdown, differs=any(each.differs for each in compared))


def _print_proofs(
    differences: tuple[ObjectDiff, ...],
    sets: Sets | None,
    output: DiffFormat,
    save_cases: Path | None,
    versions: Versions,
) -> NoReturn:
    """Print the differences and their proofs."""
    from replay.prove.sets import prove_sets
    from replay.report import diff_report
    from replay.report import proof as report

    if sets is None:
        raise ReplayError("--prove takes the set of one workspace: give its folders")
    if versions.differ:
        raise ReplayError("--prove compares sets on one server: leave out --current-version and --candidate-version")
    proved = prove_sets(*sets, versions.candidate)
    if save_cases is not None:
        report.save_cases(proved.policies, save_cases)
    data = {"differences": diff_report.diff_json(differences), **report.set_json(proved)}
    text = chain(diff_report.diff_text(differences), report.proofs_text(proved))
    markdown = chain(diff_report.diff_markdown(differences), report.proofs_markdown(proved))
    _print(output, data, text, markdown, differs=bool(differences))


CONVERT_EPILOG = (
    "Example: replay convert manifests/api --out static/ --cluster cluster.jsonl\n\n"
    "replay convert manifests/ --out static/ --url validate.example.com=https://10.0.0.5:8443/validate\n\n"
    "Exit code: 0 everything is converted, 1 something is left, 2 or more an error."
)
NOT_CONVERTED = 1


def convert(
    path: Annotated[
        Path,
        typer.Argument(
            help="Policies, bindings and webhook configurations of the API: a file, a directory or a snapshot."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Directory for the static manifests. It is created if it does not exist.")],
    url: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=URL", help="Where the server calls a webhook that names a Service. Repeatable."),
    ] = None,
    cluster: ClusterSnapshot = None,
    server_directory: Annotated[
        str, typer.Option(metavar="DIR", help="Where the manifests will be on each API server.")
    ] = "/etc/kubernetes/admission",
    kubernetes_version: MinorVersion = None,
) -> None:
    """Write policies and webhooks of the API as static manifests of the API server.

    Writes one directory for each plugin and the AdmissionConfiguration that names them. An object that static manifests cannot say is
    left, with what to do instead. A parameter that a binding names is written into its policy.
    """
    from replay.pipeline.convert import ConvertOptions, convert_set
    from replay.report.diff_report import conversion_lines

    urls = dict(_named(each) for each in url or ())
    version = version_of(kubernetes_version)
    options = ConvertOptions(version=version, urls=urls, cluster=cluster, server_directory=server_directory)
    converted = convert_set(path, out, options)
    paths, configuration = converted.paths, converted.configuration
    lines = conversion_lines(converted.conversion, paths, configuration, server_directory.rstrip("/"))
    sys.stdout.writelines(f"{line}\n" for line in lines)
    raise typer.Exit(NOT_CONVERTED if converted.conversion.not_converted else 0)


def _named(option: str) -> tuple[str, str]:
    name, separator, target = option.partition("=")
    if not separator or not name or not target:
        raise ReplayError(f"`{option}` is not NAME=URL", path="--url")
    return name, target

"""Commands that decide something else than a log: `replay export` and `test` (cases), `plugin` (one plugin), `scan` (objects)."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from replay.cli.options import (
    AddedPolicies,
    AuditID,
    CandidateSet,
    ClusterName,
    ClusterSnapshot,
    CollectionItem,
    CurrentSet,
    FullReport,
    LogFormat,
    Logs,
    MinorVersion,
    MinorVersions,
    Namespaces,
    PlannedSets,
    Printed,
    Redaction,
    Store,
    with_groups,
)
from replay.errors import ReplayError
from replay.pipeline.project.format import CaseForm, CaseOperation, DecidingSet
from replay.pipeline.version import versions_of

if TYPE_CHECKING:
    from replay.case.result import CaseReport


EXPORT_EPILOG = (
    "Examples: replay export 4643ba19-8f5c-4d9d-921a-eb6cb22bdb75 sample_audit/shop --minimise --out cases/privileged.yaml\n\n"
    "replay export 4643ba19-8f5c-4d9d-921a-eb6cb22bdb75 sample_audit/shop --form kubectl"
)


@with_groups
def export(
    *,
    audit_id: AuditID,
    source: PlannedSets,
    item: CollectionItem = 0,
    form: Annotated[CaseForm, typer.Option("--form", help="Form of the output.")] = CaseForm.CASE,
    side: Annotated[
        DecidingSet | None,
        typer.Option("--side", help="Set that decides the request. Default: the candidate if there is one."),
    ] = None,
    minimise: Annotated[
        bool, typer.Option("--minimise", help="Remove every field that does not affect the decision.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Write to this file, or to this directory for --form kat, kyverno and gator.")
    ] = None,
    redact: Redaction = True,
) -> None:
    """Write a request of a log as a test case, an AdmissionReview, a kat, kyverno or gator test, or a kubectl command.

    The written form is decided once more before it is saved. A form that cannot hold the decision is refused, with the reason.
    """
    from replay.case.form.table import BY_NAME
    from replay.cli.progress import progress_on
    from replay.pipeline.export import ExportOptions, export_request
    from replay.pipeline.whole_file import write_files

    is_directory = form in BY_NAME and BY_NAME[form].is_directory
    if is_directory and out is None:
        raise ReplayError(f"--form {form.value} makes several files: give --out with a directory")
    if minimise and form is CaseForm.KUBECTL:
        raise ReplayError("--minimise leaves objects that a server would not take: a kubectl command has the whole one")
    scenario = source.scenario()
    options = ExportOptions(
        audit_id=audit_id,
        item=item,
        side=side,
        form=form,
        minimise=minimise,
        redact=redact,
        directory=Path.cwd() if out is None else out.parent,
    )
    with progress_on() as progress:
        files = export_request(scenario, options, progress)
    if out is None:
        sys.stdout.writelines(files.values())
    elif is_directory:
        write_files(out, files, "the case")
    else:
        (text,) = files.values()
        write_files(out.parent, {out.name: text}, "the case")


TEST_EPILOG = (
    "Examples: replay test cases/ --policies manifests/next\n\n"
    "replay test . --coverage --format junit --out report.xml\n\n"
    "Exit code: 0 every case passes, 1 a case fails, 2 a case cannot run."
)


class CaseResultFormat(StrEnum):
    """Output format of results."""

    TERMINAL = "terminal"
    JUNIT = "junit"
    TAP = "tap"
    GITHUB = "github"
    JSON = "json"


def test(
    paths: Annotated[
        list[Path],
        typer.Argument(
            help="Files and directories with test cases of replay, kat, kyverno, gator or kubescape.",
            metavar="PATH",
        ),
    ],
    policies: Annotated[
        list[Path] | None, typer.Option(help="Policies for cases that name none: a file or a directory. Repeatable.")
    ] = None,
    name: Annotated[str, typer.Option("--name", "-k", help="Only cases whose name contains this text.")] = "",
    coverage: Annotated[
        bool, typer.Option("--coverage", help="List policies, validations and branches that no case reaches.")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Run again when a file changes. Stop with Ctrl-C.")] = False,
    output: Annotated[CaseResultFormat, typer.Option("--format", help="Output format.")] = CaseResultFormat.TERMINAL,
    out: Annotated[Path | None, typer.Option(help="Print to this file instead.")] = None,
    kubernetes_version: MinorVersion = None,
    versions: MinorVersions = None,
) -> None:
    """Do the policies decide the test cases as expected?

    Needs no log. A case holds a request, the cluster around it and the expected decision (docs/cases.md).
    """
    from replay.pipeline.cases import CaseOptions, run_tests
    from replay.pipeline.project.watch import watch_cases
    from replay.report.case_results import FORMATS

    minors = versions_of(versions, kubernetes_version)
    policy_paths = tuple(policies or ())
    options = CaseOptions(paths=tuple(paths), policies=policy_paths, name=name, coverage=coverage, versions=minors)

    def write(lines: list[str]) -> None:
        text = "".join(f"{line}\n" for line in lines)
        if out is None:
            sys.stdout.write(text)
            sys.stdout.flush()
        else:
            out.write_text(text, "utf-8")

    def show(report: CaseReport | ReplayError) -> None:
        write([f"replay: {report}"] if isinstance(report, ReplayError) else list(FORMATS[output](report)))

    if watch:
        watch_cases(options, show)
    report = run_tests(options)
    write(list(FORMATS[output](report)))
    raise typer.Exit(report.exit_code)


PLUGIN_EPILOG = (
    "Example: replay plugin PodSecurity --config restricted.yaml --cases requests.jsonl --cluster cluster.jsonl --out results.jsonl\n\n"
    "Exit code: 0 every request was answered, 2 or more an error."
)


def plugin(
    name: Annotated[
        str,
        typer.Argument(
            help="Plugin, by its name in --enable-admission-plugins, or a policy engine: kyverno, gatekeeper.",
            metavar="NAME",
        ),
    ],
    logs: Annotated[
        list[str] | None,
        typer.Argument(
            help="Audit logs. Their requests are decided before those of --cases.",
            metavar="LOG",
        ),
    ] = None,
    *,
    log_format: LogFormat = None,
    store: Store = None,
    cluster_name: ClusterName = None,
    config: Annotated[
        Path, typer.Option(help="YAML file with the configuration, flags, namespaces and objects of the cluster.")
    ],
    cases: Annotated[
        list[Path] | None,
        typer.Option(
            help="AdmissionRequests, one {id, request} or {id, mutating, validating} object per line. Repeatable."
        ),
    ] = None,
    cluster: ClusterSnapshot = None,
    out: Annotated[Path | None, typer.Option(help="Write the results to this file, one JSON object per line.")] = None,
) -> None:
    """What does one built-in admission plugin or policy engine decide about these requests?

    The plugin runs alone: no other plugin, policy or webhook runs before or after it. Each line of the result shows what each phase did:
    refusal, patch, warnings, audit annotations, and writes to the cluster. With --out, the requests after which Kyverno makes or changes
    other objects are counted on the terminal.
    """
    from collections import Counter

    import orjson

    from replay.cli.progress import progress_on
    from replay.pipeline.plugin import plugin_results
    from replay.pipeline.scenario import Scenario
    from replay.pipeline.whole_file import whole_file
    from replay.storage.location import one_cluster

    with ExitStack() as files:
        target = files.enter_context(whole_file(out, "the results")) if out is not None else sys.stdout.buffer
        scenario = Scenario(
            tuple(logs or ()), store=one_cluster(store, cluster_name), cluster=cluster, log_format=log_format or ""
        )
        progress = files.enter_context(progress_on())
        triggered: Counter[str] = Counter()
        unknown: Counter[str] = Counter()
        for line in plugin_results(name, config, cases or (), scenario, progress):
            target.write(orjson.dumps(line) + b"\n")
            made = line.get("generate", ())
            unknown.update({each["policy"] for each in made if "undetermined" in each})
            known = (each for each in made if "undetermined" not in each)
            triggered.update({"/".join(filter(None, map(each.get, ("policy", "rule")))) for each in known})
    if out is not None:
        for policy, requests in sorted(triggered.items()):
            typer.echo(f"{policy}: {requests:,} requests make or change other objects afterwards")
        for policy, requests in sorted(unknown.items()):
            typer.echo(f"{policy}: {requests:,} requests are undetermined, see `generate` of their lines")


SCAN_EPILOG = (
    "Example: replay scan cluster.jsonl audit.jsonl.zst --candidate manifests/next\n\n"
    "Exit code: 0 no object would be denied, 1 one would be, 2 or more an error."
)


@with_groups
def scan(
    *,
    cluster: Annotated[
        Path,
        typer.Argument(
            help="Snapshot of cluster objects, with the objects to check. Or one scenario directory.", metavar="CLUSTER"
        ),
    ],
    logs: Logs = None,
    log_format: LogFormat = None,
    store: Store = None,
    cluster_name: ClusterName = None,
    current: CurrentSet = None,
    candidate: CandidateSet = None,
    add: AddedPolicies = None,
    namespace: Namespaces = None,
    operation: Annotated[
        CaseOperation,
        typer.Option(
            "--as",
            help="Check the next update without changes, a new creation, or what Kyverno's background scan reports.",
        ),
    ] = CaseOperation.UPDATE,
    user: Annotated[str | None, typer.Option(help="User for objects whose writer is not in the log.")] = None,
    group: Annotated[list[str] | None, typer.Option(help="Group of that user. Repeatable.")] = None,
    full: FullReport = False,
    printed: Printed,
    redact: Redaction = True,
    kubernetes_version: MinorVersion = None,
) -> None:
    """Which existing objects would the candidate deny?

    Checks every object of the snapshot: its next update without changes, or a new creation. The log tells who writes each object. For
    other objects the writer is --user, or an administrator.
    """
    from replay.cli.progress import progress_on
    from replay.kube.attributes import UserInfo
    from replay.pipeline.scan import ScanOptions
    from replay.pipeline.scan import scan as scan_objects
    from replay.report.scan_report import scan_document, scan_json, scan_screen

    is_scenario = not logs and (cluster / "candidate").exists()
    scenario = PlannedSets(
        [str(cluster)] if is_scenario else logs,
        log_format,
        store,
        cluster_name,
        current,
        candidate,
        add,
        None if is_scenario else cluster,
        kubernetes_version,
    ).scenario()
    named = UserInfo(user, "", tuple(group or ())) if user is not None else None
    with progress_on() as progress:
        options = ScanOptions(operation=operation, user=named, redact=redact, namespaces=tuple(namespace or ()))
        objects = scan_objects(scenario, options, progress)
    printed.show(objects, scan_json, scan_document, None if full else scan_screen)
    raise typer.Exit(int(bool(objects.breaches)))

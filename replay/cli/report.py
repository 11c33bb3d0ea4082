"""`replay report`, and `replay promote` for one of its policies."""

from __future__ import annotations

import sys
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from replay.cli.options import (
    AuthorizerWebhooks,
    Baseline,
    BothSets,
    FullReport,
    JsonOutput,
    Machines,
    Namespaces,
    OwnerLabel,
    PeriodEnd,
    PeriodStart,
    Printed,
    Selection,
    TimeZone,
    Workspaces,
    with_groups,
)
from replay.json import json_document

if TYPE_CHECKING:
    from datetime import tzinfo

    from replay.compare.permission_need import UnusedQuestion
    from replay.pipeline.scenario import Scenario


REPORT_EPILOG = (
    "Example: replay report --store audit.store audit.jsonl.zst --since 7d --current manifests/current "
    "--candidate manifests/next --cluster cluster.jsonl --out weekly\n\n"
    "replay report audit.jsonl.zst --unused --cluster cluster.jsonl --format rbac > next.yaml"
)


class ReportFormat(StrEnum):
    """Output format of the report, or another output in its place."""

    TERMINAL = "terminal"
    JSON = "json"
    MARKDOWN = "markdown"
    RBAC = "rbac"


@with_groups
def report(
    *,
    source: BothSets,
    workspace: Workspaces = None,
    namespace: Namespaces = None,
    since: PeriodStart = None,
    until: PeriodEnd = None,
    previous: Annotated[
        Path | None,
        typer.Option(help="Earlier report.json to compare with. Default: the report in --out, else the log itself."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write report.html, report.md and report.json into this directory (with --unused: unused.* and rbac.yaml)."
        ),
    ] = None,
    owner_label: OwnerLabel = "team",
    brief: Annotated[bool, typer.Option("--brief", help="Print short Markdown, for a comment.")] = False,
    readiness: Annotated[
        bool,
        typer.Option(
            "--readiness", help="Also report which Pod Security level and which limits each namespace is ready for."
        ),
    ] = False,
    unused: Annotated[
        bool,
        typer.Option(
            "--unused",
            help="Report which rules of roles are not needed. With `--format rbac`: print roles and bindings without them.",
        ),
    ] = False,
    full: FullReport = False,
    output: Annotated[
        ReportFormat,
        typer.Option("--format", help="Output format. `rbac` prints a Role for what --user did instead of a report."),
    ] = ReportFormat.TERMINAL,
    user: Annotated[
        str | None, typer.Option(help="User or service account for `--format rbac`, or subject for `--unused`.")
    ] = None,
    webhook: AuthorizerWebhooks = None,
    as_json: JsonOutput = False,
    tz: TimeZone = None,
    machines: Machines,
) -> None:
    """What did admission policies do this week, and which policies can be enforced?

    Reports denials, warnings, audits and mutations by policy and day, with the trend. For each policy that only warns, audits or is
    planned, it reports what the policy would deny and who owns the workloads. Lists what is new and what is gone.

    With --unused, the report is about RBAC: for each role, binding and subject, which rules the log never needed, and how sure that is.
    """
    from replay.cli.progress import progress_on
    from replay.compare.permission_need import UnusedQuestion
    from replay.errors import ReplayError
    from replay.pipeline.authorization.permission import least_privilege
    from replay.pipeline.log import store_of
    from replay.pipeline.options import Focus, Options, time_zone
    from replay.pipeline.weekly.report import WeeklyQuestion, print_weekly, weekly, weekly_markdown, write_weekly
    from replay.report.render.terminal import stdout_console
    from replay.report.weekly.json import weekly_json

    zone, scenario = time_zone(tz), source.scenario()
    if unused:
        asked = UnusedQuestion(user, tuple(namespace or ()), since, until)
        _print_unused(scenario, asked, ReportFormat.JSON if as_json else output, zone, full=full, out=out)
        return
    if output is ReportFormat.RBAC:
        if not user:
            text = "`--format rbac` needs the user that the Role is for, or --unused for all roles without their unused rules"
            raise ReplayError(text, path="--user")
        with progress_on() as progress, store_of(scenario, progress) as filled:
            sys.stdout.write(least_privilege(filled, user))
        return
    focus = Focus(namespaces=tuple(namespace or ()), workspaces=tuple(workspace or ()))
    question = WeeklyQuestion(since, until, previous, out, owner_label, readiness)
    with machines.fleet() as fleet, progress_on() as progress:
        options = Options(workers=machines.workers, fleet=fleet, webhooks=tuple(webhook or ()), focus=focus)
        result = weekly(scenario, question, options, progress, zone)
        if out is not None:
            write_weekly(result, out, zone, brief=brief)
    if as_json or output is ReportFormat.JSON:
        sys.stdout.write(weekly_json(result))
    elif brief or output is ReportFormat.MARKDOWN:
        sys.stdout.write(weekly_markdown(result, zone, brief=brief))
    else:
        print_weekly(result, stdout_console(), zone, full=full)


def _print_unused(
    scenario: Scenario, question: UnusedQuestion, output: ReportFormat, zone: tzinfo, *, full: bool, out: Path | None
) -> None:
    """Print the permissions that are not needed."""
    from replay.cli.progress import progress_on
    from replay.pipeline.authorization.permission import unused_permissions
    from replay.pipeline.output import show
    from replay.pipeline.project.format import DocumentFormat
    from replay.pipeline.whole_file import write_files
    from replay.report.render.html import html
    from replay.report.render.markdown import markdown
    from replay.report.unused_permissions import (
        unused_document,
        unused_json,
        unused_screen,
        unused_yaml,
    )

    with progress_on() as progress:
        uses = unused_permissions(scenario, question, progress, zone)
    data = json_document(unused_json(uses))
    document = unused_document(uses, zone)
    if out is not None:
        pages = {"unused.html": html(document), "unused.md": markdown(document)}
        write_files(out, {**pages, "unused.json": data, "rbac.yaml": unused_yaml(uses)}, "the report")
    if output is ReportFormat.RBAC:
        sys.stdout.write(unused_yaml(uses))
    elif output is ReportFormat.JSON:
        sys.stdout.write(data)
    else:
        show(document, DocumentFormat(output.value), None if full else unused_screen(uses, zone))


PROMOTE_EPILOG = (
    "Example: replay promote cand-team-label sample_audit/shop\n\n"
    "replay promote team-label audit.jsonl.zst --current manifests/current --cluster cluster.jsonl --format html > promote.html\n\n"
    "Exit code: 0 nothing that is admitted today would be denied, 1 something would or could, 2 or more an error."
)
NOT_READY = 1


@with_groups
def promote(
    *,
    policy: Annotated[
        str,
        typer.Argument(
            help="A policy of the baseline that audits or warns, native or of an engine: its name or a part of it."
        ),
    ],
    source: Baseline,
    requests: Selection,
    owner_label: OwnerLabel = "team",
    full: FullReport = False,
    printed: Printed,
    tz: TimeZone = None,
    machines: Machines,
) -> None:
    """Can this policy deny, instead of only auditing or warning?

    Answers for one policy: what it denied in audit, which requests it would deny directly, what would fail as a consequence, lockouts,
    the owners of the workloads, since when nothing new was hit, and how sure that is. Prints the change of the bindings.
    """
    from replay.cli.progress import progress_on
    from replay.pipeline.options import Options, time_zone
    from replay.pipeline.promote import promote as promote_policy
    from replay.report.promotion import is_ready, promotion_document, promotion_json, promotion_screen

    zone, scenario = time_zone(tz), source.scenario()
    with machines.fleet() as fleet, progress_on() as progress:
        focus = requests.focus(zone=zone)
        options = Options(workers=machines.workers, fleet=fleet, focus=focus, owner_label=owner_label)
        promoted = promote_policy(scenario, policy, options, progress)
    printed.show(
        promoted,
        promotion_json,
        partial(promotion_document, zone=zone),
        None if full else partial(promotion_screen, zone=zone),
        indent=2,
    )
    raise typer.Exit(0 if is_ready(promoted) else NOT_READY)

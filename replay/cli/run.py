"""`replay run`, and `replay accept` for what it finds and is intended."""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from replay.cli.options import (
    AcceptanceFile,
    AuthorizationMode,
    FullReport,
    JsonOutput,
    Machines,
    OutputFile,
    OwnerLabel,
    Policies,
    Rehearsal,
    RejectsFile,
    Selection,
    Workspaces,
    with_groups,
)
from replay.pipeline.project.format import FailOn, Format

if TYPE_CHECKING:
    from replay.compare.result import RunResult
    from replay.pipeline.options import Options
    from replay.pipeline.replay.workers import Fleet
    from replay.pipeline.scenario import Scenario


RUN_EPILOG = (
    "Examples: replay run audit.jsonl.zst --current manifests/current --candidate manifests/next --cluster cluster.jsonl\n\n"
    "kustomize build overlays/prod | replay run audit.jsonl.zst --cluster cluster.jsonl --apply -\n\n"
    "replay run --policy team-label --namespace 'prod-*' --brief --watch\n\n"
    "replay run audit.jsonl.zst --current now/ --current-version 1.36 --candidate-version 1.37\n\n"
    "replay run audit.jsonl.zst --current now/ --down validate.example.com\n\n"
    "replay run --format sarif --out replay.sarif --fail-on lockout\n\n"
    "Exit code: 0 no finding of --fail-on, 1 at least one, 2 or more an error."
)


@with_groups
def run(
    *,
    source: Rehearsal,
    policy: Policies = None,
    requests: Selection,
    workspace: Workspaces = None,
    outcomes: Annotated[
        Path | None,
        typer.Option(
            help="Write one JSON line per request that reached admission or the authorizers; - prints only these lines."
        ),
    ] = None,
    save_cases: Annotated[
        Path | None,
        typer.Option(help="Write a test case for each distinct finding into this directory (see `replay test`)."),
    ] = None,
    rejects: RejectsFile = None,
    report: Annotated[
        Path | None, typer.Option(help="Write report.html, report.md and findings.csv into this directory.")
    ] = None,
    output: Annotated[
        Format,
        typer.Option(
            "--format", help="Output format. github, sarif, junit and gitlab report findings at the line of the policy."
        ),
    ] = Format.TERMINAL,
    out: OutputFile = None,
    as_json: JsonOutput = False,
    full: FullReport = False,
    brief: Annotated[bool, typer.Option("--brief", help="Print at most ten lines.")] = False,
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Run again when a manifest changes and print the difference. Stop with Ctrl-C."),
    ] = False,
    accepted: AcceptanceFile = None,
    fail_on: Annotated[
        list[FailOn] | None,
        typer.Option(
            help="Findings that make the exit code 1. Default: denied, mutated and removed. Repeatable.",
            show_default=False,
        ),
    ] = None,
    redact: Annotated[bool, typer.Option(help="Hide Secret data and tokens in all output.")] = True,
    owner_label: OwnerLabel = "team",
    webhook: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=URL|NAME=recorded|NAME=FILE",
            help="Answers of a webhook: call URL (as a dry run; no other webhook is called), use the recorded answers of the log, or "
            "read a FILE of SubjectAccessReviews, ImageReviews or, for a Provider of Gatekeeper, ProviderResponses. Repeatable.",
        ),
    ] = None,
    prove: Annotated[
        bool,
        typer.Option("--prove", help="Also prove what each policy change can do for any request (see `replay diff`)."),
    ] = False,
    authorization_mode: AuthorizationMode = None,
    machines: Machines,
    batches: Annotated[
        tuple[int, int] | None,
        typer.Option(
            hidden=True, help="Select the rows of these batches of the store: the first, and the one after the last."
        ),
    ] = None,
) -> None:
    """Which real requests would a change of admission policy newly deny or mutate?

    Reads audit logs, decides every request with the baseline and with the candidate, and reports the differences. A directory with
    audit.*, current/, candidate/ and cluster.* needs no options.
    """

    def options(fleet: Fleet | None) -> Options:
        from replay.pipeline.options import Options, today

        return Options(
            outcomes=outcomes,
            rejects=rejects,
            save_cases=save_cases,
            redact=redact,
            owner_label=owner_label,
            workers=machines.workers,
            fleet=fleet,
            prove=prove,
            webhooks=tuple(webhook or ()),
            focus=requests.focus(policies=policy, workspaces=workspace, batches=batches),
            accepted=accepted,
            today=today(),
            authorization_mode=authorization_mode,
        )

    form = Format.JSON if as_json else output
    scenario = source.scenario()
    with machines.fleet() as fleet:
        if watch:
            _watch(scenario, options(fleet), full=full, brief=brief)
        workers = machines.workers if fleet is None else 1
        _run_once(scenario, workers, partial(options, fleet), report, (form, out, full, brief), fail_on)


def _run_once(
    scenario: Scenario,
    workers: int,
    make_options: Callable[[], Options],
    report: Path | None,
    printed: tuple[Format, Path | None, bool, bool],
    fail_on: list[FailOn] | None,
) -> None:
    """Run once. `workers` is the number of processes of this machine; the options are made while one of them reads."""
    from replay.pipeline.processes import forking
    from replay.pipeline.reading_process import read_ahead

    with forking(), read_ahead(scenario, workers) as reading:  # meanwhile all else is imported
        options = make_options()
        from replay.cli.progress import progress_on
        from replay.pipeline import output
        from replay.pipeline.output import USUAL, exit_code
        from replay.pipeline.run import run as run_scenario
        from replay.pipeline.whole_file import STDOUT, put
        from replay.report.render.terminal import stdout_console

        with progress_on() as progress:
            result = run_scenario(scenario, options, progress, reading)
            if report is not None:
                output.write_report(result, report)
    form, out, full, brief = printed
    code = exit_code(result, fail_on or USUAL)
    if str(options.outcomes) != STDOUT:
        if brief:
            _print_brief(result)
        elif form is not Format.TERMINAL:
            put(output.run_pieces(result, form), out)
        elif out is not None:
            put([output.terminal_text(lambda console: output.print_result(result, console, full=full))], out)
        else:
            output.print_result(result, stdout_console(), full=full)
    raise typer.Exit(code)


def _print_brief(result: RunResult) -> None:
    from replay.report.run.brief import brief_lines

    sys.stdout.writelines(f"{line}\n" for line in brief_lines(result))


def _watch(scenario: Scenario, options: Options, *, full: bool, brief: bool) -> None:
    """Run until the user stops it, and print each result."""
    from replay.cli.progress import progress_on
    from replay.errors import ReplayError
    from replay.pipeline import output
    from replay.pipeline.project.watch import LoopOutcome, watch_runs
    from replay.report.render.terminal import stdout_console

    def show(outcome: LoopOutcome) -> None:
        if isinstance(outcome, str | ReplayError):
            sys.stdout.write(f"{outcome if isinstance(outcome, str) else f'replay: {outcome}'}\n")
        elif brief:
            _print_brief(outcome)
        else:
            output.print_result(outcome, stdout_console(), full=full)
        sys.stdout.flush()

    with progress_on() as progress:
        watch_runs(scenario, options, progress, show)


ACCEPT_EPILOG = (
    "Example: replay accept --policy image-registries --namespace legacy --reason 'moves in December' --expires 60d\n\n"
    "replay accept audit.jsonl.zst --current now/ --candidate next/ --by policy --reason 'meant' --expires never\n\n"
    "Exit code: 0 the file is written, 2 or more an error."
)


class AcceptScope(StrEnum):
    """How much one entry accepts."""

    POLICY = "policy"
    NAMESPACE = "namespace"
    WORKLOAD = "workload"


@with_groups
def accept(
    *,
    source: Rehearsal,
    policy: Policies = None,
    requests: Selection,
    by: Annotated[
        AcceptScope, typer.Option(help="Write one entry per denied workload, namespace or policy.")
    ] = AcceptScope.WORKLOAD,
    reason: Annotated[str, typer.Option(help="Why the denials are intended.")] = "",
    expires: Annotated[str, typer.Option(help="End of the acceptance: 2026-12-31, 90d from today, or never.")] = "90d",
    accepted: Annotated[Path, typer.Option(envvar="REPLAY_ACCEPTED", help="File to which entries are added.")] = Path(
        "accepted.yaml"
    ),
    print_only: Annotated[bool, typer.Option("--print", help="Print the entries instead of writing them.")] = False,
    machines: Machines,
) -> None:
    """Record intended denials. `replay run` then counts them apart until they expire.

    Runs like `replay run` with the same options, and writes an entry for each finding that is not accepted yet. You can edit the entries:
    `*` and `?` are wildcards.
    """
    from replay.cli.progress import progress_on
    from replay.errors import ReplayError
    from replay.pipeline.options import Options, today
    from replay.pipeline.project.accepted import acceptances, accepted_text, add_accepted, expiry
    from replay.pipeline.run import run

    if not reason:
        raise ReplayError("say why this is intended", path="--reason")
    day = expiry(expires, today())
    scenario, focus = source.scenario(), requests.focus(policies=policy)
    with machines.fleet() as fleet, progress_on() as progress:
        options = Options(workers=machines.workers, fleet=fleet, focus=focus, accepted=accepted, today=today())
        result = run(scenario, options, progress)
    entries = acceptances(result, by, reason, day)
    if print_only:
        sys.stdout.write(accepted_text(entries))
    elif entries:
        add_accepted(accepted, entries)
    until_when = f"until {day}" if day is not None else "for ever"
    where = "nothing is written" if print_only or not entries else f"written to {accepted}"
    sys.stderr.write(f"{len(entries)} {'entry' if len(entries) == 1 else 'entries'} {until_when}; {where}\n")

"""The `replay` command: every error of the operator's input ends here as one line and an exit code."""

from __future__ import annotations

import os
import signal
import sys
from concurrent.futures import BrokenExecutor
from types import FrameType

import typer

from replay.cli import (
    cel,
    check,
    coverage,
    diff,
    explain,
    ingest,
    lookup,
    mutations,
    report,
    run,
    snapshot,
    sql,
    store,
    timeline,
    verify,
)
from replay.errors import ReplayError

INTERRUPTED = 130

app = typer.Typer(
    name="replay",
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    help="Replay Kubernetes audit logs against admission manifests, before you roll them out.\n\n"
    "Start with [bold]replay run sample_audit/shop[/bold].",
)
app.command("run", epilog=run.EPILOG)(run.run)
app.command("coverage", epilog=coverage.EPILOG)(coverage.coverage)
app.command("snapshot", epilog=snapshot.EPILOG)(snapshot.snapshot)
app.command("verify", epilog=verify.EPILOG)(verify.verify)
app.command("report", epilog=report.EPILOG)(report.report)
app.command("lookup", epilog=lookup.EPILOG)(lookup.lookup)
app.command("mutations", epilog=mutations.EPILOG)(mutations.mutations)
app.command("explain", epilog=explain.EPILOG)(explain.explain)
app.command("timeline", epilog=timeline.EPILOG)(timeline.timeline)
app.command("sql", epilog=sql.EPILOG)(sql.sql)
app.command("ingest", epilog=ingest.EPILOG)(ingest.ingest)
app.add_typer(store.store, name="store")
app.command("check", epilog=check.EPILOG)(check.check)
app.command("diff", epilog=diff.EPILOG)(diff.diff)
app.command("cel", epilog=cel.EPILOG)(cel.cel)


@app.callback()
def root() -> None:
    """Keep `replay` a group of commands, whatever their number."""


def main() -> None:
    """Run the command line; the exit code is 0, 1 where something is new, above 1 for an error."""
    interrupts: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        interrupts.append(number)
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, interrupt)
    try:
        app()
    except BaseException as error:  # noqa: BLE001 - what is interrupted may end in any error, or in Typer's silent exit
        sys.exit(_told(KeyboardInterrupt() if interrupts else error))


def _told(error: BaseException) -> int:
    """Tell an error in one line, and return the exit code; raises what is no error of the operator or the system."""
    match error:
        case ReplayError():
            text, code = str(error), error.exit_code
        case KeyboardInterrupt():
            text, code = "interrupted; nothing was written but what is complete", INTERRUPTED
        case BrokenPipeError():
            # The reader went away (`replay ... | head`): nobody is left to tell. Python would complain at its own exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        case OSError():
            text, code = f"{error.filename or 'input or output'}: {error.strerror or error}", ReplayError.exit_code
        case BrokenExecutor():
            text = "a worker process was killed (out of memory?); nothing is shown of a partial result"
            code = ReplayError.exit_code
        case _:
            raise error
    sys.stderr.write(f"replay: {text}\n")
    return code

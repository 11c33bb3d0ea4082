"""The `replay` command. Every error of the user's input ends here as one line and an exit code."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from concurrent.futures import BrokenExecutor
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from threading import Timer
from types import FrameType
from typing import Annotated

import typer

from replay.checkout import TRUST_VARIABLE
from replay.cli.command import UNTRUSTED, Commands
from replay.cli.project import default_map, find_project_file, project_values, read_project_file
from replay.cli.project_file import is_trusted, trusts_directory, untrusted_of
from replay.distribution import VERSION
from replay.errors import ReplayError

PLUGIN = "kubectl-replay"
"""The name by which kubectl finds this command and runs it as `kubectl replay`."""
INTERNAL = 70
"""The exit code of an error of `replay` itself (`EX_SOFTWARE` of sysexits): Python's own would be 1, which means a finding."""
SIGNALLED = 128
"""Base of the exit code for a signal's number."""
_ENDINGS = (signal.SIGTERM, signal.SIGHUP) if hasattr(signal, "SIGHUP") else (signal.SIGTERM,)
_PRIVATE = 0o077
"""File mode mask: only the owner may read stores, outcomes and reports, because they may hold Secrets."""
_IMPORT_SECONDS = 0.02  # after which an interrupt asks again
_WITHOUT_FILE = ("init", "trust")
"""Commands that write a project's file, or judge it."""
_SCRATCH = "replay.storage.scratch"
"""The module that makes and removes directories for one run."""

app = typer.Typer(
    name="replay",
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode=None,  # Rich takes as long as all else that help needs
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    help="Replay Kubernetes audit logs against admission manifests, before you roll them out.\n\n"
    "Start with replay run sample_audit/shop.",
)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        sys.stdout.write(f"replay {VERSION}\n")
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            envvar="REPLAY_CONFIG",
            help="replay.toml to use instead of the nearest one. An empty file disables it.",
        ),
    ] = None,
    trust_project: Annotated[
        bool,
        typer.Option(
            "--trust-project",
            envvar=TRUST_VARIABLE,
            help="Use all that replay.toml says, and follow links out of the checkout (see `replay trust`).",
        ),
    ] = False,
) -> None:
    """Take what the project's file says as defaults of the command (docs/project.md)."""
    file = config or find_project_file(Path.cwd())
    if not trust_project:
        os.environ.pop(TRUST_VARIABLE, None)  # `REPLAY_TRUST_PROJECT=0` is no trust
    if trust_project or trusts_directory(Path.cwd() if file is None else file.parent):
        os.environ[TRUST_VARIABLE] = "1"  # for the processes that this one starts, too
    if file is None or context.invoked_subcommand in _WITHOUT_FILE:
        return
    near = Path(os.path.relpath(file))
    values = project_values(read_project_file(near), context.command)
    if not (trust_project or config is not None or is_trusted(file, untrusted_of(values))):
        context.meta[UNTRUSTED] = near, [each for each in values if each.untrusted is not None]
        values = [each for each in values if each.untrusted is None]
    context.default_map = default_map(values)


class TerminatedError(BaseException):
    """A signal that asks the process to end. It is no `KeyboardInterrupt`, because Python ends differently after Ctrl-C."""

    def __init__(self, number: int) -> None:
        """Keep the number of the signal."""
        super().__init__(number)
        self.number = number


def main() -> None:
    """Run the command line. The exit code is 0, 1 if there is a finding, and higher for an error."""
    _open_streams()
    os.umask(_PRIVATE)
    interrupts: list[int] = []
    timers: list[Timer] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        interrupts.append(number)
        if not _may_be_cut_off(frame):
            again = Timer(_IMPORT_SECONDS, signal.raise_signal, [number])
            again.daemon = True
            timers.append(again)
            again.start()
            return
        _ignore(*_ENDINGS)  # what is being removed is removed to its end
        raise TerminatedError(number)

    signal.signal(signal.SIGINT, interrupt)
    for ending in _ENDINGS:
        if signal.getsignal(ending) is not signal.SIG_IGN:  # as `nohup` wants it
            signal.signal(ending, interrupt)
    try:
        _run_command()
    except BaseException as error:  # noqa: BLE001 - what is interrupted may end in any error, or in Typer's silent exit
        _ignore(signal.SIGINT, *_ENDINGS)  # one that waited for an import may come while the error is told
        for again in timers:  # nor may it come when Python ends, which reads_places no handler any more
            again.cancel()
            again.join()
        sys.exit(_report_error(TerminatedError(interrupts[0]) if interrupts else _cause(error)))


def _ignore(*signals: int) -> None:
    """Ignore signals with a handler. Python complains about `SIG_IGN` if a signal is still pending."""
    for number in signals:
        signal.signal(number, lambda *_: None)


def _run_command() -> None:
    is_plugin = Path(sys.argv[0]).stem == PLUGIN
    try:
        app(prog_name="kubectl replay" if is_plugin else None)
    finally:
        sys.stdout.flush()  # what fails at the exit of the interpreter is told in a way of its own


def _may_be_cut_off(frame: FrameType | None) -> bool:
    """Return whether an exception may interrupt this frame: in the command, but not in an import.

    An exception in a native module's import aborts the process. An exception while a directory is created or removed
    leaves it behind.
    """
    while frame is not None and frame.f_code is not _run_command.__code__:
        is_import = frame.f_code.co_filename == "<frozen importlib._bootstrap>"
        if is_import or frame.f_globals.get("__name__") == _SCRATCH:
            return False
        frame = frame.f_back
    return frame is not None


def _open_streams() -> None:
    """Replace closed standard streams (`replay ... >&-`), and escape characters that an encoding lacks."""
    sys.stdin = sys.stdin or Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115
    sys.stdout = sys.stdout or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - for as long as the process
    sys.stderr = sys.stderr or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _cause(error: BaseException) -> BaseException:
    """Return the error, or the broken pipe that Typer and Rich turned into an exit with code 1."""
    context = error.__context__
    return context if isinstance(error, SystemExit) and isinstance(context, BrokenPipeError) else error


def _is_of_the_machine(error: BaseException) -> bool:
    """Return whether an engine reports a full disk, exhausted memory, or a file that changed."""
    duckdb, polars = sys.modules.get("duckdb"), sys.modules.get("polars")
    return (
        duckdb is not None
        and isinstance(error, (duckdb.IOException, duckdb.OutOfMemoryException, duckdb.InvalidInputException))
    ) or (polars is not None and isinstance(error, polars.exceptions.ComputeError))


def _drop_output() -> None:
    """Discard pending output, because Python would complain at exit."""
    with suppress(OSError):
        sys.stdout.flush()
        return
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report_error(error: BaseException) -> int:
    """Print an error in one line and return the exit code. Raises Typer's exits.

    An error of `replay` itself is printed with its traceback, for a bug report.
    """
    match error:
        case ReplayError():
            text, code = str(error), error.exit_code
        case TerminatedError():
            event = "interrupted" if error.number == signal.SIGINT else "terminated"
            text, code = f"{event}; only complete files were written", SIGNALLED + error.number
        case BrokenPipeError():
            _drop_output()  # the reader went away (`replay ... | head`): nobody is left to tell
            return 0
        case OSError():
            _drop_output()
            text, code = f"{error.filename or 'input or output'}: {error.strerror or error}", ReplayError.exit_code
        case BrokenExecutor():
            text = "a worker process was killed (out of memory?); nothing is shown of a partial result"
            code = ReplayError.exit_code
        case _ if _is_of_the_machine(error):
            text, code = f"the log, the store or temporary files: {' '.join(str(error).split())}", ReplayError.exit_code
        case SystemExit():
            raise error
        case _:
            with suppress(OSError):
                traceback.print_exception(error)
            last = traceback.format_exception_only(error)[-1].strip()
            text, code = f"internal error, please report it with the lines above: {last}", INTERNAL
    with suppress(OSError):  # nobody may read it
        sys.stderr.write(f"replay: {text}\n")
        sys.stderr.flush()
    return code

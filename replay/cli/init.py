"""`replay init`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from replay.cli.project import NAME

if TYPE_CHECKING:
    from replay.pipeline.project.around import ProjectFindings


EPILOG = (
    "Example: replay init\n\n"
    "Then: replay run\n\n"
    "Exit code: 0 the file is written, 2 or more an error, such as an existing file."
)
_HEAD = """\
# Defaults of `replay` in this directory and below: the command line and REPLAY_... variables win.
# Paths are relative to this file. Options of one command are in a table with its name.
version = 1
"""
_TABLES = """
# [run]
# fail-on = ["denied"]      # what makes the exit code 1: denied, lockout, mutated, undecided, removed, none
# [report]
# since = "7d"
"""


def init(
    directory: Annotated[Path, typer.Argument(help="Directory to search, and to write replay.toml to.")] = Path(),
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    print_only: Annotated[bool, typer.Option("--print", help="Print the file instead of writing it.")] = False,
) -> None:
    """Write a replay.toml for the logs, store, manifests and snapshot found here. Then `replay run` needs no arguments."""
    from replay.errors import ReplayError
    from replay.pipeline.project.around import search_directory
    from replay.pipeline.whole_file import write_files

    target = directory / NAME
    if target.exists() and not force and not print_only:
        raise ReplayError("is already there; --force replaces it", path=str(target))
    if not directory.is_dir():
        raise ReplayError("no such directory", path=str(directory))
    findings = search_directory(directory)
    text = project_text(findings)
    if print_only:
        sys.stdout.write(text)
        return
    write_files(directory, {NAME: text}, "the project's file")
    sys.stdout.write(text)
    runs = (findings.logs or findings.store) and findings.candidate
    sys.stderr.write(
        f"{target} is written; {'`replay run` needs no arguments now' if runs else 'fill in what is missing'}\n"
    )


def project_text(findings: ProjectFindings) -> str:
    """Return the text of a `replay.toml`. Keys that were not found are comments."""
    logs = ", ".join(_quoted(path) for path in findings.logs)
    lines = [
        _line("logs", f"[{logs}]" if logs else "", '["audit/"]', "files, directories, globs"),
        _line(
            "store", _quoted(findings.store or Path("audit.store")), "", "keeps logs and results; made by the first run"
        ),
        _line("current", _quoted(findings.current), '"manifests/current"', "the manifests in force"),
        _line("candidate", _quoted(findings.candidate), '"manifests/next"', "the manifests that are planned"),
        _line("cluster", _quoted(findings.cluster), '"cluster.jsonl"', "a snapshot: replay snapshot"),
        _line("owner-label", _quoted(findings.owner_label), '"team"', "the label of namespaces that names their owner"),
        _line("accepted", _quoted(Path("accepted.yaml")), "", "intended denials: replay accept"),
    ]
    return _HEAD + "".join(lines) + _TABLES


def _line(key: str, value: str, example: str, meaning: str) -> str:
    said = f"{key} = {value}" if value else f"# {key} = {example}"
    return f"{said:<39} # {meaning}\n"


def _quoted(value: Path | str | None) -> str:
    """Return a TOML string; the empty text for None."""
    if value is None:
        return ""
    import json

    return json.dumps(value if isinstance(value, str) else value.as_posix(), ensure_ascii=False)

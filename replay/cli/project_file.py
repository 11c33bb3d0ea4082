"""Commands about the project's file: `replay init` writes it, `replay trust` lets it act outside of its checkout."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from replay.cli.project import NAME, ProjectValue, Untrusted, find_project_file, project_values, read_project_file
from replay.errors import ReplayError

if TYPE_CHECKING:
    from replay.pipeline.project.around import ProjectFindings


INIT_EPILOG = (
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


TRUST_EPILOG = (
    "Examples: replay trust\n\n"
    "replay trust ~/src/policies --forget\n\n"
    "Exit code: 0 the directory is trusted, 2 or more an error, such as no replay.toml."
)


def untrusted_of(values: Iterable[ProjectValue]) -> list[Untrusted]:
    """Return the values of a file that need trust, each place once."""
    found = {each.untrusted.place: each.untrusted for each in values if each.untrusted is not None}
    return sorted(found.values(), key=lambda each: each.line)


def is_trusted(file: Path, found: Iterable[Untrusted]) -> bool:
    """Return whether the user ran `replay trust` for a file with the same values that need trust."""
    return _trusted().get(_key(file)) == _digest(found)


def trusts_directory(directory: Path) -> bool:
    """Return whether the user ran `replay trust` for a directory or one above it."""
    known = _trusted()
    return any(str(each) in known for each in (directory.resolve(), *directory.resolve().parents))


def trust(
    context: typer.Context,
    directory: Annotated[Path, typer.Argument(help="Directory with the replay.toml to trust.", metavar="DIR")] = Path(),
    forget: Annotated[bool, typer.Option("--forget", help="Trust the directory no longer.")] = False,
) -> None:
    """Trust the replay.toml of a directory: what it says now may reach out, write elsewhere and show Secrets.

    Without trust such values are not used, and links of the checkout do not lead out of it. A later change of these values asks
    again. The command line, REPLAY_... variables and a file that --config names need no trust.
    """
    path = find_project_file(directory.absolute())
    if path is None:
        raise ReplayError("no replay.toml here or above: `replay init` writes one", path=str(directory))
    known = _trusted()
    key = _key(path)
    if forget:
        known.pop(key, None)
        _remember(known)
        sys.stdout.write(f"{key}: trusted no longer\n")
        return
    assert context.parent is not None
    found = untrusted_of(project_values(read_project_file(path), context.parent.command))
    _remember({**known, key: _digest(found)})
    for each in found:
        sys.stdout.write(f"{path}:{each.line}: `{'.'.join(each.place)}` {each.reason}\n")
    sys.stdout.write(f"{key}: trusted\n")


def _key(file: Path) -> str:
    return str(file.resolve().parent)


def _digest(found: Iterable[Untrusted]) -> str:
    """Return a digest of the values that need trust. Any other change of the file keeps the trust."""
    values = sorted(json.dumps([each.place, each.value], sort_keys=True, default=str) for each in found)
    return hashlib.sha256("\n".join(values).encode()).hexdigest()


def _record() -> Path:
    """Return where trust is stored, outside every checkout."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "replay" / "trusted.json"


def _trusted() -> dict[str, str]:
    """Return the trusted directories with the digest of each file; empty if the record is unreadable."""
    try:
        record = json.loads(_record().read_bytes())
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def _remember(trusted: Mapping[str, str]) -> None:
    from replay.pipeline.whole_file import write_files

    path = _record()
    write_files(path.parent, {path.name: json.dumps(trusted, indent=1, sort_keys=True) + "\n"}, "the trust")

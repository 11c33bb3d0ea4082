"""`replay.toml`, or `[tool.replay]` of a `pyproject.toml`: location, content, lines, and which values need the user's trust.

A pull request may have written the file.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args, get_origin

import typer
from msgspec import Struct

from replay import distribution
from replay.checkout import is_inside, root_of
from replay.errors import ReplayError, reason_of
from replay.storage.location import is_remote

NAME = "replay.toml"
PYPROJECT = "pyproject.toml"
VERSION = 1
"""The version of the file's form, which its key `version` says; a file without one is of the first."""
_VERSION_KEY = "version"
_TOOL = ("tool", "replay")
_HEADER = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]")
_KEY = re.compile(r"""\s*["']?([\w-]+)["']?\s*[.=]""")
_PLACE = re.compile(r" \(at line (\d+), column (\d+)\)$")


class _ProjectFile(Struct, frozen=True):
    """Content of a file: `values` are its keys, with a table per command."""

    path: Path
    values: dict[str, Any]
    text: str

    def error(self, key: tuple[str, ...], message: str) -> ReplayError:
        """Return an error at a key, with its line."""
        return ReplayError(message, path=str(self.path), line=self.line(key))

    def line(self, key: tuple[str, ...]) -> int:
        """Return the line of a key, 0 if unknown."""
        return next((number for number, key_at_line in _keys(self.text, self._prefix) if key_at_line == key), 0)

    @property
    def _prefix(self) -> tuple[str, ...]:
        return _TOOL if self.path.name == PYPROJECT else ()


def find_project_file(directory: Path) -> Path | None:
    """Return the nearest `replay.toml`, or `pyproject.toml` with `[tool.replay]`, at or above a directory.

    The search ends at a directory with `.git`.
    """
    for each in (directory, *directory.parents):
        if (each / NAME).is_file():
            return each / NAME
        if (each / PYPROJECT).is_file() and b"tool.replay" in (each / PYPROJECT).read_bytes():
            return each / PYPROJECT
        if (each / ".git").exists():
            return None
    return None


def read_project_file(path: Path) -> _ProjectFile:
    """Read a file; raises ReplayError with the line for invalid TOML."""
    try:
        text = path.read_text("utf-8")
        values: Any = tomllib.loads(text)
    except OSError as error:
        raise ReplayError(f"cannot be read: {reason_of(error)}", path=str(path)) from error
    except UnicodeDecodeError as error:
        raise ReplayError("is no UTF-8", path=str(path)) from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        match = _PLACE.search(str(error))
        line, column = (int(match[1]), int(match[2])) if match else (0, 0)
        message = f"is no TOML: {_PLACE.sub('', str(error))}"
        raise ReplayError(message, path=str(path), line=line, column=column) from error
    for part in _TOOL if path.name == PYPROJECT else ():
        values = values.get(part, {})
        if not isinstance(values, dict):
            raise ReplayError(f"`{part}` is to be a table", path=str(path))
    version = values.get(_VERSION_KEY, VERSION)
    file = _ProjectFile(path, {key: value for key, value in values.items() if key != _VERSION_KEY}, text)
    if version != VERSION or isinstance(version, bool):
        raise file.error(
            (_VERSION_KEY,), f"`version` is {version}, and this replay reads {VERSION}: upgrade {distribution.NAME}"
        )
    return file


def _keys(text: str, prefix: tuple[str, ...]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Return the line of each key and table, without the prefix, because tomllib does not report positions."""
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            table = tuple(part.strip(" \"'") for part in header[1].split("."))
            key = table
        elif match := _KEY.match(line):
            key = (*table, match[1])
        else:
            continue
        if key[: len(prefix)] == prefix:
            yield number, key[len(prefix) :]


_REASONS = {
    **dict.fromkeys(("scheduler", "listen", "address", "host", "kubeconfig", "context"), "reaches out"),
    **dict.fromkeys(("client-ca-file", "tls-cert-file", "tls-private-key-file"), "decides who may send"),
    **dict.fromkeys(("listen-client-ca-file", "listen-cert-file", "listen-key-file"), "decides who may send"),
    **dict.fromkeys(("reader-token-file", "trusted-proxy", "notify-secret-file"), "decides who may read"),
    **dict.fromkeys(("keep", "keep-size", "before"), "removes requests"),
}
"""Why an option needs trust, whatever its value."""
_PATHS = ("logs", "store", "webhook", "query", "authorization-mode", "trial", "follow", "pull")
"""Options whose values are texts that may be paths."""
_SCHEME = "://"
_STREAM = "-"


class Untrusted(Struct, frozen=True):
    """A value that counts only with trust: its place, line, text, and effect."""

    place: tuple[str, ...]
    line: int
    value: Any
    reason: str


def reason_for_trust(key: str, value: Any, kind: Any, file: Path) -> str:
    """Return why a value of a file needs trust; empty if it does not.

    `value` is the file's value, `kind` the annotation of its option.
    """
    texts = [str(each) for each in (value if isinstance(value, list) else [value])]
    if any(_SCHEME in text for text in texts):
        return "reaches out"
    if key in _REASONS:
        return _REASONS[key]
    if (key == "redact" and value is False) or (key == "secrets" and value is True):
        return "weakens redaction"
    if is_path(key, kind) and not all(_is_ours(text, file) for text in texts):
        return "leads out of the checkout"
    return ""


def is_path(key: str, kind: Any) -> bool:
    """Return whether the values of an option can be paths. `kind` is its annotation."""
    return kind is Path or Path in get_args(kind) or key in _PATHS


def path_in(text: str) -> str:
    """Return the path of `NAME=FILE`, or the text itself."""
    name, _, path = text.rpartition("=")
    return path if name and "/" not in name and not os.path.exists(text) else text  # noqa: PTH110


def _is_ours(text: str, file: Path) -> bool:
    """Return whether a text names something in the file's checkout. Of `NAME=FILE`, the file counts too."""
    root = root_of(file) or file.absolute().parent
    path = text.rpartition("=")[2]
    return text == _STREAM or all(is_inside(file.parent / each, root) for each in (text, path))


def notice(file: Path, found: Sequence[Untrusted]) -> str:
    """Return the line that names the unused values of a file and how to use them."""
    values = ", ".join(
        f"`{'.'.join(each.place)}` ({f'line {each.line}, ' if index else ''}{each.reason})"
        for index, each in enumerate(found)
    )
    return (
        f"{file}:{found[0].line}: not used without trust: {values}; "
        "run `replay trust` once, or give `replay --trust-project`"
    )


# Defaults of commands from a project's file, in Click's form (`Context.default_map`).

SHARED = (
    *("logs", "from", "store", "current", "candidate", "add", "apply", "cluster", "cluster-name", "kubernetes-version"),
    *("webhook", "authorization-mode", "owner-label", "accepted", "tz", "redact", "workers", "engine", "scheduler"),
)
"""Keys outside of a command's table. They apply to every command that has the option."""

TRIALS = "trials"
"""The table with the trials of `replay serve`: `NAME = "DIR"`. It stands for `trial` of the table `[serve]`."""
_ARGUMENTS = {"store_directory": "store", "sets": "candidate"}
"""Arguments with another name than the option of the same meaning."""


class ProjectValue(Struct, frozen=True):
    """A value for one parameter of one command, which is named by the words that call it. `untrusted` says that it needs trust."""

    command: tuple[str, ...]
    parameter: str
    value: Any
    untrusted: Untrusted | None


def project_values(file: _ProjectFile, group: Any) -> list[ProjectValue]:
    """Return a file's values for each command of a group.

    Raises ReplayError with the place for unknown keys and wrong types.
    """
    return list(_group_values(file, group, {}, ()))


def default_map(values: Iterable[ProjectValue]) -> dict[str, Any]:
    """Return the values in Click's form: by the names of commands and parameters."""
    found: dict[str, Any] = {}
    for each in values:
        place = found
        for name in each.command:
            place = place.setdefault(name, {})
        place[each.parameter] = each.value
    return found


def _group_values(
    file: _ProjectFile, group: Any, shared: Mapping[str, Any], table: tuple[str, ...]
) -> Iterator[ProjectValue]:
    values = file.values
    for name in table:
        values = values[name] if isinstance(values.get(name), dict) else {}
    keys = (*SHARED, TRIALS, *group.commands) if not table else tuple(group.commands)
    trials = _trials(file) if not table else []
    for key in values:
        if key not in keys:
            raise unknown(file, (*table, key), keys)
    shared = {
        **shared,
        **{key: value for key, value in values.items() if key in SHARED and not isinstance(value, dict)},
    }
    for name, command in group.commands.items():
        own = {} if name in shared else values.get(name, {})
        if not isinstance(own, dict):
            raise file.error((*table, name), f"`{name}` is a command: its options stand in a table `[{name}]`")
        if name == "serve" and trials:
            own = {"trial": trials, **own}
        if hasattr(command, "commands"):
            yield from _group_values(file, command, shared, (*table, name))
        else:
            yield from _command_values(file, command, shared, own, (*table, name))


def _trials(file: _ProjectFile) -> list[str]:
    """Return the trials of a file as `NAME=PATH`. Raises ReplayError."""
    trials = file.values.get(TRIALS, {})
    if not isinstance(trials, dict):
        raise file.error((TRIALS,), f'`{TRIALS}` is a table: `[{TRIALS}]`, then a line `NAME = "DIR"` for each trial')
    for name, path in trials.items():
        if not isinstance(path, str):
            raise file.error((TRIALS, name), f"`{name}` is to be the path of a candidate")
    return [f"{name}={path}" for name, path in trials.items()]


def _command_values(
    file: _ProjectFile, command: Any, shared: Mapping[str, Any], own: Mapping[str, Any], table: tuple[str, ...]
) -> Iterator[ProjectValue]:
    """Yield one command's values. Its own table wins over shared keys."""
    parameters = {key_of(parameter): parameter for parameter in command.params if parameter.name != "help"}
    for key in own:
        if key not in parameters:
            raise unknown(file, (*table, key), tuple(parameters))
    context = typer.Context(command, info_name=table[-1])
    for key, parameter in parameters.items():
        if key in own or key in shared:
            place = (*table, key) if key in own else (key,)
            if key == "trial" and not file.line(place):
                place = (TRIALS,)
            value = own.get(key, shared.get(key))
            checked = _checked(file, place, value, parameter, context)
            reason = reason_for_trust(key, value, parameter.type_descriptor.annotation, file.path)
            untrusted = Untrusted(place, file.line(place), value, reason) if reason else None
            yield ProjectValue(table, parameter.name, checked, untrusted)


def key_of(parameter: Any) -> str:
    """Return the name of a parameter in a file: its long option, or the name of the argument."""
    long = next(
        (each for each in parameter.opts if each.startswith("--")), _ARGUMENTS.get(parameter.name, parameter.name)
    )
    return str(long).removeprefix("--")


def unknown(file: _ProjectFile, key: tuple[str, ...], known_keys: tuple[str, ...]) -> ReplayError:
    """Return the error for an unknown key."""
    near = get_close_matches(key[-1], known_keys, n=1)
    hint = f"did you mean `{near[0]}`?" if near else f"known are {', '.join(known_keys)}"
    return file.error(key, f"unknown key `{key[-1]}`; {hint}")


def _checked(file: _ProjectFile, place: tuple[str, ...], value: Any, parameter: Any, context: typer.Context) -> Any:
    """Return a value in the form of a Click default, with paths relative to this directory. Raises ReplayError for a wrong type."""
    kind = parameter.type_descriptor.annotation
    name = place[-1]
    is_list = get_origin(kind) is list
    values = value if isinstance(value, list) else [value]
    if isinstance(value, list) and not is_list:
        raise file.error(place, f"`{name}` is to be one value, not a list")
    if any(isinstance(each, bool) is not (kind is bool) or isinstance(each, dict | list) for each in values):
        raise file.error(place, f"`{name}` is to be {'true or false' if kind is bool else 'a text or a number'}")
    texts = [each if kind is bool else str(each) for each in values]
    if kind is Path or Path in get_args(kind) or name in ("logs", "store", "webhook", "trial", TRIALS):
        texts = [_relative_to_file(file.path.parent, str(each)) for each in texts]
    argument = texts if is_list else texts[0]
    try:
        parameter.process_value(context, argument)
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        raise file.error(place, f"`{name}`: {' '.join(error.format_message().split())}") from error
    return argument


def _relative_to_file(directory: Path, text: str) -> str:
    """Return a path relative to the file's directory; `-`, URLs and `NAME=URL` stay unchanged."""
    name, sign, path = text.rpartition("=")
    if text == "-" or is_remote(text) or (sign and not (directory / path).exists()):
        return text
    return f"{name}{sign}{os.path.relpath(directory / path)}"

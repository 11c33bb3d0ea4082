"""Defaults of commands from a project's file, in Click's form (`Context.default_map`)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args, get_origin

import typer
from msgspec import Struct

from replay.cli.project.file import ProjectFile, Untrusted, reason_for_trust
from replay.errors import ReplayError
from replay.storage.url import is_remote

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


def project_values(file: ProjectFile, group: Any) -> list[ProjectValue]:
    """Return a file's values for each command of a group.

    Raises ReplayError with the place for unknown keys and wrong types.
    """
    return list(_of_group(file, group, {}, ()))


def default_map(values: Iterable[ProjectValue]) -> dict[str, Any]:
    """Return the values in Click's form: by the names of commands and parameters."""
    found: dict[str, Any] = {}
    for each in values:
        place = found
        for name in each.command:
            place = place.setdefault(name, {})
        place[each.parameter] = each.value
    return found


def _of_group(
    file: ProjectFile, group: Any, shared: Mapping[str, Any], table: tuple[str, ...]
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
            yield from _of_group(file, command, shared, (*table, name))
        else:
            yield from _of_command(file, command, shared, own, (*table, name))


def _trials(file: ProjectFile) -> list[str]:
    """Return the trials of a file as `NAME=PATH`. Raises ReplayError."""
    trials = file.values.get(TRIALS, {})
    if not isinstance(trials, dict):
        raise file.error((TRIALS,), f'`{TRIALS}` is a table: `[{TRIALS}]`, then a line `NAME = "DIR"` for each trial')
    for name, path in trials.items():
        if not isinstance(path, str):
            raise file.error((TRIALS, name), f"`{name}` is to be the path of a candidate")
    return [f"{name}={path}" for name, path in trials.items()]


def _of_command(
    file: ProjectFile, command: Any, shared: Mapping[str, Any], own: Mapping[str, Any], table: tuple[str, ...]
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


def unknown(file: ProjectFile, key: tuple[str, ...], known_keys: tuple[str, ...]) -> ReplayError:
    """Return the error for an unknown key."""
    near = get_close_matches(key[-1], known_keys, n=1)
    hint = f"did you mean `{near[0]}`?" if near else f"known are {', '.join(known_keys)}"
    return file.error(key, f"unknown key `{key[-1]}`; {hint}")


def _checked(file: ProjectFile, place: tuple[str, ...], value: Any, parameter: Any, context: typer.Context) -> Any:
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
        texts = [_from_here(file.path.parent, str(each)) for each in texts]
    argument = texts if is_list else texts[0]
    try:
        parameter.process_value(context, argument)
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        raise file.error(place, f"`{name}`: {' '.join(error.format_message().split())}") from error
    return argument


def _from_here(directory: Path, text: str) -> str:
    """Return a path relative to the file's directory; `-`, URLs and `NAME=URL` stay unchanged."""
    name, sign, path = text.rpartition("=")
    if text == "-" or is_remote(text) or (sign and not (directory / path).exists()):
        return text
    return f"{name}{sign}{os.path.relpath(directory / path)}"

"""`replay.toml`, or `[tool.replay]` of a `pyproject.toml`: location, content, lines, and which values need the user's trust.

A pull request may have written the file.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

from msgspec import Struct

from replay import distribution
from replay.checkout import is_inside, root_of
from replay.errors import ReplayError, reason_of

NAME = "replay.toml"
PYPROJECT = "pyproject.toml"
VERSION = 1
"""The version of the file's form, which its key `version` says; a file without one is of the first."""
_VERSION_KEY = "version"
_TOOL = ("tool", "replay")
_HEADER = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]")
_KEY = re.compile(r"""\s*["']?([\w-]+)["']?\s*[.=]""")
_PLACE = re.compile(r" \(at line (\d+), column (\d+)\)$")


class ProjectFile(Struct, frozen=True):
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


def read_project_file(path: Path) -> ProjectFile:
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
    file = ProjectFile(path, {key: value for key, value in values.items() if key != _VERSION_KEY}, text)
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

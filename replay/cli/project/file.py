"""`replay.toml`, or `[tool.replay]` of a `pyproject.toml`: location, content, lines."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from replay import distribution
from replay.errors import ReplayError

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
        """An error at a key, with its line."""
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
        raise ReplayError(f"cannot be read: {error.strerror}", path=str(path)) from error
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
    """The line of each key and table, without the prefix: tomllib does not tell where it found what."""
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

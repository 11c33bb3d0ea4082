"""Parser of the arguments of `kube-apiserver` (`github.com/spf13/pflag`, `FlagSet.Parse`).

`data/flags.json` has the names, types and versions of the flags of `NewAPIServerCommand`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import cache
from importlib import resources
from typing import Final, NamedTuple

from msgspec import Struct, field

from replay.cellib.version import KubernetesVersion
from replay.go.format import quote
from replay.go.time import DurationError, parse_duration

_ADDING: Final = frozenset({"stringSlice", "stringArray", "colonSeparatedMultimapStringString"})
"""Types of flags whose values accumulate. For others the last value counts."""
_BOOL: Final = frozenset(["1", "t", "T", "TRUE", "true", "True", "0", "f", "F", "FALSE", "false", "False"])
_NUMBERS: Final = {"int": "Int", "int64": "Int", "uint": "Uint", "Level": "Uint"}
_NUMBER: Final = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F_]+|0[bB][01_]+|0[oO]?[0-7_]*|[1-9][0-9_]*)")
_OCTAL: Final = re.compile(r"([+-]?0)(?=[0-7_])")
_QUOTED: Final = re.compile(r'"(?:[^"]|"")*"(?:,|$)')
_PLAIN: Final = re.compile(r"[^,\"]*(?:,|$)")


class FlagError(ValueError):
    """Arguments with which the server does not start. `str()` is its text."""


class Flag(NamedTuple):
    """A flag of the server, and the first and the last minor version that has it."""

    name: str
    type: str
    minors: tuple[int, int] = (0, 99)
    shorthand: str = ""

    @property
    def alone(self) -> str:
        """The value of the flag if none is given, or "" if it needs one."""
        return "true" if self.type in ("bool", "version") else ""


@cache
def known_flags(version: KubernetesVersion) -> dict[str, Flag]:
    """Return all flags of a server version by name."""
    text = resources.files("replay.manifests.server").joinpath("data/flags.json").read_text("utf-8")
    rows = json.loads(text)
    flags = (
        Flag(name, kind, (row.get("since", 0), row.get("until", 99)), row.get("shorthand", ""))
        for kind, names in rows.items()
        for name, row in names.items()
    )
    return {flag.name: flag for flag in flags if flag.minors[0] <= version.minor <= flag.minors[1]}


class _Parser(Struct):
    """Parser of one command line. `values` are the values by name. Accumulated values are joined with commas."""

    words: list[str]
    flags: dict[str, Flag]
    values: dict[str, str] = field(default_factory=dict)
    arguments: list[str] = field(default_factory=list)

    def parse(self) -> None:
        while self.words:
            word = self.words.pop(0)
            if word == "--":
                self.arguments += self.words
                return
            if word.startswith("--"):
                self._long(word[2:])
            elif word.startswith("-") and word != "-":
                self._short(word[1:])
            else:
                self.arguments.append(word)

    def _long(self, text: str) -> None:
        """Parse `--name=value`, `--name value`, or `--name` of a Boolean flag."""
        name, has_value, value = text.partition("=")
        if not name or name.startswith("-"):
            raise FlagError(f"bad flag syntax: --{text}")
        flag = self.flags.get(name.replace("_", "-"))
        if flag is None:
            raise FlagError(f"unknown flag: --{name}")
        if not has_value:
            value = flag.alone or self._next(f"--{name}")
        self._set(flag, value)

    def _short(self, text: str) -> None:
        """Parse `-v=2`, `-v2`, `-v 2`, or several letters that need no value."""
        shorthands = text
        while shorthands:
            letter, rest = shorthands[0], shorthands[1:]
            flag = next((each for each in self.flags.values() if each.shorthand == letter), None)
            if flag is None:
                raise FlagError(f"unknown shorthand flag: '{letter}' in -{shorthands}")
            if len(rest) > 1 and rest[0] == "=":
                self._set(flag, rest[1:])
            elif flag.alone:
                self._set(flag, flag.alone)
                shorthands = rest
                continue
            else:
                self._set(flag, rest or self._next(f"'{letter}' in -{shorthands}"))
            return

    def _next(self, flag: str) -> str:
        if not self.words:
            raise FlagError(f"flag needs an argument: {flag}")
        return self.words.pop(0)

    def _set(self, flag: Flag, value: str) -> None:
        problem = _problem(flag, value)
        if problem:
            shown = f"-{flag.shorthand}, --{flag.name}" if flag.shorthand else f"--{flag.name}"
            raise FlagError(f"invalid argument {quote(value)} for {quote(shown)} flag: {problem}")
        if flag.type in _NUMBERS:
            value = str(integer(value))
        earlier = self.values.get(flag.name)
        joins = earlier is not None and flag.type in _ADDING
        self.values[flag.name] = f"{earlier},{value}" if joins else value


def _problem(flag: Flag, value: str) -> str:
    """Return a value's error for the type of its flag, or "". Types that admission does not use accept any value."""
    if flag.type == "bool":
        return "" if value in _BOOL else f"strconv.ParseBool: parsing {quote(value)}: invalid syntax"
    if flag.type == "stringSlice":
        return _list_problem(value)
    if flag.type == "duration":
        return _duration_problem(value)
    return _number_problem(_NUMBERS[flag.type], value) if flag.type in _NUMBERS else ""


def _duration_problem(value: str) -> str:
    """Return the error of `time.ParseDuration`, or ""."""
    try:
        parse_duration(value)
    except DurationError as error:
        return str(error)
    return ""


def _number_problem(kind: str, value: str) -> str:
    """Return `strconv`'s error for an integer in any base, or ""."""
    text = f"strconv.Parse{kind}: parsing {quote(value)}"
    if _NUMBER.fullmatch(value) is None or (kind == "Uint" and not value[0].isdigit()):
        return f"{text}: invalid syntax"
    try:
        number = integer(value)
    except ValueError:
        return f"{text}: invalid syntax"
    return "" if -(1 << 63) <= number < 1 << 63 else f"{text}: value out of range"


def integer(value: str) -> int:
    """Return a number as `strconv.ParseInt` does in base 0. Raises ValueError."""
    return int(_OCTAL.sub(r"\1o", value), 0)


def _list_problem(value: str) -> str:
    """Return `encoding/csv`'s error for a list, or ""."""
    place = 0
    while place < len(value):
        pattern = _QUOTED if value[place] == '"' else _PLAIN
        match = pattern.match(value, place)
        if match is None and pattern is _PLAIN:
            column = value.index('"', place) + 1
            return f'parse error on line 1, column {column}: bare " in non-quoted-field'
        if match is None:
            return f'parse error on line 1, column {len(value) + 1}: extraneous or missing " in quoted-field'
        place = match.end()
    return ""


def parse_flags(words: Iterable[str], version: KubernetesVersion) -> dict[str, str]:
    """Return the values of flags by name, with dashes for underscores (`WordSepNormalizeFunc`). Numbers are decimal.

    Raises FlagError, with the server's text, for an unknown flag, an invalid value, and an argument.
    """
    parser = _Parser(list(words), known_flags(version))
    parser.parse()
    if any(parser.arguments):
        shown = " ".join(quote(word) for word in parser.arguments)
        raise FlagError(f'"kube-apiserver" does not take any arguments, got [{shown}]')
    return parser.values

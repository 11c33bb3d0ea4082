"""Semantic versions in CEL (apiserver `pkg/cel/library/semverlib.go`, error texts of `github.com/blang/semver/v4`)."""

from __future__ import annotations

import re
from typing import NamedTuple

from replay.cel.declare.cost import ONE
from replay.cel.declare.library import Function, Implementation, Library, overloaded
from replay.cel.value.equality import NO_SUCH_OVERLOAD
from replay.cel.value.types import BOOL, INT, STRING, Type, struct_type
from replay.cel.value.values import EvalError, OpaqueValue, Value
from replay.cellib.library.cost import argument_estimate, first_traversal, nominal_cost
from replay.go.format import quote

SEMVER_TYPE = struct_type("kubernetes.Semver")

_UINT64_MAX = 2**64 - 1
_NUMBER = re.compile(r"[0-9]*", re.ASCII)
_WORD = re.compile(r"[0-9A-Za-z-]*", re.ASCII)


class SemanticVersion(NamedTuple):
    """A version. Numeric identifiers of `pre` are ints. `build` does not count in comparisons."""

    numbers: tuple[int, int, int]
    pre: tuple[int | str, ...] = ()
    build: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the version as `major.minor.patch-pre+build`."""
        text = ".".join(map(str, self.numbers))
        text += "-" + ".".join(map(str, self.pre)) if self.pre else ""
        return text + ("+" + ".".join(self.build) if self.build else "")

    def compare(self, other: SemanticVersion) -> int:
        """Return -1, 0 or 1 by precedence (semver.org, section 11)."""
        left, right = _precedence(self), _precedence(other)
        return (left > right) - (left < right)


def _precedence(version: SemanticVersion) -> tuple[object, ...]:
    # Numbers go before words; a release goes after all its prereleases.
    ranks = tuple((0, part, "") if isinstance(part, int) else (1, 0, part) for part in version.pre)
    return (version.numbers, not version.pre, ranks)


class SemverValue(OpaqueValue):
    """A semantic version."""

    __slots__ = ("version",)
    cel_type = SEMVER_TYPE
    go_type = "cel.Semver"
    native_go_type = "semver.Version"

    def __init__(self, version: SemanticVersion) -> None:
        """`version` is the parsed version."""
        self.version = version

    def __str__(self) -> str:
        """Return the canonical form."""
        return str(self.version)

    def equal(self, other: Value) -> bool:
        """Return whether the precedence is equal. Raises `EvalError` for a value other than a version."""
        if not isinstance(other, SemverValue):
            raise EvalError(NO_SUCH_OVERLOAD)
        return self.version.compare(other.version) == 0


def parse_version(text: str) -> SemanticVersion:
    """Parse a version. Raises `EvalError` with the text of the server's parser."""
    if not text:
        raise EvalError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise EvalError("No Major.Minor.Patch elements found")
    # The parser reads major and minor before it looks at the rest, so that their errors come first.
    major, minor = _component(parts[0], "major"), _component(parts[1], "minor")
    # The build is cut off first, because it may contain a hyphen.
    rest, plus, build = parts[2].partition("+")
    patch, minus, pre = rest.partition("-")
    numbers = (major, minor, _component(patch, "patch"))
    pre_parts = tuple(map(_prerelease, pre.split("."))) if minus else ()
    return SemanticVersion(numbers, pre_parts, tuple(map(_build, build.split("."))) if plus else ())


def _component(text: str, name: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise EvalError(f"Invalid character(s) found in {name} number {quote(text)}")
    if len(text) > 1 and text.startswith("0"):
        raise EvalError(f"{name.capitalize()} number must not contain leading zeroes {quote(text)}")
    return _uint(text)


def _uint(text: str) -> int:
    if not text:
        raise EvalError('strconv.ParseUint: parsing "": invalid syntax')
    # The length goes first, because `int` refuses very long texts.
    if len(text) > 20 or int(text) > _UINT64_MAX:
        raise EvalError(f"strconv.ParseUint: parsing {quote(text)}: value out of range")
    return int(text)


def _prerelease(text: str) -> int | str:
    if not text:
        raise EvalError("Prerelease is empty")
    if _NUMBER.fullmatch(text):
        if len(text) > 1 and text.startswith("0"):
            raise EvalError(f"Numeric PreRelease version must not contain leading zeroes {quote(text)}")
        return _uint(text)
    if not _WORD.fullmatch(text):
        raise EvalError(f"Invalid character(s) found in prerelease {quote(text)}")
    return text


def _build(text: str) -> str:
    if not text:
        raise EvalError("Build meta data is empty")
    if not _WORD.fullmatch(text):
        raise EvalError(f"Invalid character(s) found in build meta data {quote(text)}")
    return text


def normalized(text: str) -> str:
    """Return a version text without a leading `v` and leading zeros, and with three components."""
    parts = [_without_zeros(part) for part in text.removeprefix("v").split(".", 2)]
    if len(parts) < 3:
        if "+" in parts[-1] or "-" in parts[-1]:
            raise EvalError("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)


def _without_zeros(part: str) -> str:
    # Go's `len` counts bytes, and a part of one byte keeps its zero.
    if len(part.encode("utf-8", "surrogateescape")) < 2:
        return part
    stripped = part.lstrip("0")
    return stripped if stripped[:1].isascii() and stripped[:1].isdigit() else f"0{stripped}"


def _parse(text: str, normalize: bool = False) -> SemverValue:
    return SemverValue(parse_version(normalized(text) if normalize else text))


def _is_semver(text: str, normalize: bool = False) -> bool:
    try:
        _parse(text, normalize)
    except EvalError:
        return False
    return True


def _int64(number: int) -> int:
    """Return a uint64 converted to int64, as in Go."""
    return number - 2**64 if number >= 2**63 else number


def _member(name: str, id_: str, args: tuple[Type, ...], result: Type, body: Implementation) -> Function:
    return overloaded(name, (id_, args, result, body), member=True, cost=nominal_cost)


_S = SEMVER_TYPE

SEMVER = Library(
    name="kubernetes.Semver",
    functions=(
        overloaded(
            "semver",
            ("string_to_semver", (STRING,), _S, _parse),
            ("string_bool_to_semver", (STRING, BOOL), _S, _parse),
            cost=first_traversal,
            estimate=argument_estimate(),
        ),
        overloaded(
            "isSemver",
            ("is_semver_string", (STRING,), BOOL, _is_semver),
            ("is_semver_string_bool", (STRING, BOOL), BOOL, _is_semver),
            cost=first_traversal,
            estimate=argument_estimate(),
        ),
        _member(
            "isGreaterThan", "semver_is_greater_than", (_S, _S), BOOL, lambda a, b: a.version.compare(b.version) == 1
        ),
        _member("isLessThan", "semver_is_less_than", (_S, _S), BOOL, lambda a, b: a.version.compare(b.version) == -1),
        _member("compareTo", "semver_compare_to", (_S, _S), INT, lambda a, b: a.version.compare(b.version)),
        _member("major", "semver_major", (_S,), INT, lambda value: _int64(value.version.numbers[0])),
        _member("minor", "semver_minor", (_S,), INT, lambda value: _int64(value.version.numbers[1])),
        _member("patch", "semver_patch", (_S,), INT, lambda value: _int64(value.version.numbers[2])),
    ),
    equality={SEMVER_TYPE.name: ONE},
)
"""`semver`, `isSemver` and the members of versions."""

"""The flags of a kube-apiserver in a file: a static pod manifest, a kubeadm ClusterConfiguration, or arguments alone.

`k8s.io/apiserver/pkg/server/options/admission.go` and `pkg/kubeapiserver/options/admission.go` (`Validate`,
`enabledPluginNames`) have their meaning for admission.
"""

from __future__ import annotations

import csv
import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Final, NamedTuple

from msgspec import Struct, field

from replay.cellib.version import KubernetesVersion
from replay.errors import ManifestError
from replay.go.format import aggregate, quote
from replay.go.time import DurationError, parse_duration
from replay.manifests.plugin import plugins_of
from replay.manifests.read.values import yaml_values
from replay.manifests.served import locked_problem

# Parser of the arguments of `kube-apiserver` (`github.com/spf13/pflag`, `FlagSet.Parse`).
# `data/flags.json` has the names, types and versions of the flags of `NewAPIServerCommand`.

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
    def value_if_bare(self) -> str:
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
        # `WordSepNormalizeFunc` lets `_` stand for `-` in the names of flags.
        flag = self.flags.get(name.replace("_", "-"))
        if flag is None:
            raise FlagError(f"unknown flag: --{name}")
        if not has_value:
            value = flag.value_if_bare or self._next(f"--{name}")
        self._set(flag, value)

    def _short(self, text: str) -> None:
        """Parse `-v=2`, `-v2`, `-v 2`, or several letters that need no value."""
        shorthands = text
        while shorthands:
            letter, rest = shorthands[0], shorthands[1:]
            flag = next((each for each in self.flags.values() if each.shorthand == letter), None)
            if flag is None:
                raise FlagError(f"unknown shorthand flag: '{letter}' in -{shorthands}")
            # Like pflag, `-v=` without more takes `=` itself as the value (`FlagSet.parseSingleShortArg`).
            if len(rest) > 1 and rest[0] == "=":
                self._set(flag, rest[1:])
            elif flag.value_if_bare:
                self._set(flag, flag.value_if_bare)
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
    # `strconv.ParseUint` accepts no sign.
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


ENABLE, DISABLE, ONLY = "enable-admission-plugins", "disable-admission-plugins", "admission-control"
CONFIGURATION_FLAG = "admission-control-config-file"
GATES = "feature-gates"
_TRUE = frozenset({"1", "t", "true"})
_SIGN = re.compile(rb"kube-apiserver|ClusterConfiguration|(?:^|[\s\"'=])--[a-z]", re.MULTILINE)
_MANIFEST = re.compile(rb"""["']?kind["']?\s*:\s*["']?(\w+)""")
_TAG = re.compile(r":(v?1\.\d+[\w.+-]*)(?:@|$)")
_MOST_BYTES = 1 << 20


class ServerFlags(Struct, frozen=True):
    """Flags by name, without the leading dashes. Lists are joined with commas."""

    path: str
    values: Mapping[str, str]

    def names(self, flag: str) -> tuple[str, ...] | None:
        """Return the names in a list flag, or None if it is not given."""
        text = self.values.get(flag)
        return None if text is None else tuple(next(csv.reader([text]), ()))

    @property
    def gates(self) -> Mapping[str, bool]:
        """The feature gates that are turned on or off, by name (`component-base/featuregate`)."""
        pairs = (each.split(":")[-1].partition("=") for each in self.names(GATES) or ())
        return {name.strip(): text.strip().lower() in _TRUE for name, _, text in pairs}

    def plugins(self, version: KubernetesVersion) -> frozenset[str]:
        """Return the plugins that are on. Raises ManifestError, with the server's text, for what it refuses."""
        plugins = plugins_of(version)
        enabled, disabled, only = (self.names(flag) for flag in (ENABLE, DISABLE, ONLY))
        problem = locked_problem(version, self.gates)
        if problem := problem or aggregate(_problems({each.name for each in plugins}, enabled, disabled, only)):
            raise ManifestError(problem, path=self.path)
        if only is not None:
            return frozenset(only)
        off = ({each.name for each in plugins if not each.is_on} | set(disabled or ())) - set(enabled or ())
        return frozenset(each.name for each in plugins) - off


def default_plugins(version: KubernetesVersion) -> frozenset[str]:
    """Return the plugins that are on by default."""
    return frozenset(each.name for each in plugins_of(version) if each.is_on)


def _problems(
    plugin_names: set[str],
    enabled: tuple[str, ...] | None,
    disabled: tuple[str, ...] | None,
    only: tuple[str, ...] | None,
) -> Iterator[str]:
    """Yield the errors of `AdmissionOptions.Validate`: Kubernetes first, then the apiserver library."""
    if only is not None and (enabled is not None or disabled is not None):
        yield f"{ONLY} and {ENABLE}/{DISABLE} flags are mutually exclusive"
    for flag, names in ((ONLY, only), (ENABLE, enabled), (DISABLE, disabled)):
        yield from (f"{flag} plugin {quote(name)} is unknown" for name in names or () if name not in plugin_names)
    both = sorted(set(enabled or ()) & set(disabled or ()))
    if both:
        yield f"[{' '.join(both)}] in {ENABLE} and {DISABLE} overlapped"


def is_server_file(path: Path) -> bool:
    """Return whether a file has flags of a kube-apiserver, by its content and not by its name."""
    try:
        if not path.is_file() or path.stat().st_size > _MOST_BYTES:
            return False
        data = path.read_bytes()
    except OSError:
        return False
    if not _SIGN.search(data):
        return False
    kinds = {kind.decode() for kind in _MANIFEST.findall(data)}
    if "ClusterConfiguration" in kinds:
        return True
    if kinds:
        return "Pod" in kinds and b"kube-apiserver" in data
    return bool(_words_of_text(data))


def read_server_flags(path: Path, version: KubernetesVersion) -> ServerFlags:
    """Return the flags of a file.

    Raises ManifestError for a file without flags, and with the server's text for flags that it refuses.
    """
    try:
        words = _words_of(path)
    except (AttributeError, TypeError) as error:
        raise ManifestError("is not a manifest of its kind", path=str(path)) from error
    try:
        return ServerFlags(str(path), parse_flags(words, version))
    except FlagError as error:
        raise ManifestError(str(error), path=str(path)) from error


def _words_of(path: Path) -> list[str]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ManifestError(f"cannot be read: {(error.strerror or str(error)).lower()}", path=str(path)) from error
    if not _MANIFEST.search(data):
        return _words_of_text(data)
    documents = [each for each in yaml_values(path) if isinstance(each, dict)]
    for document in documents:
        if document.get("kind") == "ClusterConfiguration":
            return _words_of_kubeadm(document)
    for document in documents:
        if (words := _words_of_pod(document)) is not None:
            return words
    raise ManifestError("no kube-apiserver manifest: no container calls it", path=str(path))


def server_file_of(path: Path) -> Path | None:
    """Return the file with the flags of a set's server, or None. The set may be that file."""
    files = sorted(each for each in path.iterdir() if each.is_file()) if path.is_dir() else [path]
    return next((each for each in files if is_server_file(each)), None)


def image_version(path: Path) -> str:
    """Return the server version that a file of flags is for, or "".

    It is the tag of the image, or the version in the kubeadm configuration.
    """
    try:
        documents = [each for each in yaml_values(path) if isinstance(each, dict)]
        for document in documents:
            if document.get("kind") == "ClusterConfiguration":
                return str(document.get("kubernetesVersion") or "")
            if (container := _container_of(document)) is not None:
                tag = _TAG.search(str(container.get("image")))
                return tag[1] if tag else ""
    except (ManifestError, AttributeError, TypeError):
        return ""  # whoever reads its flags says what is wrong
    return ""


def version_contradiction(path: Path, version: KubernetesVersion) -> str:
    """Return a warning if a set is for another server version, or ""."""
    file = server_file_of(path) if path.exists() else None
    tag = "" if file is None else image_version(file)
    if not tag or tag.removeprefix("v").split(".")[:2] == str(version).split("."):
        return ""
    return f"the set is of a kube-apiserver {tag}, and Kubernetes {version} decides: mend one of them, unless you rehearse an upgrade"


def _container_of(manifest: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the container that runs the server, or None."""
    for container in (manifest.get("spec") or {}).get("containers") or ():
        is_named = container.get("name") == "kube-apiserver" or "kube-apiserver" in str(container.get("image"))
        if is_named or any(map(_is_program, _words_of_container(container))):
            return dict(container)
    return None


def _words_of_container(container: Mapping[str, Any]) -> list[str]:
    return [str(word) for word in (*(container.get("command") or ()), *(container.get("args") or ()))]


def _is_program(word: str) -> bool:
    return word.rpartition("/")[2] == "kube-apiserver"


def _words_of_pod(manifest: Mapping[str, Any]) -> list[str] | None:
    """Return the arguments of the container that runs the server, or None."""
    container = _container_of(manifest)
    if container is None:
        return None
    words = _words_of_container(container)
    calls = next((place for place, word in enumerate(words) if _is_program(word)), None)
    return words if calls is None else words[calls + 1 :]


def _words_of_kubeadm(configuration: Mapping[str, Any]) -> list[str]:
    """Return the flags of `apiServer.extraArgs`: a map up to v1beta3, a list of names and values since v1beta4.

    By default kubeadm turns NodeRestriction on (`cmd/kubeadm/app/phases/controlplane/manifests.go`).
    """
    extra = (configuration.get("apiServer") or {}).get("extraArgs") or {}
    items = extra.items() if isinstance(extra, dict) else ((each.get("name"), each.get("value")) for each in extra)
    pairs = [(str(name), _text(value)) for name, value in items]
    own = [] if any(name == ENABLE for name, _ in pairs) else [(ENABLE, "NodeRestriction")]
    return [f"--{name}={value}" for name, value in (*own, *pairs)]


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str("" if value is None else value)


def _words_of_text(data: bytes) -> list[str]:
    """Return the flags in a shell text: a command line, or a variable of an environment file."""
    lines = [line for line in data.decode("utf-8", "replace").splitlines() if not line.lstrip().startswith("#")]
    try:
        words = shlex.split(" ".join(line.rstrip("\\") for line in lines))
    except ValueError:
        return []
    flat = [part for word in words for part in ([word] if word.startswith("--") or "--" not in word else word.split())]
    flat = [re.sub(r"^\w+=(?=--)", "", word) for word in flat]
    first = next((place for place, word in enumerate(flat) if word.startswith("--")), len(flat))
    is_command = all(
        word.rpartition("/")[2].removeprefix("ExecStart=") in _BEFORE or "=" in word for word in flat[:first]
    )
    return flat[first:] if is_command else []


_BEFORE = frozenset({"kube-apiserver", "exec", "hyperkube", "[Service]"})

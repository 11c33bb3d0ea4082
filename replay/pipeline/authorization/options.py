"""Options about authorizers: sources of webhook answers, and the chain of a set without AuthorizationConfiguration.

The options are `--webhook NAME=FILE`, `--webhook NAME=URL` and `--authorization-mode`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import orjson
import yaml
from msgspec import Struct

from replay.authorization.chain import WEBHOOK
from replay.authorization.configuration import TYPES, AuthorizationConfiguration, mode_configuration
from replay.authorization.webhook import AuthorizerAnswer, AuthorizerAnswers, RecordedAnswers, recorded_answers
from replay.errors import ReplayError
from replay.json import JSON
from replay.reconstruct.snapshot import numbered_lines
from replay.webhook.authorizer import AuthorizerEndpoint

_WEBHOOK_OPTION = "--webhook"


class NamedAnswers(Struct, frozen=True):
    """Answers by webhook name."""

    by_name: Mapping[str, AuthorizerAnswers]

    def is_known(self, webhook: str) -> bool:
        """See `AuthorizerAnswers`."""
        return webhook in self.by_name and self.by_name[webhook].is_known(webhook)

    def answer(self, webhook: str, version: str, spec: JSON) -> AuthorizerAnswer | None:
        """See `AuthorizerAnswers`."""
        answers = self.by_name.get(webhook)
        return answers.answer(webhook, version, spec) if answers is not None else None


def webhook_names(configurations: Iterable[AuthorizationConfiguration]) -> dict[str, int]:
    """Return the webhooks of some chains with their timeouts in nanoseconds. The longest counts if they differ."""
    timeouts: dict[str, int] = {}
    for configuration in configurations:
        for each in configuration.authorizers:
            if each.type == WEBHOOK and each.webhook is not None:
                timeouts[each.name] = max(timeouts.get(each.name, 0), each.webhook.timeout)
    return timeouts


def named_answers(options: Sequence[str], timeouts: Mapping[str, int]) -> NamedAnswers:
    """Return the answers that options name. `timeouts` are the timeouts of the chains' webhooks by name.

    A file in several options is read once. Raise ReplayError for an invalid option, an unknown or repeated name, and an
    unusable file or URL.
    """
    by_name: dict[str, AuthorizerAnswers] = {}
    files: dict[str, RecordedAnswers] = {}
    for option in options:
        name, separator, target = option.partition("=")
        if not separator or not name or not target:
            raise ReplayError(f"`{option}` is neither NAME=FILE nor NAME=URL", path=_WEBHOOK_OPTION)
        if name not in timeouts:
            there_are = ", ".join(f"`{each}`" for each in sorted(timeouts)) or "none"
            raise ReplayError(f"neither chain has a webhook `{name}`; there are: {there_are}", path=_WEBHOOK_OPTION)
        if name in by_name:
            raise ReplayError(f"`{name}` is given twice", path=_WEBHOOK_OPTION)
        if "://" in target:
            by_name[name] = AuthorizerEndpoint(target, timeouts[name] / 1e9)
            continue
        if target not in files:
            files[target] = recorded_answers(_records(Path(target)))
        by_name[name] = files[target]
    return NamedAnswers(by_name)


def _records(path: Path) -> Iterator[JSON]:
    """Yield the records of a file. Raise ReplayError with file and line."""
    for number, line in numbered_lines(path):
        yield _record(path, number, line)


def _record(path: Path, number: int, line: bytes) -> JSON:
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise ReplayError(f"no JSON: {error}", path=str(path), line=number) from error
    if not isinstance(record, dict) or not isinstance(record.get("webhook"), str):
        raise ReplayError("no `{webhook, request, code, response}`", path=str(path), line=number)
    request = record.get("request")
    if not isinstance(request, dict) or not isinstance(request.get("spec"), dict):
        raise ReplayError("`request` is no SubjectAccessReview with a `spec`", path=str(path), line=number)
    if not isinstance(record.get("code"), int):
        raise ReplayError("`code` is no HTTP status", path=str(path), line=number)
    return record


_MODE_OPTION = "--authorization-mode"
_CONFIGURATION = "--authorization-config"
_ALWAYS_ALLOW = "AlwaysAllow"


def configuration_of_mode(text: str) -> AuthorizationConfiguration:
    """Return the chain of `Node,RBAC`, or of the flag in the kube-apiserver manifest at this path.

    A server without the flag allows everything. Raise ReplayError for an unknown mode, and for a manifest that names
    an AuthorizationConfiguration.
    """
    path = Path(text)
    is_path = path.exists() or path.suffix in (".yaml", ".yml", ".json") or "/" in text
    flag = _flag_of(path) if is_path else text
    modes = tuple(flag.split(",")) if flag else (_ALWAYS_ALLOW,)
    for mode in modes:
        if mode not in TYPES:
            raise ReplayError(
                f"authorization-mode `{mode}` is not a valid mode; there are: {', '.join(TYPES)}", path=_MODE_OPTION
            )
    if len(set(modes)) != len(modes):
        raise ReplayError(f"authorization-mode `{flag}` has a mode more than once", path=_MODE_OPTION)
    return mode_configuration(modes)


def _flag_of(path: Path) -> str:
    """Return the flag's values in the manifest, joined as the server does, empty if absent."""
    try:
        manifest = yaml.safe_load(path.read_bytes())
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ReplayError(f"no kube-apiserver manifest: {str(error).splitlines()[0]}", path=str(path)) from error
    words = list(_words(manifest))
    if not any("kube-apiserver" in word for word in words):
        raise ReplayError("no kube-apiserver manifest: no container calls it", path=str(path))
    file = ",".join(_values(words, _CONFIGURATION))
    if file:
        reason = (
            f"the server reads its chain from {_CONFIGURATION}={file}: give that file as authorization.yaml of a set"
        )
        raise ReplayError(reason, path=str(path))
    return ",".join(_values(words, _MODE_OPTION))


def _words(manifest: JSON) -> Iterator[str]:
    """Yield the command lines of all containers. Values of a wrong type have none."""
    spec = manifest.get("spec") if isinstance(manifest, dict) else None
    containers = spec.get("containers") if isinstance(spec, dict) else None
    for container in containers if isinstance(containers, list) else ():
        for field in ("command", "args"):
            words = container.get(field) if isinstance(container, dict) else None
            yield from map(str, words if isinstance(words, list) else ())


def _values(words: Sequence[str], flag: str) -> Iterator[str]:
    for place, word in enumerate(words):
        if word.startswith(f"{flag}="):
            yield word.partition("=")[2]
        elif word == flag and place + 1 < len(words):
            yield words[place + 1]

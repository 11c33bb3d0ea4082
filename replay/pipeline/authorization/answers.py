"""`--webhook NAME=FILE` and `NAME=URL`: who answers for which authorization webhook."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import orjson
from msgspec import Struct

from replay.authorization.chain import WEBHOOK
from replay.authorization.configuration import AuthorizationConfiguration
from replay.authorization.webhook import AuthorizerAnswer, AuthorizerAnswers, RecordedAnswers, recorded_answers
from replay.errors import ReplayError
from replay.json import JSON
from replay.reconstruct.snapshot import numbered_lines
from replay.webhook.authorizer import AuthorizerEndpoint

_OPTION = "--webhook"


class NamedAnswers(Struct, frozen=True):
    """Answers by the name of the webhook."""

    by_name: Mapping[str, AuthorizerAnswers]

    def is_known(self, webhook: str) -> bool:
        """See `AuthorizerAnswers`."""
        return webhook in self.by_name and self.by_name[webhook].is_known(webhook)

    def answer(self, webhook: str, version: str, spec: JSON) -> AuthorizerAnswer | None:
        """See `AuthorizerAnswers`."""
        answers = self.by_name.get(webhook)
        return answers.answer(webhook, version, spec) if answers is not None else None


def webhook_names(configurations: Iterable[AuthorizationConfiguration]) -> dict[str, int]:
    """The webhooks of some chains with their timeouts in nanoseconds, the longest where they differ."""
    timeouts: dict[str, int] = {}
    for configuration in configurations:
        for each in configuration.authorizers:
            if each.type == WEBHOOK and each.webhook is not None:
                timeouts[each.name] = max(timeouts.get(each.name, 0), each.webhook.timeout)
    return timeouts


def named_answers(options: Sequence[str], timeouts: Mapping[str, int]) -> NamedAnswers:
    """The answers that options ask for; `timeouts` are the names of the chains' webhooks with their timeouts.

    A file that several options name is read once. Raises ReplayError for another form, an unknown name, a name that is given
    twice, and a file or URL that cannot be used.
    """
    by_name: dict[str, AuthorizerAnswers] = {}
    files: dict[str, RecordedAnswers] = {}
    for option in options:
        name, separator, target = option.partition("=")
        if not separator or not name or not target:
            raise ReplayError(f"`{option}` is neither NAME=FILE nor NAME=URL", path=_OPTION)
        if name not in timeouts:
            there_are = ", ".join(f"`{each}`" for each in sorted(timeouts)) or "none"
            raise ReplayError(f"neither chain has a webhook `{name}`; there are: {there_are}", path=_OPTION)
        if name in by_name:
            raise ReplayError(f"`{name}` is given twice", path=_OPTION)
        if "://" in target:
            by_name[name] = AuthorizerEndpoint(target, timeouts[name] / 1e9)
            continue
        if target not in files:
            files[target] = recorded_answers(_records(Path(target)))
        by_name[name] = files[target]
    return NamedAnswers(by_name)


def _records(path: Path) -> Iterator[JSON]:
    """The records of a file. Raises ReplayError with file and line."""
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

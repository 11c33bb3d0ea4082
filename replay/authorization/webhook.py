"""The answers of authorization webhooks: recorded SubjectAccessReviews, or an endpoint.

As in `k8s.io/apiserver/plugin/pkg/authorizer/webhook`, an answer is "allow", "deny" or "no opinion". A body that is not
a SubjectAccessReview and an HTTP status other than success are failed calls. A failed call is repeated, and then the
failure policy decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

import orjson
from msgspec import Struct

from replay.authorization.trace import AuthorizerDecision
from replay.errors import ReplayError
from replay.json import JSON
from replay.reconstruct.snapshot import numbered_lines

GROUP = "authorization.k8s.io"
_KIND = "SubjectAccessReview"
_BOTH = "webhook subject access review returned both allow and deny response"
_UNTYPED = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'


class AuthorizerAnswer(Struct, frozen=True):
    """The answer to one SubjectAccessReview. `failed` means that the call failed with `error`."""

    decision: AuthorizerDecision
    reason: str = ""
    error: str | None = None
    failed: bool = False


class AuthorizerAnswers(Protocol):
    """Source of answers for webhooks."""

    def is_known(self, webhook: str) -> bool:
        """Return whether there are any answers of a webhook."""
        ...

    def answer(self, webhook: str, version: str, spec: JSON) -> AuthorizerAnswer | None:
        """Return the answer of a webhook, or None if it is unknown. `version` is that of the SubjectAccessReview."""
        ...


class NoAnswers:
    """Source without any answers."""

    def is_known(self, webhook: str) -> bool:
        """Return False."""
        del webhook
        return False

    def answer(self, webhook: str, version: str, spec: JSON) -> AuthorizerAnswer | None:
        """Return None."""
        del webhook, version, spec
        return None


class RecordedAnswers(Struct, frozen=True):
    """Recorded answers by webhook and spec."""

    answers: Mapping[tuple[str, bytes], AuthorizerAnswer]
    webhooks: frozenset[str]

    def is_known(self, webhook: str) -> bool:
        """See `AuthorizerAnswers`."""
        return webhook in self.webhooks

    def answer(self, webhook: str, version: str, spec: JSON) -> AuthorizerAnswer | None:
        """See `AuthorizerAnswers`."""
        del version
        return self.answers.get((webhook, spec_key(spec)))


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


def recorded_answers(records: Iterable[JSON]) -> RecordedAnswers:
    """Return the answers of records `{webhook, request, code, response}`.

    A call that failed and then succeeded counts as a success. Of several failures, the last counts.
    """
    answers: dict[tuple[str, bytes], AuthorizerAnswer] = {}
    for record in records:
        request = record["request"]
        version = str(request.get("apiVersion") or "").rpartition("/")[2]
        key = (str(record["webhook"]), spec_key(_current_spec(request.get("spec") or {})))
        answer = answer_from_response(record.get("code") or 0, record.get("response"), version or "v1")
        earlier = answers.get(key)
        if earlier is None or earlier.failed:
            answers[key] = answer
    return RecordedAnswers(answers, frozenset(webhook for webhook, _ in answers))


def spec_key(spec: JSON) -> bytes:
    """Return the key of a spec. The order of its fields does not matter."""
    return orjson.dumps(spec, option=orjson.OPT_SORT_KEYS)


def _current_spec(spec: JSON) -> JSON:
    """Return a spec with the field names of v1 and without empty fields.

    v1beta1 has `group` in the place of `groups`.
    """
    named = {("groups" if name == "group" else name): value for name, value in spec.items() if value}
    attributes = named.get("resourceAttributes")
    if attributes is not None:
        named["resourceAttributes"] = {name: value for name, value in attributes.items() if value}
    return named


def answer_from_response(code: int, response: JSON, version: str) -> AuthorizerAnswer:
    """Return the answer that the server reads from a response: its decoded body, or its text if it is not a JSON object."""
    error = _response_error(code, response, version)
    if error is not None:
        return AuthorizerAnswer(AuthorizerDecision.NO_OPINION, "", error, failed=True)
    status = (response or {}).get("status") or {}
    allowed, denied, reason = bool(status.get("allowed")), bool(status.get("denied")), status.get("reason") or ""
    if denied:
        return AuthorizerAnswer(AuthorizerDecision.DENY, reason, _BOTH if allowed else None)
    return AuthorizerAnswer(AuthorizerDecision.ALLOW if allowed else AuthorizerDecision.NO_OPINION, reason)


def _response_error(code: int, response: JSON, version: str) -> str | None:
    """Return why a response is not an answer, or None if it is one."""
    # For client-go, these codes are success (`transformResponse`).
    if not 200 <= code <= 206:
        return _status_error(code, response)
    if response is None:  # `null` decodes to an answer that says nothing
        return None
    if not isinstance(response, dict):
        json_type_name = {list: "array", bool: "bool", int: "number", float: "number"}.get(type(response), "string")
        return f"couldn't get version/kind; json parse error: json: cannot unmarshal {json_type_name} into Go value of type {_UNTYPED}"
    kind, api_version = response.get("kind") or _KIND, response.get("apiVersion") or f"{GROUP}/{version}"
    if (kind, api_version) != (_KIND, f"{GROUP}/{version}"):
        answered = f"{api_version.rpartition('/')[2]}.{kind}"
        return f"converting ({answered}) to ({version}.{_KIND}): unknown conversion"
    status = response.get("status")
    if status is not None and not isinstance(status, dict):
        return "json: cannot unmarshal the status of the answer"
    return _status_type_error(status or {})


def _status_type_error(status: Mapping[str, JSON]) -> str | None:
    types = {"allowed": bool, "denied": bool, "reason": str, "evaluationError": str}
    for name, go_type in types.items():
        value = status.get(name)
        if value is not None and not isinstance(value, go_type):
            return f"json: cannot unmarshal `{name}` of the answer into Go value of type {go_type.__name__}"
    return None


def _status_error(code: int, response: JSON) -> str:
    if isinstance(response, dict) and response.get("kind") == "Status":
        return str(response.get("message") or "unknown")
    text = response if isinstance(response, str) else orjson.dumps(response).decode()
    if not code:
        return text or "the call failed"
    if 500 <= code < 600:
        return f'an error on the server ("{text}") has prevented the request from succeeding'
    return text


def answer_records(path: Path) -> Iterator[JSON]:
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

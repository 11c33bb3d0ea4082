"""Answers to a client: in the log, and under the candidate."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from functools import cache
from typing import Any, NamedTuple

from replay.admission.decision import Denial
from replay.audit.answer.refusal import denied_by
from replay.audit.event import RequestRecord
from replay.world.controller import Retry

_DENIED = re.compile(
    r"(?:ValidatingAdmissionPolicy|MutatingAdmissionPolicy|policy) '([^']+)' (?:with binding '([^']+)' )?denied request: "
    r"|admission webhook \"([^\"]+)\" denied the request"
)
_ERRORS_FROM = 400


class Cause(StrEnum):
    """Why a request ends as it does; a status that none of these is for is written `error 400`."""

    SUCCEEDS = "succeeds"
    DENIED = "denied"
    ABSENT = "absent"
    EXISTS = "exists"
    CONFLICT = "conflict"
    INVALID = "invalid"
    FORBIDDEN = "forbidden"
    UNKNOWN = "unknown"
    NOT_SENT = "not_sent"
    """A request of a controller that nothing would ask for."""


_BY_CODE = {404: Cause.ABSENT, 422: Cause.INVALID, 403: Cause.FORBIDDEN}


class RequestEnd(NamedTuple):
    """The end of a request; `code` is the HTTP status, 0 where there is none or it is not known.

    `certain` is false where something that the log does not hold, or that is not checked here, may change it.
    """

    cause: str
    code: int = 0
    certain: bool = True

    @property
    def value(self) -> dict[str, Any]:
        """As the lines of `--outcomes` have it."""
        return {"cause": str(self.cause), "code": self.code, "certain": self.certain}


UNKNOWN = RequestEnd(Cause.UNKNOWN, 0, certain=False)
NOT_SENT = RequestEnd(Cause.NOT_SENT)
DELETED = RequestEnd(Cause.SUCCEEDS, 200)
ABSENT = RequestEnd(Cause.ABSENT, 404)
EXISTS = RequestEnd(Cause.EXISTS, 409)
CONFLICT = RequestEnd(Cause.CONFLICT, 409)
INVALID = RequestEnd(Cause.INVALID, 422)
OF_VERSION = RequestEnd("error 500", 500)
"""The answer to a creation that names a version."""
FORBIDDEN = RequestEnd(Cause.FORBIDDEN, 403)


def merged_end(ends: Sequence[RequestEnd]) -> RequestEnd:
    """Return what several possible ends of a request have in common."""
    if len(ends) == 1:
        return ends[0]
    distinct = list(dict.fromkeys(ends))
    if len({end.cause for end in distinct}) > 1:
        return UNKNOWN
    return distinct[0]._replace(certain=all(end.certain for end in distinct))


def answered(record: RequestRecord) -> RequestEnd:
    """Return how the request ended in the log."""
    return result_of(record.code, record.status_message, record.status_reason, record.resource)


def result_of(code: int, message: str, reason: str, resource: str = "") -> RequestEnd:
    """Return how a request ended by its answer: the HTTP status, and message and reason of the `Status`.

    A refusal by a built-in plugin is a denial like that of a policy.
    """
    if not code:
        return UNKNOWN
    if code < _ERRORS_FROM:
        return _success(code)
    if _DENIED.search(message) or denied_by(message, resource):
        return RequestEnd(Cause.DENIED, code)
    if code == EXISTS.code:
        return EXISTS if reason == "AlreadyExists" else CONFLICT
    return RequestEnd(_BY_CODE.get(code, f"error {code}"), code)


@cache
def _success(code: int) -> RequestEnd:
    """The end of most requests, one object for each status: so many are kept and handed over."""
    return RequestEnd(Cause.SUCCEEDS, code)


def refusers(record: RequestRecord) -> frozenset[str]:
    """The policy and the binding, or the webhook, that refused a request of the log."""
    match = _DENIED.search(record.status_message)
    return frozenset(name for name in match.groups() if name) if match is not None else frozenset()


class IsolatedEnd(NamedTuple):
    """How a finding ends taken alone, where no object is needed to tell; `paths` are what the candidate's mutations touch, as JSON pointers.

    It is unknown where nothing is open but the candidate's verdict about a request that the log let through.
    """

    result: RequestEnd
    paths: tuple[str, ...] = ()


class CausingRequest(NamedTuple):
    """The request that caused a difference, and the object that it concerned."""

    audit_id: str
    label: str


class Consequence(NamedTuple):
    """How a request ends in the candidate's world; equal ones of many requests are one object.

    `follows` is the request that caused it, None for a direct finding, which needs no other request to happen. `differs` tells
    whether the log's answer was another one, `denials` are those of another object than the log's. `item` is the name of the object of a collection. `retry` says that a controller tries
    again, `own` which request that is, and `repetitions` how often in all, as far as its pauses tell.
    """

    result: RequestEnd
    follows: CausingRequest | None = None
    root: bool = False
    differs: bool = True
    denials: tuple[Denial, ...] | None = None
    item: str = ""
    retry: Retry | None = None
    own: CausingRequest | None = None
    repetitions: int = 0


def label(record: RequestRecord) -> str:
    """How a report names the object of a request."""
    name = record.name or "…"
    if record.resource == "namespaces":
        return f"namespaces {name}"
    return f"{record.resource} {record.namespace}/{name}" if record.namespace else f"{record.resource} {name}"

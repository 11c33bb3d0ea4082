"""What a client is answered: in the log, and in the candidate's world."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Any, NamedTuple

from replay.admission.decision import Denial
from replay.audit.event import RequestRecord
from replay.audit.place import Place
from replay.world.controller import Retry

_DENIED = re.compile(
    r"(?:ValidatingAdmissionPolicy|MutatingAdmissionPolicy|policy) '[^']+' (?:with binding '[^']+' )?denied request: "
    r"|admission webhook \"[^\"]+\" denied the request"
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


class Result(NamedTuple):
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


UNKNOWN = Result(Cause.UNKNOWN, 0, certain=False)
NOT_SENT = Result(Cause.NOT_SENT)
ABSENT = Result(Cause.ABSENT, 404)
EXISTS = Result(Cause.EXISTS, 409)
CONFLICT = Result(Cause.CONFLICT, 409)
INVALID = Result(Cause.INVALID, 422)
FORBIDDEN = Result(Cause.FORBIDDEN, 403)


def answered(record: RequestRecord) -> Result:
    """What the server of the log answered."""
    code = record.code
    if not code:
        return UNKNOWN
    if code < _ERRORS_FROM:
        return Result(Cause.SUCCEEDS, code)
    if _DENIED.search(record.status_message):
        return Result(Cause.DENIED, code)
    if code == EXISTS.code:
        return EXISTS if record.status_reason == "AlreadyExists" else CONFLICT
    return Result(_BY_CODE.get(code, f"error {code}"), code)


class Alone(NamedTuple):
    """How a finding ends taken alone, where that is certain; `paths` are what the candidate's mutations touch, as JSON pointers."""

    result: Result
    paths: tuple[str, ...] = ()


class Blame(NamedTuple):
    """The request with which two worlds began to differ, and what it was about."""

    audit_id: str
    label: str


class Consequence(NamedTuple):
    """How a request ends in the candidate's world.

    `follows` is the request that is to blame, None for a root: a difference that needs no other to happen. `differs` tells
    whether the log's answer was another one, `denials` are those of another object than the log's. `retry` says that a controller tries again, and
    `repetitions` how often in all, as far as its pauses tell.
    """

    place: Place
    own: Blame
    result: Result
    follows: Blame | None = None
    root: bool = False
    differs: bool = True
    denials: tuple[Denial, ...] | None = None
    of_collection: bool = False
    retry: Retry | None = None
    repetitions: int = 0


def label(record: RequestRecord) -> str:
    """How a report names the object of a request."""
    name = record.name or "…"
    if record.resource == "namespaces":
        return f"namespaces {name}"
    return f"{record.resource} {record.namespace}/{name}" if record.namespace else f"{record.resource} {name}"

"""Answers to a client: in the log, and under the candidate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import cache
from typing import Any, NamedTuple

from msgspec import Struct

from replay.admission.decision import Denial
from replay.audit.answer import denied_by
from replay.audit.event import RequestRecord
from replay.kube.denial import deniers
from replay.kube.gvk import ObjectRef
from replay.world.controller import Retry

_ERRORS_FROM = 400


class Cause(StrEnum):
    """Why a request ends as it does. Other error statuses are written `error CODE`, for example `error 400`."""

    SUCCEEDS = "succeeds"
    DENIED = "denied"
    ABSENT = "absent"
    EXISTS = "exists"
    CONFLICT = "conflict"
    INVALID = "invalid"
    FORBIDDEN = "forbidden"
    UNKNOWN = "unknown"
    NOT_SENT = "not_sent"
    """A controller does not send the request, because the object that it reacts to differs."""


_BY_CODE = {404: Cause.ABSENT, 422: Cause.INVALID, 403: Cause.FORBIDDEN}


class RequestEnd(NamedTuple):
    """The end of a request.

    `code` is the HTTP status, 0 if there is none or it is unknown. `certain` is false if the end may depend on
    something that the log lacks or that is not checked here.
    """

    cause: str
    code: int = 0
    certain: bool = True

    @property
    def value(self) -> dict[str, Any]:
        """This value as `--outcomes` writes it."""
        return {"cause": str(self.cause), "code": self.code, "certain": self.certain}


UNKNOWN = RequestEnd(Cause.UNKNOWN, 0, certain=False)
NOT_SENT = RequestEnd(Cause.NOT_SENT)
DELETED = RequestEnd(Cause.SUCCEEDS, 200)
ABSENT = RequestEnd(Cause.ABSENT, 404)
EXISTS = RequestEnd(Cause.EXISTS, 409)
CONFLICT = RequestEnd(Cause.CONFLICT, 409)
INVALID = RequestEnd(Cause.INVALID, 422)
VERSION_NAMED = RequestEnd("error 500", 500)
"""The answer to a creation that names a resourceVersion."""
FORBIDDEN = RequestEnd(Cause.FORBIDDEN, 403)


def merged_end(ends: Sequence[RequestEnd]) -> RequestEnd:
    """Return what several possible ends of a request have in common."""
    if len(ends) == 1:
        return ends[0]
    distinct = list(dict.fromkeys(ends))
    if len({end.cause for end in distinct}) > 1:
        return UNKNOWN
    is_one_code = len({end.code for end in distinct}) == 1
    return distinct[0]._replace(
        code=distinct[0].code if is_one_code else 0, certain=is_one_code and all(end.certain for end in distinct)
    )


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
    # A policy or webhook chooses the code of its denial, so the text decides before the code.
    if deniers(message) or denied_by(message, resource):
        return RequestEnd(Cause.DENIED, code)
    # The code 409 stands both for an existing object and for a conflict of versions.
    if code == EXISTS.code:
        return EXISTS if reason == "AlreadyExists" else CONFLICT
    return RequestEnd(_BY_CODE.get(code, f"error {code}"), code)


@cache
def _success(code: int) -> RequestEnd:
    """Return the success of a status. One shared object per status, because most requests end this way."""
    return RequestEnd(Cause.SUCCEEDS, code)


def refusers(record: RequestRecord) -> frozenset[str]:
    """Return the names of the policy and binding, or of the webhook, that refused a request of the log."""
    return frozenset(deniers(record.status_message))


class IsolatedEnd(Struct, frozen=True, array_like=True):
    """The end of a finding taken alone, if no object is needed to decide it.

    `paths` are JSON pointers to the fields that the candidate's mutations change. The end is unknown only if the
    candidate's verdict is undetermined and the request succeeded in the log.
    """

    result: RequestEnd
    paths: tuple[str, ...] = ()


class CausingRequest(NamedTuple):
    """The request that caused a difference, and the object that it concerned."""

    audit_id: str
    label: str


class Consequence(NamedTuple):
    """The end of a request under the candidate. Equal consequences of many requests share one object.

    `follows` is the earlier request that caused it, None for a direct finding (`root`). `differs` says that the log's
    end differs. `denials` are those made on another object than the log's. `item` names the object of a collection.
    `retry` says that a controller tries again, `own` identifies that request, and `repetitions` counts the tries by the
    pauses.
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


def numbered(consequences: Iterable[Consequence]) -> tuple[list[Consequence], dict[int, int]]:
    """Return the distinct consequences, and their numbers by the `id` of each given one.

    Hashing a consequence takes longer than all else, and most given ones are the same objects.
    """
    by_id = {id(each): each for each in consequences}
    numbers: dict[Consequence, int] = {}
    number_of = {key: numbers.setdefault(each, len(numbers)) for key, each in by_id.items()}
    return list(numbers), number_of


def label(about: RequestRecord | ObjectRef) -> str:
    """Return how a report names an object, or that of a request."""
    name = about.name or "…"
    if about.resource == "namespaces":
        return f"namespaces {name}"
    return f"{about.resource} {about.namespace}/{name}" if about.namespace else f"{about.resource} {name}"

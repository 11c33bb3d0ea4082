"""Which writes are server-side applies, and who owns what a request creates."""

from __future__ import annotations

from typing import NamedTuple

from replay.audit.event import RequestRecord
from replay.reconstruct.history.history import NOT_FOUND
from replay.reconstruct.patch.body import PatchForm, form_of
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.record.known import get
from replay.world.result import CausingRequest

_OWNED = '"ownerReferences"'


class UnnamedCreation(NamedTuple):
    """A creation without a name in the log: its sequence number, and the request as a cause."""

    seq: int
    as_cause: CausingRequest


def may_apply(record: RequestRecord) -> bool:
    """Return whether the URI of a request allows a server-side apply.

    An apply must name its field manager. Other patches rarely do.
    """
    return record.verb == "patch" and "fieldManager=" in record.request_uri


def is_apply(exchange: Exchange) -> bool:
    """Return whether a request is a server-side apply."""
    return exchange.record.verb == "patch" and form_of(exchange) is PatchForm.APPLY


def may_be_apply(exchange: Exchange) -> bool:
    """Return whether a patch without a body in the log may be a server-side apply, which creates missing objects."""
    record = exchange.record
    return may_apply(record) and exchange.request.json is None and record.code != NOT_FOUND and not record.subresource


def uids_of_controllers(exchange: Exchange) -> tuple[str, ...]:
    """Return the UIDs of a created object's owners: from the answer, otherwise from the body."""
    record = exchange.record
    # The text search avoids decoding bodies without owners, which are most.
    if not any(_OWNED in (body or "") for body in (record.response_object, record.request_object)):
        return ()
    metadata = exchange.response.metadata or {}
    if not metadata.get("ownerReferences"):
        metadata = get(exchange.request.json, ("metadata",)) or {}
    references = metadata.get("ownerReferences")
    return tuple(str(each["uid"]) for each in references or () if isinstance(each, dict) and each.get("uid"))

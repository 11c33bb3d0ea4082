"""Which writes are server-side applies."""

from __future__ import annotations

from replay.audit.event import RequestRecord
from replay.reconstruct.patch.body import PatchForm, form_of
from replay.reconstruct.record.exchange import Exchange


def may_apply(record: RequestRecord) -> bool:
    """Whether a request may be a server-side apply, as its URI tells: patches of other forms hardly ever name their manager."""
    return record.verb == "patch" and "fieldManager=" in record.request_uri


def is_apply(exchange: Exchange) -> bool:
    """Whether a request is a server-side apply."""
    return exchange.record.verb == "patch" and form_of(exchange) is PatchForm.APPLY

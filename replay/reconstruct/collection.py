"""`deletecollection`: one audit event, and one admission call for each deleted object that the response lists."""

from __future__ import annotations

from collections.abc import Iterator

from replay.json import JSON
from replay.kube.attributes import Basis, Missing
from replay.reconstruct.history.old_object import RECORD_RESPONSES
from replay.reconstruct.record.body import BodyShape
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.record.known import Known, get


def deleted_items(exchange: Exchange) -> Iterator[Known | Missing]:
    """Yield the objects that a collection deletion found, as they were before the first was deleted.

    Yields one `Missing` if the response does not list them: then neither their number nor their names are known.
    """
    if exchange.response.shape(exchange.kind) is not BodyShape.LIST:
        reason = f"audit level {exchange.record.level} does not record which objects a deletecollection deletes"
        if exchange.response.fault:
            reason = exchange.response.fault
        elif exchange.succeeded and exchange.record.level == "RequestResponse":
            reason = "the response does not list the deleted objects"
        yield Missing("", reason, RECORD_RESPONSES)
        return
    kind = exchange.parent_kind
    header = {"kind": kind.kind, "apiVersion": kind.api_version} if kind else {}
    for item in exchange.response.json["items"]:
        if isinstance(item, dict):
            yield Known({**header, **item}, Basis.RECORDED)


def is_pending(item: JSON, options: JSON) -> bool:
    """Return whether an object's graceful deletion is under way and the request does not shorten it.

    The server then leaves the object alone, without admission (`rest.BeforeDelete`).
    """
    period = get(item, ("metadata", "deletionGracePeriodSeconds")) or 0
    if not get(item, ("metadata", "deletionTimestamp")) or period <= 0:
        return False
    seconds = get(options, ("gracePeriodSeconds",))
    return not isinstance(seconds, int) or seconds >= period

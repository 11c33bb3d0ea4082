"""Requests of a log in admission order, with the attributes of both phases."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from replay.identity import IdentityMap
from replay.kube.attributes import Attributes, Operation
from replay.reconstruct.reached import is_denied_by_policy, reached_mutation
from replay.reconstruct.request import Reached, ReplayRequest

_VERBS = frozenset({"create", "update", "patch", "delete"})
DELETE_COLLECTION = "deletecollection"


class _Place(NamedTuple):
    """Position of a request. Requests of one file keep their order, and files are merged by time."""

    time: int
    file: str
    line: int


class LoggedRequest(NamedTuple):
    """A request that reached admission. `validated` is None if it did not reach the last plugins."""

    request: ReplayRequest
    original: Attributes
    validated: Attributes | None
    is_certain: bool

    @property
    def reached_last_plugins(self) -> bool:
        """Return whether the request reached the plugins after all policies and webhooks.

        It also counts as such if only one of these refused it.
        """
        return self.request.reached is not Reached.FAILED_BEFORE


def logged_request(request: ReplayRequest, *, for_quotas: bool = False) -> LoggedRequest | None:
    """Return the attributes of both phases, or None for a request outside admission.

    Objects of a deleted collection, and deletions that found nothing, count only `for_quotas`.
    """
    record, attributes = request.record, request.attributes
    is_collection = for_quotas and record.verb == DELETE_COLLECTION
    if record.verb not in _VERBS and attributes.operation is not Operation.CONNECT and not is_collection:
        return None
    original = request.before_mutation
    attributes_asked = original if isinstance(original, Attributes) else attributes.with_object(original)
    if request.reached is Reached.FAILED_BEFORE:
        came = for_quotas if record.verb == "delete" else reached_mutation(record)
        return LoggedRequest(request, attributes_asked, None, is_certain=True) if came else None
    if is_denied_by_policy(record):
        return LoggedRequest(request, attributes_asked, None, is_certain=True)
    return LoggedRequest(request, attributes_asked, attributes, is_certain=request.reached is Reached.VALIDATION)


def in_order(requests: Iterable[LoggedRequest], *, by_receipt: bool) -> list[LoggedRequest]:
    """Return the requests in the order of their completion in the log, or of their receipt."""
    ordered = sorted(requests, key=lambda each: (each.request.record.file, each.request.record.line))
    places: IdentityMap[LoggedRequest, _Place] = IdentityMap()
    latest: dict[str, int] = {}
    for each in ordered:
        record = each.request.record
        # A line never goes before an earlier line of its file, whatever its time says.
        latest[record.file] = max(latest.get(record.file, 0), record.stage_time)
        places[each] = _Place(latest[record.file], record.file, record.line)
    ordered.sort(key=lambda each: places[each])
    if by_receipt:
        # The sort is stable, so requests received at the same time stay in the order of their completion.
        ordered.sort(key=lambda each: each.request.record.received)
    return ordered

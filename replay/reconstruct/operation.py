"""The operation that admission sees.

A PUT or an apply of a missing object is a CREATE (`registry/generic/registry.Store.Update`).
"""

from __future__ import annotations

from collections.abc import Callable

from replay.audit.event import CREATED, RequestRecord
from replay.kube.attributes import Operation
from replay.kube.rbac import RBAC_RESOURCES
from replay.reconstruct.history.history import NOT_FOUND, History
from replay.reconstruct.history.old_object import sent_revision
from replay.reconstruct.patch.body import PatchForm, form_of
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.record.known import Known

CREATED_BY_UPDATE = frozenset(
    [
        ("", "endpoints"),
        ("", "events"),
        ("", "limitranges"),
        ("", "services"),
        ("coordination.k8s.io", "leasecandidates"),
        ("coordination.k8s.io", "leases"),
        ("events.k8s.io", "events"),
        ("node.k8s.io", "runtimeclasses"),
        *RBAC_RESOURCES,
    ]
)
"""Resources whose strategy has `AllowCreateOnUpdate` (`pkg/registry`). An apply creates objects of any resource."""
_CREATING_SUBRESOURCE = ("", "services", "status")
"""The only subresource whose strategy also has it, because it embeds the strategy of the object.

Source: `core/service/strategy.go`, `serviceStatusStrategy`.
"""

_UPDATE, _CREATE, _EITHER = (Operation.UPDATE,), (Operation.CREATE,), (Operation.UPDATE, Operation.CREATE)


def operations_of(
    exchange: Exchange, history: History, begins: Callable[[RequestRecord], bool] = lambda _record: False
) -> tuple[Operation, ...]:
    """Return the operation of a request, or both possible ones if the log does not tell whether the object existed.

    `begins` returns whether everything in the request's namespace was created in the log.
    """
    record = exchange.record
    if exchange.is_connect:
        return (Operation.CONNECT,)
    if record.verb == "create":
        return _CREATE
    if record.verb in ("delete", "deletecollection"):
        return (Operation.DELETE,)
    if exchange.succeeded:
        return _CREATE if record.code == CREATED else _UPDATE
    # A write that creates its object does not fail with 404 because the object is missing.
    if record.code == NOT_FOUND or not _may_create(exchange):
        return _UPDATE
    operations = _by_history(exchange, history)
    # The log holds no write to the object, and the namespace began within the log: so it did not exist.
    is_first = operations is _EITHER and history.trusted and not history.effects
    return _CREATE if is_first and begins(record) else operations


def creates(exchange: Exchange) -> bool:
    """Return whether a PUT or patch creates a missing object."""
    record = exchange.record
    if record.subresource and (record.api_group, record.resource, record.subresource) != _CREATING_SUBRESOURCE:
        return False
    if record.verb == "patch":
        return form_of(exchange) is PatchForm.APPLY
    return record.verb == "update" and (record.api_group, record.resource) in CREATED_BY_UPDATE


def _may_create(exchange: Exchange) -> bool:
    """Return whether a request may have created its object. A PUT that names a version can only update."""
    return creates(exchange) and (exchange.record.verb == "patch" or sent_revision(exchange) is None)


def _by_history(exchange: Exchange, history: History) -> tuple[Operation, ...]:
    """Return the operations that fit the object's history before the request.

    If the request precedes the history, its first effect decides.
    """
    record = exchange.record
    state = history.at(record.received, record.stage_time)
    if isinstance(state, Known):
        return _CREATE if state.value is None else _UPDATE
    if state is None:
        if not history.effects:
            return _EITHER
        first = history.effects[0].exchange
        return _CREATE if first is not None and first.record.code == CREATED else _UPDATE
    places = history.window(record.received, record.stage_time)
    came_or_went = places[0] < 0 or any(history.effects[place].may_have_removed for place in places)
    return _EITHER if came_or_went else _UPDATE

"""Attributes of a request that stand in no body: names, users, options, objects that are known by name only, and what a review tells."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct, field
from msgspec.structs import replace

from replay.audit.answer import is_forbidden
from replay.audit.event import RequestRecord, annotations_from_json
from replay.json import JSON
from replay.kube.admission_request import as_sent_to_webhook, attributes_of
from replay.kube.attributes import Attributes, Basis, Missing, Operation, PartialObject
from replay.kube.gvk import GroupVersionKind
from replay.kube.schema import OBJECT_META_FIELDS, Schemas
from replay.reconstruct.history.old_object import RECORD_RESPONSES
from replay.reconstruct.rebuild import Rebuilt
from replay.reconstruct.record.body import BodyShape
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.record.known import Known, get, shown
from replay.reconstruct.request import UNREAD_BODY, Reached, ReplayRequest
from replay.reconstruct.server.options import delete_options, write_options

_METADATA = tuple(name for name in OBJECT_META_FIELDS if name not in ("name", "namespace"))
_NAMED = ("apiVersion", "kind", "metadata")


class Skeletons(Struct):
    """Builds objects of which only the name is known. `schemas_of` a workspace says which fields a kind may have."""

    schemas_of: Callable[[str], Schemas]
    _leaves: dict[tuple[str, GroupVersionKind, str, str], list[Missing]] = field(default_factory=dict)

    def partial_object(
        self, missing: Missing, kind: GroupVersionKind, record: RequestRecord
    ) -> PartialObject | Missing:
        """Return an object of a request, of which `missing` has the path, with all fields but its name unknown.

        Returns `missing` itself if the kind has no schema, so that its fields are unknown, or if there is no name.
        """
        name, namespace = record.name, "" if record.resource == "namespaces" else record.namespace
        schema = self.schemas_of(record.workspace).for_kind(kind)
        if schema is None or not name or schema.preserve_unknown_fields:
            return missing
        key = (record.workspace, kind, missing.path, missing.reason)
        leaves = self._leaves.get(key)
        if leaves is None:
            paths = [f"metadata.{field}" for field in _METADATA] + [
                field for field in schema.fields if field not in _NAMED
            ]
            leaves = self._leaves[key] = [
                Missing(f"{missing.path}.{path}", missing.reason, missing.fix) for path in paths
            ]
        metadata: dict[str, JSON] = {"name": name}
        if namespace:
            metadata["namespace"] = namespace
        value: dict[str, JSON] = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
        for leaf in leaves:
            _, first, *rest = leaf.path.split(".", 2)
            (metadata if rest else value)[rest[0] if rest else first] = leaf
        return PartialObject(value, tuple(leaves))


def reviewed_request(exchange: Exchange, namespace_object: Known | Missing) -> ReplayRequest:
    """Return the request that a webhook got. Raise KeyError, TypeError or ValueError if the review is malformed.

    A review of only the validating phase shows the object after mutation. A candidate's mutating policies begin with
    that object.
    """
    review = exchange.response.json
    (namespace,), basis = shown({"namespaceObject": namespace_object})

    def told(request: JSON) -> Attributes:
        return replace(attributes_of(as_sent_to_webhook(request)), namespace_object=namespace)

    attributes = told(review["request"])
    original = told(review["mutating"]) if review.get("mutating") else attributes
    basis = {
        "object": None if attributes.object is None else Basis.RECORDED,
        "oldObject": None if attributes.old_object is None else Basis.RECORDED,
        **basis,
    }
    if review.get("isValidated", True):
        return ReplayRequest(exchange.record, attributes, original, basis)
    # Policies run before the webhooks of the same phase, so one of them may have denied the request.
    reason = "the recording has no call of a validating webhook"
    return ReplayRequest(exchange.record, attributes, original, basis, Reached.UNKNOWN, reason)


_UNRECORDED = "the log does not have this field, because its entries are not audit events"
_UNKNOWN_KIND = "the kind of this resource is not known"
_GIVE_KIND = "give a snapshot with its CustomResourceDefinition"
NO_KIND = f"{_UNKNOWN_KIND}: {_GIVE_KIND}"
RECORD_EVENTS = "use the audit log of the API server"


def generated_name(exchange: Exchange, rebuilt: Rebuilt) -> str:
    """Return the name in the validating phase of a request that has none. Collection deletions have none there either."""
    if exchange.record.verb != "create":
        return ""
    if isinstance(rebuilt.object, Missing):
        name = exchange.response.metadata.get("name")
    else:
        name = get(rebuilt.object.value, ("metadata", "name"))
    return name if isinstance(name, str) else ""


def options_of(exchange: Exchange, rebuilt: Rebuilt) -> JSON | Missing | None:
    """Return the options of the operation. A connection has none."""
    if rebuilt.operation is Operation.CONNECT:
        return None
    if not exchange.has_query and not (rebuilt.operation is Operation.DELETE and exchange.request.json):
        return Missing("request.options", _UNRECORDED, RECORD_EVENTS)
    if rebuilt.operation is Operation.DELETE:
        options = delete_options(exchange)
        if isinstance(options, Missing):
            return options
        options = _with_grace_period(exchange, options, rebuilt.old_object)
        return options if isinstance(options, Missing) else _with_precondition(exchange, options, rebuilt.old_object)
    return write_options(exchange.record.request_uri.partition("?")[2], rebuilt.operation)


def _with_precondition(exchange: Exchange, options: JSON, old: Known | Missing) -> JSON | Missing:
    """Return the options of a deletion with the UID of the found namespace as a precondition.

    The namespace store adds it (`pkg/registry/core/namespace/storage.REST.Delete`).
    """
    if exchange.record.resource != "namespaces" or get(options, ("preconditions", "uid")):
        return options
    uid = None if isinstance(old, Missing) else get(old.value, ("metadata", "uid"))
    if not isinstance(uid, str):
        return Missing("request.options", "the log does not show the uid of the deleted namespace")
    return {**options, "preconditions": {**(options.get("preconditions") or {}), "uid": uid}}


def _with_grace_period(exchange: Exchange, options: JSON, old: Known | Missing) -> JSON | Missing:
    """Return the options of a deletion with the grace period that the pod strategy chose.

    Source: `podStrategy.CheckGracefulDelete`.
    """
    record = exchange.record
    if record.resource != "pods" or record.api_group:
        return options
    period = exchange.response.metadata.get("deletionGracePeriodSeconds")
    if not (exchange.succeeded and record.verb == "delete" and isinstance(period, int)):
        period = _grace_period(options, old)
    if period is None:
        return Missing("request.options", "the grace period depends on the pod, which is not known")
    return {**options, "gracePeriodSeconds": period}


def _grace_period(options: JSON, old: Known | Missing) -> int | None:
    """Return a pod's grace period, or None if unknown. Zero needs no pod to stay zero."""
    seconds = options.get("gracePeriodSeconds")
    if seconds == 0:
        return 0
    if isinstance(old, Missing) or old.value is None or any(hole.path[0] in ("spec", "status") for hole in old.holes):
        return None
    if not get(old.value, ("spec", "nodeName")) or get(old.value, ("status", "phase")) in ("Failed", "Succeeded"):
        return 0
    period = seconds if isinstance(seconds, int) else get(old.value, ("spec", "terminationGracePeriodSeconds")) or 0
    # Negative periods count as one second (`podStrategy.CheckGracefulDelete`).
    return 1 if period < 0 else int(period)


def missing_of(exchange: Exchange) -> tuple[Missing, ...]:
    """Return unknown parts of a request: from a log of another API, or for an unknown resource."""
    record = exchange.record
    kinds = () if exchange.kind else ("kind", "requestKind")
    unknown = tuple([Missing(f"request.{name}", _UNKNOWN_KIND, _GIVE_KIND) for name in kinds])
    if not record.user.missing:
        return unknown
    user = (Missing(f"request.userInfo.{name}", _UNRECORDED, RECORD_EVENTS) for name in record.user.missing)
    return (*unknown, *user, Missing("request.dryRun", _UNRECORDED, RECORD_EVENTS))


def missing_name(exchange: Exchange) -> tuple[Missing, ...]:
    """Return the unknown name of a request that shows none, if it was generated and the log lacks it."""
    if exchange.record.verb != "create":
        return ()
    if exchange.shape is BodyShape.OBJECT:
        return ()  # reviews have none
    if is_forbidden(annotations_from_json(exchange.record.annotations)):
        return (Missing("request.name", UNREAD_BODY),)
    return (Missing("request.name", "the event does not show the name", RECORD_RESPONSES),)

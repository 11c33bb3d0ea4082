"""Changes that a kcp shard makes to the objects of a request and that its event does not hold.

`replay.kcp.annotation` says who sees the annotation `kcp.io/cluster`, and `replay.kcp.mutation` which labels are set.
Stored objects have them; refused requests do not show them.
"""

from __future__ import annotations

from msgspec.structs import replace

from replay.audit.event import annotations_from_json
from replay.kcp.annotation import CLUSTER, PATH, annotation
from replay.kcp.binding import APIBindings
from replay.kcp.mutation import CLAIMED, REQUIRED_GROUPS, claim_labels, creates_workspace, set_unseen
from replay.kube.attributes import Missing, Operation
from replay.reconstruct.cluster import Cluster
from replay.reconstruct.rebuild import NOT_ASKED, Rebuilt
from replay.reconstruct.record.body import BodyShape
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.record.known import Hole, Known, get

_ANNOTATIONS = ("metadata", "annotations")
_LABELS = ("metadata", "labels")
_PATH = (*_ANNOTATIONS, CLUSTER)


def as_sent_to_shard(exchange: Exchange, rebuilt: Rebuilt, cluster: Cluster) -> Rebuilt:
    """Return a workspace request's attributes. Responses and states have the annotation, requests need not."""
    original, body = rebuilt.before_mutation, _sent(exchange, rebuilt, rebuilt.object)
    return replace(
        rebuilt,
        object=body if _is_shown(exchange) else _as_validated(exchange, rebuilt.operation, body, cluster),
        old_object=_scale_without_annotations(rebuilt.old_object)
        if exchange.record.subresource == "scale"
        else rebuilt.old_object,
        before_mutation=original if original is NOT_ASKED else _sent(exchange, rebuilt, original),
    )


def _sent(exchange: Exchange, rebuilt: Rebuilt, state: Known | Missing) -> Known | Missing:
    if isinstance(state, Missing) or state.value is None:
        return state
    record = exchange.record
    if record.subresource == "scale":
        return _scale_without_annotations(state)
    if exchange.request.json is None and record.verb != "patch":
        return state.with_holes(
            [
                Hole(
                    _PATH,
                    "the log does not have the request body",
                    "audit this resource at level Request or RequestResponse",
                )
            ]
        )
    if rebuilt.operation is Operation.CREATE:
        workspace = annotation(exchange.request.json, CLUSTER)
        return state if workspace == record.workspace and get(state.value, _PATH) else _without(state)
    if record.verb == "patch" or rebuilt.operation is not Operation.UPDATE:
        return state.with_holes([_CHANGED]) if _is_named(exchange) else state
    workspace = annotation(exchange.request.json, CLUSTER)
    return state.with_value(_PATH, workspace) if workspace else _without(state)


def _is_shown(exchange: Exchange) -> bool:
    """Return whether the response has the stored metadata."""
    return exchange.shape in (BodyShape.OBJECT, BodyShape.PARTIAL_METADATA)


def _as_validated(
    exchange: Exchange, operation: Operation, state: Known | Missing, cluster: Cluster
) -> Known | Missing:
    """Return an object between mutating and validating policies as kcp's plugins leave it.

    The object was neither stored nor shown.
    """
    is_asked = operation in (Operation.CREATE, Operation.UPDATE) and not exchange.record.subresource
    if isinstance(state, Missing) or state.value is None or not is_asked:
        return state
    record, resource = exchange.record, exchange.resource.group_resource
    path = annotations_from_json(record.annotations).get(PATH, "")
    unseen = set_unseen(resource, operation, exchange.user, path, state.value)
    if creates_workspace(resource, operation):
        unseen[REQUIRED_GROUPS] = cluster.required_groups(record)
    state = _claimed(exchange, state, cluster.bindings_of(record))
    for place, value in unseen.items():
        if isinstance(value, Missing):
            state = state.with_holes([Hole(place, value.reason, value.fix)])
        else:
            state = state.without(place) if value is None else state.with_value(place, value)
    return state


def _claimed(exchange: Exchange, claimed: Known, bindings: APIBindings) -> Known:
    """Return an object with the labels of its accepted claims, and no other claim labels."""
    if not bindings.are_known:
        return claimed.with_holes([_UNBOUND])
    labels = get(claimed.value, _LABELS)
    own = {key: text for key, text in labels.items() if isinstance(text, str)} if isinstance(labels, dict) else {}
    resource, name = exchange.resource.group_resource, exchange.record.name
    expected: dict[str, str] = {}
    holes: list[Hole] = []
    for states in bindings.states:
        each = [claim_labels(state, resource, name, own) for state in states]
        # The last possible state counts. Labels that differ in another one become holes.
        expected |= each[-1]
        changing = {key for claim in each for key in claim if any(other.get(key) != claim[key] for other in each)}
        holes += [Hole((*_LABELS, key), _REBOUND) for key in sorted(changing)]
    for key in own:
        if key.startswith(CLAIMED) and key not in expected:
            claimed = claimed.without((*_LABELS, key))
    return (claimed.with_fields(_LABELS, expected) if expected else claimed).with_holes(holes)


_UNBOUND = Hole(_LABELS, "the APIBindings of the workspace are not known, which set labels for permission claims")
_REBOUND = (
    "another request changed an APIBinding of the workspace at the same time, which sets labels for permission claims"
)


def _is_named(exchange: Exchange) -> bool:
    """Return whether a patch may change the annotation."""
    patch = exchange.request.json
    if isinstance(patch, list):
        return "kcp.io~1cluster" in (exchange.record.request_object or "")
    annotations = get(patch, _ANNOTATIONS)
    return (
        isinstance(annotations, dict)
        and annotations.get(CLUSTER, exchange.record.workspace) != exchange.record.workspace
    )


_CHANGED = Hole(_PATH, "the patch changes an annotation that the server sets")


def _scale_without_annotations(state: Known | Missing) -> Known | Missing:
    """Return a Scale without annotations."""
    if isinstance(state, Missing) or not isinstance(get(state.value, ("metadata",)), dict):
        return state
    return state.without(_ANNOTATIONS)


def _without(state: Known | Missing) -> Known | Missing:
    """Return an object without the annotation, and without annotations if it was the only one."""
    if isinstance(state, Missing) or get(state.value, _PATH) is None:
        return state
    bare = state.without(_PATH)
    return bare if get(bare.value, _ANNOTATIONS) else bare.without(_ANNOTATIONS)

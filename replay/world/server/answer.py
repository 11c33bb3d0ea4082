"""Answer of the API server to one request, and the object afterwards."""

from __future__ import annotations

from typing import NamedTuple

from replay.admission.builtin.registry import PLUGINS
from replay.admission.decision import Decision, Verdict
from replay.admission.inputs import Place, changed_places
from replay.json import FieldPath
from replay.kube.attributes import Missing
from replay.reconstruct.history.derived import after_binding
from replay.reconstruct.record.known import Hole, Known, get
from replay.reconstruct.server.deletion import left_by_deletion
from replay.world.request_adapter import after_write
from replay.world.result import UNKNOWN, Cause, CausingRequest, IsolatedEnd, RequestEnd
from replay.world.state import DeferredObject, State, content, known_or_missing
from replay.world.step import WorldStep

_UNSEEN = "the log has no body for an earlier write to the object"
_MANAGED: FieldPath = ("metadata", "managedFields")
_METADATA: tuple[FieldPath, ...] = (
    *(("metadata", name) for name in ("labels", "annotations", "finalizers", "ownerReferences")),
    _MANAGED,
)
_WRITTEN_BY: dict[str, tuple[FieldPath, ...]] = {
    "": (("spec",), *_METADATA),
    "status": (("status",),),
    "scale": (("spec", "replicas"), _MANAGED),
    "resize": (("spec", "containers"), ("spec", "initContainers"), ("status",), _MANAGED),
    "ephemeralcontainers": (("spec", "ephemeralContainers"), _MANAGED),
}
"""Fields that a write to a subresource may change. Others stay (`PrepareForUpdate` of its strategy).

A write to the status gets an entry in `managedFields` too, which owns nothing outside the status.
"""
_NO_STORE = frozenset({"token", "log"})


class ServerAnswer(NamedTuple):
    """An answer, and the state of the object after it.

    `decision` is the decision on an object that differs from the log's, if one was made. `causing_request` is the
    request that caused the answer, if that request concerned another object.
    """

    result: RequestEnd
    state: State
    decision: Decision | None = None
    causing_request: CausingRequest | None = None


def denied(decision: Decision) -> RequestEnd:
    """Return the answer of a denial, which carries the code of the first one.

    The code is not known if another plugin or policy, whose answer is not known, may refuse the request first.
    """
    if decision.undetermined:
        return RequestEnd(Cause.DENIED, certain=False)
    return RequestEnd(Cause.DENIED, decision.denials[0].code)


_ONLY_MUTATING = frozenset(plugin.name for plugin in PLUGINS if not plugin.refuses)


def may_refuse(decision: Decision) -> bool:
    """Return whether a decision leaves open if a policy or plugin refuses the request."""
    is_open = decision.verdict is Verdict.UNDETERMINED
    return is_open and not all(entry.never_refuses or entry.policy in _ONLY_MUTATING for entry in decision.undetermined)


def succeeds(code: int) -> RequestEnd:
    """Return the answer of a success."""
    return RequestEnd(Cause.SUCCEEDS, code)


def is_absent(state: State) -> bool:
    """Return whether a state says that the object does not exist."""
    return isinstance(state, Known) and state.value is None


def object_in(step: WorldStep, state: State) -> Known | Missing:
    """Return the object of a state. None means the log's object."""
    return step.old if state is None else content(state)


def mutated_places(isolated_end: IsolatedEnd | None) -> frozenset[Place]:
    """Return the places that the candidate's mutations change."""
    paths = () if isolated_end is None else isolated_end.paths
    return changed_places("object", ({"path": path} for path in paths))


def mutated_later(step: WorldStep) -> DeferredObject:
    """Return what remains after a write that the candidate mutates differently."""
    return DeferredObject(
        lambda: after_write(step.old, step.exchange, known_or_missing(step.new)), mutated_places(step.isolated_end)
    )


def left_by_unseen_write(step: WorldStep, state: State) -> Known | Missing:
    """Return the object after a write without a body in the log: its old object, except what it may have written."""
    here, subresource = object_in(step, state), step.record.subresource
    paths = _WRITTEN_BY.get(subresource)
    # Without `spec`, the kind keeps its content in fields that `_WRITTEN_BY` does not know.
    if isinstance(here, Missing) or here.value is None or paths is None or "spec" not in here.value:
        return Missing("", _UNSEEN)
    api_resource = step.exchange.api_resource
    # If the kind has no subresource `status`, a plain write may change the status too.
    if not subresource and (api_resource is None or "status" not in api_resource.subresources):
        paths = (*paths, ("status",))
    return here.with_holes(Hole(path, _UNSEEN) for path in paths)


def connected(pod: Known | Missing) -> RequestEnd:
    """Return the answer to a connection to a pod that exists (`pod/strategy.go`, `streamLocation`)."""
    if isinstance(pod, Missing):
        return UNKNOWN
    if not get(pod.value, ("spec", "nodeName")):
        return RequestEnd("error 400", 400)
    return RequestEnd(Cause.SUCCEEDS, 101, certain=False)


def subresource_done(step: WorldStep, state: State) -> ServerAnswer:
    """Return the answer to an admitted eviction, binding or token request for a pod that exists."""
    # The log's answer does not apply if the log had no such pod or refused the request.
    result = step.logged if step.logged.cause not in (Cause.ABSENT, Cause.DENIED) else succeeds(201)
    if step.is_dry or result.cause != Cause.SUCCEEDS or step.record.subresource in _NO_STORE:
        return ServerAnswer(result, state)
    if step.record.subresource == "eviction":
        *_, left = left_by_deletion(object_in(step, state), step.exchange)
        return ServerAnswer(result, step.state_after_write(left))
    if step.record.subresource == "binding":
        touched = state.touched if isinstance(state, DeferredObject) else None
        return ServerAnswer(result, DeferredObject(lambda: _bound_pod(step, object_in(step, state)), touched))
    return ServerAnswer(
        result, Missing("", f"a request changed its {step.record.subresource}, and the log does not show the result")
    )


def _bound_pod(step: WorldStep, here: Known | Missing) -> Known | Missing:
    return here if isinstance(here, Missing) else after_binding(here, step.exchange, None)

"""Controllers' reactions to the owners of objects, as far as the candidate's objects show them."""

from __future__ import annotations

from collections.abc import Sequence

from replay.admission.inputs import Place
from replay.json import JSON
from replay.kube.attributes import Missing
from replay.reconstruct.record.known import GONE, Known, get
from replay.world.controller import NAMESPACE_CONTROLLER, STATEFULSET_CONTROLLER, Retry, is_controller, retry_of
from replay.world.result import Cause, RequestEnd
from replay.world.state import Branch, State, content, spec
from replay.world.step import WorldStep
from replay.world.timeline import OwnerChange, Presence

TEMPLATE: Place = ("object", "spec", "template")
CREATE_PODS_ONCE = (("batch", "jobs"), ("apps", "replicasets"), ("apps", "statefulsets"))
"""Resources whose pods controllers create when the object is new."""
TEMPLATES_OF = ("deployments",)
"""Resources whose pod template decides which object their controller creates."""


def is_missing(owner: OwnerChange, step: WorldStep, is_creation: bool) -> bool:
    """Return whether an owner's state stops a creation by a controller, or a deletion by the garbage collector.

    A ReplicaSet is created for the current pod template of its Deployment
    (`pkg/controller/deployment/util.FindNewReplicaSet`).
    """
    if not is_creation or owner.presence is not Presence.OTHER:
        return owner.presence in ((Presence.ABSENT, Presence.EARLIER) if is_creation else (Presence.LEFT,))
    if step.record.resource != "replicasets" or owner.template is None:
        return False
    own = get(step.exchange.request.json, ("spec", "template"))
    return own is not None and plain_template(own) != plain_template(owner.template)


def state_if_unsent(presence: Presence, step: WorldStep) -> Known | Missing:
    """Return what remains if a controller's request is not sent because of an owner."""
    if presence is Presence.LEFT:
        return step.old
    # The pods of a StatefulSet always have the same names, so an earlier object may still hold the name.
    is_named = presence is Presence.EARLIER and step.record.user.username == STATEFULSET_CONTROLLER
    return (
        Missing("", "a controller may have created it earlier, for another owner of the same name")
        if is_named
        else GONE
    )


def owners_of(state: Known | Missing) -> list[str]:
    """Return the known owner UIDs of an object."""
    references = get(state.value, ("metadata", "ownerReferences")) if isinstance(state, Known) else None
    return [str(each["uid"]) for each in references or () if isinstance(each, dict) and each.get("uid")]


def is_finalized(step: WorldStep, state: State) -> bool:
    """Return whether a controller finalizes a namespace that is not deleted for the candidate."""
    if step.record.user.username != NAMESPACE_CONTROLLER or step.record.subresource != "finalize":
        return False
    here = content(state) if state is not None else None
    return isinstance(here, Known) and not get(here.value, ("metadata", "deletionTimestamp"))


def template_of(branches: Sequence[Branch]) -> JSON:
    """Return the pod template of an object, None if its state is as in the log or uncertain."""
    if len(branches) > 1 or branches[0].state is None:
        return None
    return get(spec(branches[0].state), ("template",))


def plain_template(template: JSON) -> JSON:
    """Return a pod template without the label and fields that only the template of a ReplicaSet has."""
    metadata = get(template, ("metadata",)) or {}
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != "pod-template-hash"}
    return {**template, "metadata": {**metadata, "labels": labels, "creationTimestamp": None}}


def retry(step: WorldStep, result: RequestEnd) -> Retry | None:
    """Return who retries a creation that one of the sets refuses, and for which owner."""
    username, ends = step.record.user.username, (result.cause, step.logged.cause)
    if step.record.verb != "create" or Cause.SUCCEEDS not in ends or not is_controller(username):
        return None
    if Cause.DENIED not in ends and Cause.INVALID not in ends:
        return None
    owners = step.uids_of_owners
    return retry_of(username, owners[0]) if owners else None

"""Rules for kubelets about pods and the objects that their pods need.

Source: `plugin/pkg/admission/noderestriction/admission.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from replay.admission.builtin.plugin import Refusal, Review, known
from replay.admission.builtin.pod.service_account import UnknownVolumeError, api_object_reference
from replay.admission.builtin.storage import annotations_of
from replay.json import JSON
from replay.kube.attributes import Operation
from replay.kube.gvk import GroupVersionKind
from replay.kube.plugin import MIRROR
from replay.kube.quantity import parse_quantity

NODE: Final = GroupVersionKind("", "v1", "Node")
POD: Final = GroupVersionKind("", "v1", "Pod")
_ITS_OWN: Final = "with spec.nodeName set to itself"


def not_found(singular: str, name: str) -> str:
    """Return a lister's message about a missing object, with the kind in the singular."""
    return f'{singular} "{name}" not found'


def pod_of(review: Review, name: str) -> JSON | Refusal:
    """Return a pod as the server's cache has it, or a 404."""
    pod = known(review.cluster.get(POD, review.attributes.namespace, name))
    return Refusal(404, "NotFound", not_found("pod", name)) if pod is None else pod


def admit_pod(review: Review, node: str) -> Refusal | None:
    """Check a pod itself: a kubelet may create mirror pods, and delete pods of its node."""
    operation = review.attributes.operation
    if operation is Operation.CREATE:
        message = _wrong_mirror_pod(review, node)
        return message if isinstance(message, Refusal) or message is None else review.forbidden(message)
    if operation is Operation.DELETE:
        pod = pod_of(review, review.attributes.name)
        if isinstance(pod, Refusal):
            return pod
        if _node_of(pod) != node:
            return review.forbidden(f'node "{node}" can only delete pods {_ITS_OWN}')
        return None
    return review.forbidden(
        f'unexpected operation "{operation.value}", node "{node}" can only create and delete mirror pods'
    )


def _wrong_mirror_pod(review: Review, node: str) -> Refusal | str | None:
    pod = review.object
    if MIRROR not in annotations_of(pod):
        return f'pod does not have "{MIRROR}" annotation, node "{node}" can only create mirror pods'
    if _node_of(pod) != node:
        return f'node "{node}" can only create pods {_ITS_OWN}'
    owners = pod["metadata"].get("ownerReferences") or []
    if len(owners) > 1:
        return f'node "{node}" can only create pods with a single owner reference set to itself'
    wrong = _wrong_owner(review, node, owners[0] if owners else None)
    if wrong is not None:
        return wrong
    try:
        resource = api_object_reference(pod["spec"])
    except UnknownVolumeError as error:
        return f"error checking mirror pod for API references: {error}"
    return f'node "{node}" can not create pods that reference {resource}' if resource else None


def _wrong_owner(review: Review, node: str, owner: JSON | None) -> Refusal | str | None:
    named = (owner or {}).get("apiVersion"), (owner or {}).get("kind"), (owner or {}).get("name")
    if owner is None or named != ("v1", "Node", node):
        return f'node "{node}" can only create pods with an owner reference set to itself'
    if not owner.get("controller"):
        return f'node "{node}" can only create pods with a controller owner reference set to itself'
    if owner.get("blockOwnerDeletion"):
        return f'node "{node}" must not set blockOwnerDeletion on an owner reference'
    node_object = known(review.cluster.get(NODE, "", node))
    if node_object is None:
        return Refusal(404, "NotFound", not_found("node", node))
    uid_expected, uid = owner.get("uid") or "", uid_of(node_object)
    return None if uid_expected == uid else f"node {node} UID mismatch: expected {uid_expected} got {uid}"


def uid_of(obj: JSON) -> str:
    """Return the UID, empty if there is none."""
    return str((obj.get("metadata") or {}).get("uid") or "")


def _node_of(pod: JSON) -> str:
    return str((pod.get("spec") or {}).get("nodeName") or "")


def is_on(pod: JSON, node: str) -> bool:
    """Return whether a pod is bound to a node."""
    return _node_of(pod) == node


def admit_status(review: Review, node: str) -> Refusal | None:
    """Check a status update: the pod must be on the node, and labels and claims must not change."""
    if review.attributes.operation is not Operation.UPDATE:
        return review.forbidden(f'unexpected operation "{review.attributes.operation.value}"')
    old, new = review.old_object, review.object
    if not is_on(old, node):
        return review.forbidden(f'node "{node}" can only update pod status for pods {_ITS_OWN}')
    if ((old.get("metadata") or {}).get("labels") or {}) != ((new.get("metadata") or {}).get("labels") or {}):
        return review.forbidden(f'node "{node}" cannot update labels through pod status')
    old_part, after = old.get("status") or {}, new.get("status") or {}
    for field, canonical, what in _CLAIMS:
        if canonical(old_part.get(field)) != canonical(after.get(field)):
            return review.forbidden(f'node "{node}" cannot update {what}')
    return None


def _named_claims(statuses: JSON) -> Any:
    return [(each.get("name") or "", each.get("resourceClaimName")) for each in statuses or ()]


def _extended_claim(status: JSON) -> Any:
    if status is None:
        return None
    fields = ("containerName", "resourceName", "requestName")
    mappings = [[each.get(field) or "" for field in fields] for each in status.get("requestMappings") or ()]
    return status.get("resourceClaimName") or "", mappings


def _allocatable_claims(statuses: JSON) -> Any:
    return [
        (
            each.get("resourceClaimName") or "",
            list(each.get("containers") or ()),
            list(_amounts(each.get("mapping"), "quantity")),
            list(_amounts(each.get("overhead"), "perPod", "perContainer")),
        )
        for each in statuses or ()
    ]


def _amounts(entries: JSON, *fields: str) -> Iterator[Any]:
    for each in entries or ():
        values = (each.get(field) for field in fields)
        yield each.get("name") or "", [None if v is None else parse_quantity(str(v)).rounded_up(-9) for v in values]


_CLAIMS: Final[tuple[tuple[str, Callable[[JSON], Any], str], ...]] = (
    # "statues" is the server's spelling.
    ("resourceClaimStatuses", _named_claims, "resource claim statues"),
    ("extendedResourceClaimStatus", _extended_claim, "extended resource claim status"),
    ("nodeAllocatableResourceClaimStatuses", _allocatable_claims, "node allocatable resource claim statuses"),
)


def admit_eviction(review: Review, node: str) -> Refusal | None:
    """Check an eviction: the pod must be on the node."""
    if review.attributes.operation is not Operation.CREATE:
        return review.forbidden(f"unexpected operation {review.attributes.operation.value}")
    name = review.attributes.name or review.own_name
    if not name:
        return review.forbidden("could not determine pod from request data")
    pod = pod_of(review, name)
    if isinstance(pod, Refusal):
        return pod
    if not is_on(pod, node):
        return review.forbidden(f"node {node} can only evict pods {_ITS_OWN}")
    return None

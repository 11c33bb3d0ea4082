"""NodeRestriction (`plugin/pkg/admission/noderestriction/admission.go`): limits a kubelet to its own node and its pods.

Feature gates have their defaults of 1.37: CSIVolumeHealth is off, the others that the plugin reads are on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from replay.admission.builtin.certificate.subject import CertificateRequestError, subject_of
from replay.admission.builtin.node_restriction.claim_status import changes_beyond_status
from replay.admission.builtin.node_restriction.labels import forbidden_labels
from replay.admission.builtin.node_restriction.pod import admit_eviction, admit_pod, admit_status
from replay.admission.builtin.node_restriction.token import admit_certificate, admit_token
from replay.admission.builtin.plugin import WRITES, Plugin, Refusal, Review
from replay.json import JSON
from replay.kube.attributes import Operation
from replay.kube.gvk import GroupResource

_USER: Final = "system:node:"
_GROUP: Final = "system:nodes"
_LEASES: Final = "kube-node-lease"
_KUBELET_SIGNERS: Final = ("kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet")


class NodeRestriction(Plugin):
    """Checks users of the group `system:nodes` whose name is that of a node. All others pass."""

    name = "NodeRestriction"
    operations = WRITES
    looks_up = (("", "Node"), ("", "ServiceAccount"))

    def admit(self, review: Review) -> Refusal | None:
        """Deny requests that a kubelet may not make."""
        user = review.attributes.user_info
        if not user.username.startswith(_USER) or _GROUP not in user.groups:
            return None
        node = user.username.removeprefix(_USER)
        if not node:
            return review.forbidden(f'could not determine node from user "{user.username}"')
        check = _CHECKS.get(review.attributes.resource.group_resource)
        return check(review, node) if check is not None else None


def _pods(review: Review, node: str) -> Refusal | None:
    checks = {"": admit_pod, "status": admit_status, "eviction": admit_eviction}
    subresource = review.attributes.subresource
    if subresource not in checks:
        return review.forbidden(
            f"unexpected pod subresource \"{subresource}\", only 'status' and 'eviction' are allowed"
        )
    return checks[subresource](review, node)


def _nodes(review: Review, node: str) -> Refusal | None:
    requested, operation = review.attributes.name, review.attributes.operation
    if requested != node:
        return review.forbidden(f'node "{node}" is not allowed to modify node "{requested}"')
    message = ""
    if operation is Operation.CREATE:
        message = _wrong_new_node(review.object, node)
    if operation is Operation.UPDATE:
        message = _wrong_node(review.object, review.old_object, node)
    return review.forbidden(message) if message else None


def _wrong_new_node(obj: JSON, node: str) -> str:
    if (obj.get("spec") or {}).get("configSource") is not None:
        return f'node "{node}" is not allowed to create pods with a non-nil configSource'
    labels = forbidden_labels(_metadata(obj).get("labels"), None)
    return f'node "{node}" is not allowed to set the following labels: {", ".join(labels)}' if labels else ""


def _wrong_node(obj: JSON, old: JSON, node: str) -> str:
    spec, old_spec = obj.get("spec") or {}, old.get("spec") or {}
    source = spec.get("configSource")
    if source is not None and source != old_spec.get("configSource"):
        return f'node "{node}" is not allowed to update configSource to a new non-nil configSource'
    if (spec.get("taints") or []) != (old_spec.get("taints") or []):
        return f'node "{node}" is not allowed to modify taints'
    if (_metadata(obj).get("ownerReferences") or []) != (_metadata(old).get("ownerReferences") or []):
        return f'node "{node}" is not allowed to modify ownerReferences'
    labels = forbidden_labels(_metadata(obj).get("labels"), _metadata(old).get("labels"))
    # The server's message has no subject here.
    return f"is not allowed to modify labels: {', '.join(labels)}" if labels else ""


def _metadata(obj: JSON) -> JSON:
    return obj.get("metadata") or {}


def _claims(review: Review, node: str) -> Refusal | None:
    if review.attributes.subresource != "status":
        return review.forbidden("may only update PVC status")
    if review.attributes.operation is not Operation.UPDATE:
        return review.forbidden(f'unexpected operation "{review.attributes.operation.value}"')
    changes = changes_beyond_status(review.old_object, review.object)
    if not changes:
        return None
    refusal = f'node "{node}" is not allowed to update fields other than status.quantity and status.conditions'
    return review.forbidden(f"{refusal}: {changes}")


def _name(review: Review) -> str:
    """Return the name to check: on CREATE the object's own name."""
    return review.own_name if review.attributes.operation is Operation.CREATE else review.attributes.name


def _leases(review: Review, node: str) -> Refusal | None:
    if review.attributes.namespace != _LEASES:
        return review.forbidden(f'can only access leases in the "{_LEASES}" system namespace')
    if _name(review) != node:
        return review.forbidden("can only access node lease with the same name as the requesting node")
    return None


def _csi_nodes(review: Review, node: str) -> Refusal | None:
    if _name(review) != node:
        return review.forbidden("can only access CSINode with the same name as the requesting node")
    if review.attributes.subresource == "status":
        return review.forbidden("CSIVolumeHealth feature gate is disabled")
    return None


def _resource_slices(review: Review, node: str) -> Refusal | None:
    words = {Operation.CREATE: "create", Operation.DELETE: "delete"}
    operation = review.attributes.operation
    if operation not in words:
        return None
    resource_slice = review.object if operation is Operation.CREATE else review.old_object
    if (resource_slice.get("spec") or {}).get("nodeName") == node:
        return None
    return review.forbidden(f"can only {words[operation]} ResourceSlice with the same NodeName as the requesting node")


def _signing_requests(review: Review, node: str) -> Refusal | None:
    if review.attributes.operation is not Operation.CREATE:
        return None
    if (review.object.get("spec") or {}).get("signerName") not in _KUBELET_SIGNERS:
        return None
    try:
        subject = subject_of(review.object)
    except CertificateRequestError as error:
        return review.forbidden(f"unable to parse csr: {error}")
    if subject.common_name != _USER + node:
        return review.forbidden(f"can only create a node CSR with CN={_USER}{node}")
    return None


_CHECKS: Final[dict[GroupResource, Callable[[Review, str], Refusal | None]]] = {
    GroupResource("", "pods"): _pods,
    GroupResource("", "nodes"): _nodes,
    GroupResource("", "persistentvolumeclaims"): _claims,
    GroupResource("", "serviceaccounts"): admit_token,
    GroupResource("certificates.k8s.io", "podcertificaterequests"): admit_certificate,
    GroupResource("coordination.k8s.io", "leases"): _leases,
    GroupResource("storage.k8s.io", "csinodes"): _csi_nodes,
    GroupResource("resource.k8s.io", "resourceslices"): _resource_slices,
    GroupResource("certificates.k8s.io", "certificatesigningrequests"): _signing_requests,
}

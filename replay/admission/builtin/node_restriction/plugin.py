"""NodeRestriction (`plugin/pkg/admission/noderestriction/admission.go`): limits a kubelet to its own node and its pods.

Feature gates have their defaults of 1.37: CSIVolumeHealth is off, the others that the plugin reads are on.
"""

from __future__ import annotations

import copy
import difflib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from replay.admission.builtin.certificate import CertificateRequestError, subject_of
from replay.admission.builtin.node_restriction.pod import admit_eviction, admit_pod, admit_status
from replay.admission.builtin.node_restriction.token import admit_certificate, admit_token
from replay.admission.builtin.plugin import WRITES, Plugin, Refusal, Review
from replay.json import JSON
from replay.kube.attributes import Operation
from replay.kube.gvk import GroupResource

# Labels that a kubelet may not set on its node (`getForbiddenLabels`, `k8s.io/kubelet/pkg/apis`).

_OF_KUBELETS: Final = frozenset(
    {
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
    }
)
_NAMESPACES_OF_KUBELETS: Final = ("kubelet.kubernetes.io", "node.kubernetes.io")
_RESERVED: Final = ("node-restriction.kubernetes.io",)
_OF_KUBERNETES: Final = ("kubernetes.io", "k8s.io")


def _forbidden_labels(new: Mapping[str, str] | None, old: Mapping[str, str] | None) -> list[str]:
    """Return the labels that differ and that a kubelet may not change, sorted."""
    ours, theirs = new or {}, old or {}
    return sorted(key for key in {*ours, *theirs} if ours.get(key) != theirs.get(key) and _is_forbidden(key))


def _is_forbidden(key: str) -> bool:
    namespace = key.split("/", 1)[0] if "/" in key else ""
    if _is_in(namespace, _RESERVED):
        return True
    is_of_kubelets = key in _OF_KUBELETS or _is_in(namespace, _NAMESPACES_OF_KUBELETS)
    return _is_in(namespace, _OF_KUBERNETES) and not is_of_kubelets


def _is_in(namespace: str, domains: Iterable[str]) -> bool:
    return any(namespace == domain or namespace.endswith("." + domain) for domain in domains)


# Changes of a claim's status that a kubelet may not make (`admitPVCStatus`).

_OPEN: Final = ("capacity", "conditions", "allocatedResourceStatuses", "allocatedResources")
_METADATA: Final = (
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
)
_REFERENCE: Final[Mapping[str, Any]] = {"apiGroup": None, "kind": "", "name": ""}
_SPEC: Final[Mapping[str, Any]] = {
    "accessModes": None,
    "selector": None,
    "resources": {"limits": None, "requests": None},
    "volumeName": "",
    "storageClassName": None,
    "volumeMode": None,
    "dataSource": None,
    "dataSourceRef": None,
    "volumeAttributesClassName": None,
}
_STATUS: Final[Mapping[str, Any]] = {
    "phase": "",
    "accessModes": None,
    "capacity": None,
    "conditions": None,
    "allocatedResources": None,
    "allocatedResourceStatuses": None,
    "currentVolumeAttributesClassName": None,
    "modifyVolumeStatus": None,
    "healthStatus": None,
}
_NESTED: Final[Mapping[str, Mapping[str, Any]]] = {
    "resources": {"limits": None, "requests": None},
    "dataSource": _REFERENCE,
    "dataSourceRef": {**_REFERENCE, "namespace": None},
    "modifyVolumeStatus": {"targetVolumeAttributesClassName": "", "status": ""},
}


def _changes_beyond_status(old: JSON, new: JSON) -> str:
    """Return the forbidden difference as the server prints its own structures, empty if there is none.

    The server's whitespace differs from run to run. Here it is always a single space.
    """
    comparable_old, after = _comparable(old), _comparable(new)
    if comparable_old == after:
        return ""
    one, other = ([f"{line}\n" for line in _printed(each).split("\n")] for each in (old, new))
    return "".join(list(difflib.unified_diff(one, other))[2:])


def _without_updatable_fields(claim: JSON) -> JSON:
    copy_ = copy.deepcopy(claim)
    for field in ("resourceVersion", "managedFields"):
        copy_.setdefault("metadata", {}).pop(field, None)
    for field in _OPEN:
        (copy_.get("status") or {}).pop(field, None)
    return copy_


def _comparable(claim: JSON) -> Any:
    """Return a claim in which null and empty values are equal."""
    return _without_empty(_structure(_without_updatable_fields(claim)))


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: inner for key, each in value.items() if (inner := _without_empty(each)) not in (None, {}, [])}
    return [_without_empty(each) for each in value] if isinstance(value, list) else value


def _printed(claim: JSON) -> str:
    return json.dumps(_structure(_without_updatable_fields(claim)), indent=1, ensure_ascii=False)


def _structure(claim: JSON) -> Any:
    """Return the structure with Go's names: metadata fields at the top level, without empty ones."""
    metadata = claim.get("metadata") or {}
    metadata_fields = {name: metadata[name] for name in _METADATA if metadata.get(name)}
    return {
        **metadata_fields,
        "Spec": _fields(claim.get("spec") or {}, _SPEC),
        "Status": _fields(claim.get("status") or {}, _STATUS),
    }


def _fields(source: JSON, defaults: Mapping[str, Any]) -> dict[str, Any]:
    fields = {}
    for name, default in defaults.items():
        value = source.get(name)
        if value is None:
            value = default
        if name in _NESTED and isinstance(value, Mapping):
            value = _fields(dict(value), _NESTED[name])
        fields["APIGroup" if name == "apiGroup" else name[0].upper() + name[1:]] = value
    return fields


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
        # A node needs both the prefix and the group (`defaultNodeIdentifier.NodeIdentity`).
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
    labels = _forbidden_labels(_metadata(obj).get("labels"), None)
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
    labels = _forbidden_labels(_metadata(obj).get("labels"), _metadata(old).get("labels"))
    # The server's message has no subject here.
    return f"is not allowed to modify labels: {', '.join(labels)}" if labels else ""


def _metadata(obj: JSON) -> JSON:
    return obj.get("metadata") or {}


def _claims(review: Review, node: str) -> Refusal | None:
    if review.attributes.subresource != "status":
        return review.forbidden("may only update PVC status")
    if review.attributes.operation is not Operation.UPDATE:
        return review.forbidden(f'unexpected operation "{review.attributes.operation.value}"')
    changes = _changes_beyond_status(review.old_object, review.object)
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

"""Tokens that kubelets ask for their pods' accounts, and certificates.

Source: `admitServiceAccount`, `admitPodCertificateRequest`.
"""

from __future__ import annotations

from typing import Final

from replay.admission.builtin.node_restriction.pod import NODE, POD, is_on, not_found, pod_of, uid_of
from replay.admission.builtin.plugin import Refusal, Review, known, plain_error
from replay.admission.builtin.storage import annotations_of
from replay.go.format import aggregate
from replay.json import JSON
from replay.kube.attributes import Operation
from replay.kube.authorizer import AuthorizationAttributes, AuthorizationDecision
from replay.kube.gvk import GroupVersionKind
from replay.kube.plugin import MIRROR, SERVICE_ACCOUNT

_CLAIM: Final = GroupVersionKind("", "v1", "PersistentVolumeClaim")
_VOLUME: Final = GroupVersionKind("", "v1", "PersistentVolume")
_DRIVER: Final = GroupVersionKind("storage.k8s.io", "v1", "CSIDriver")
_MIGRATED: Final = {
    "awsElasticBlockStore": "ebs.csi.aws.com",
    "gcePersistentDisk": "pd.csi.storage.gke.io",
    "cinder": "cinder.csi.openstack.org",
    "azureDisk": "disk.csi.azure.com",
    "azureFile": "file.csi.azure.com",
    "vsphereVolume": "csi.vsphere.vmware.com",
    "portworxVolume": "pxd.portworx.com",
}
"""CSI driver to which an in-tree volume is migrated (`k8s.io/csi-translation-lib`)."""


class _LookupError(Exception):
    """An object on the way to a driver does not exist."""


def admit_token(review: Review, node: str) -> Refusal | None:
    """Require that a token is bound to a pod of the node, and is for an audience that the pod mentions."""
    if review.attributes.operation is not Operation.CREATE or review.attributes.subresource != "token":
        return None
    spec = review.object.get("spec") or {}
    ref = spec.get("boundObjectRef") or {}
    if ref.get("apiVersion") != "v1" or ref.get("kind") != "Pod" or not ref.get("name"):
        return review.forbidden("node requested token not bound to a pod")
    if not ref.get("uid"):
        return review.forbidden("node requested token with a pod binding without a uid")
    pod = pod_of(review, ref["name"])
    if isinstance(pod, Refusal):
        return pod
    message = _wrong_binding(ref, pod, node) or _wrong_audience(review, pod, spec.get("audiences") or [])
    return review.forbidden(message) if message else None


def _wrong_binding(ref: JSON, pod: JSON, node: str) -> str:
    if ref["uid"] != uid_of(pod):
        return (
            f"the UID in the bound object reference ({ref['uid']}) does not match the UID in record. "
            "The object might have been deleted and then recreated"
        )
    return "" if is_on(pod, node) else "node requested token bound to a pod scheduled on a different node"


def _wrong_audience(review: Review, pod: JSON, audiences: list[str]) -> str:
    if len(audiences) > 1:
        return "node may only request 0 or 1 audiences"
    audience = audiences[0] if audiences else ""
    try:
        if _mentions(review, pod, audience):
            return ""
    except _LookupError as error:
        return f'error validating audience "{audience}": {error}'
    user = review.attributes.user_info.username
    decision = _authorized(review, "request-serviceaccounts-token-audience", audience, review.attributes.name)
    if decision.allowed:
        return ""
    if decision.error:
        return f'error authorizing {user} to request tokens for audience "{audience}": {decision.error}'
    return f'{user} is not authorized to request tokens for audience "{audience}"'


def _authorized(review: Review, verb: str, resource: str, name: str) -> AuthorizationDecision:
    attributes = review.attributes
    attributes_asked = AuthorizationAttributes(
        user=attributes.user_info,
        verb=verb,
        api_group=attributes.resource.group,
        resource=resource,
        namespace=attributes.namespace,
        name=name,
    )
    decision: AuthorizationDecision = known(review.cluster.authorizer.authorize(attributes_asked))
    return decision


def _mentions(review: Review, pod: JSON, audience: str) -> bool:
    """Return whether a volume of the pod, or its driver, names an audience. Raise _LookupError."""
    errors: list[str] = []
    for volume in (pod.get("spec") or {}).get("volumes") or ():
        for source in (volume.get("projected") or {}).get("sources") or ():
            token = source.get("serviceAccountToken")
            if token is not None and (token.get("audience") or "") == audience:
                return True
        # An error counts only if no other volume names the audience.
        try:
            if (driver := _driver_of(review, pod, volume)) and audience in _audiences(review, driver):
                return True
        except _LookupError as error:
            errors.append(str(error))
    if errors:
        raise _LookupError(aggregate(errors))
    return False


def _driver_of(review: Review, pod: JSON, volume: JSON) -> str:
    namespace = str((pod.get("metadata") or {}).get("namespace") or "")
    if (volume.get("ephemeral") or {}).get("volumeClaimTemplate") is not None:
        return _driver_of_claim(review, namespace, f"{pod['metadata']['name']}-{volume.get('name') or ''}")
    if (claim := volume.get("persistentVolumeClaim")) is not None:
        return _driver_of_claim(review, namespace, claim.get("claimName") or "")
    if volume.get("csi") is not None:
        return str(volume["csi"].get("driver") or "")
    return _migrated(volume)


def _migrated(source: JSON) -> str:
    return next((driver for kind, driver in _MIGRATED.items() if source.get(kind) is not None), "")


def _driver_of_claim(review: Review, namespace: str, name: str) -> str:
    claim = known(review.cluster.get(_CLAIM, namespace, name))
    if claim is None:
        raise _LookupError(not_found("persistentvolumeclaim", name))
    volume_name = (claim.get("spec") or {}).get("volumeName") or ""
    volume = known(review.cluster.get(_VOLUME, "", volume_name))
    if volume is None:
        raise _LookupError(not_found("persistentvolume", volume_name))
    spec = volume.get("spec") or {}
    return str(spec["csi"].get("driver") or "") if spec.get("csi") is not None else _migrated(spec)


def _audiences(review: Review, name: str) -> list[str]:
    driver = known(review.cluster.get(_DRIVER, "", name))
    if driver is None:
        raise _LookupError(not_found("csidriver.storage.k8s.io", name))
    return [each.get("audience") or "" for each in (driver.get("spec") or {}).get("tokenRequests") or ()]


def admit_certificate(review: Review, node: str) -> Refusal | None:
    """Require that a certificate is for a pod on the node, for its account, and for a signer that the pod names."""
    attributes = review.attributes
    if attributes.operation is not Operation.CREATE:
        return review.forbidden(f"unexpected operation {attributes.operation.value}")
    if attributes.subresource:
        return review.forbidden(f"unexpected subresource {attributes.subresource}")
    spec = review.object.get("spec") or {}
    for check in (_wrong_node, _wrong_pod, _wrong_account, _wrong_signer):
        if (refusal := check(review, node, spec)) is not None:
            return refusal
    return None


def _wrong_node(review: Review, node: str, spec: JSON) -> Refusal | None:
    named = spec.get("nodeName") or ""
    if named != node:
        return review.forbidden(
            f'PodCertificateRequest.Spec.NodeName="{named}", which is not the requesting node "{node}"'
        )
    node_object = known(review.cluster.get(NODE, "", named))
    if node_object is None:
        missing = not_found("node", named)
        return plain_error(f'while retrieving node "{named}" named in the PodCertificateRequest: {missing}')
    uid = spec.get("nodeUID") or ""
    if uid_of(node_object) == uid:
        return None
    return plain_error(
        f'PodCertificateRequest for pod "{_pod_name(review, spec)}" names node UID "{uid}", '
        f'inconsistent with the running node ("{uid_of(node_object)}")'
    )


def _wrong_pod(review: Review, node: str, spec: JSON) -> Refusal | None:
    full, name = _pod_name(review, spec), spec.get("podName") or ""
    pod = known(review.cluster.get(POD, review.attributes.namespace, name))
    if pod is None:
        missing = not_found("pod", name)
        return plain_error(f'while retrieving pod "{full}" named in the PodCertificateRequest: {missing}')
    if (uid := spec.get("podUID") or "") != uid_of(pod):
        difference = f'contains pod UID ("{uid}") which differs from running pod "{uid_of(pod)}"'
        return plain_error(f'PodCertificateRequest for pod "{full}" {difference}')
    if not is_on(pod, node):
        return review.forbidden(f'pod "{full}" is not running on node "{node}" named in the PodCertificateRequest')
    if MIRROR in annotations_of(pod):
        return review.forbidden(f'pod "{full}" is a mirror pod')
    return None


def _wrong_account(review: Review, node: str, spec: JSON) -> Refusal | None:
    del node
    namespace, full = review.attributes.namespace, _pod_name(review, spec)
    pod = known(review.cluster.get(POD, namespace, spec.get("podName") or ""))
    name, own = spec.get("serviceAccountName") or "", pod["spec"].get("serviceAccountName") or ""
    if name != own:
        problem = f'contains serviceAccountName ("{name}") that differs from running pod ("{own}")'
        return review.forbidden(f'PodCertificateRequest for pod "{full}" {problem}')
    account = known(review.cluster.get(SERVICE_ACCOUNT, namespace, name))
    if account is None:
        problem = f'while retrieving service account "{namespace}/{name}" named in the PodCertificateRequest'
        return plain_error(f"{problem}: {not_found('serviceaccount', name)}")
    if (uid := spec.get("serviceAccountUID") or "") != uid_of(account):
        problem = (
            f'names service account UID "{uid}", which differs from the running service account ("{uid_of(account)}")'
        )
        return plain_error(f'PodCertificateRequest for pod "{full}" {problem}')
    return None


def _wrong_signer(review: Review, node: str, spec: JSON) -> Refusal | None:
    del node
    full, signer = _pod_name(review, spec), spec.get("signerName") or ""
    pod = known(review.cluster.get(POD, review.attributes.namespace, spec.get("podName") or ""))
    for volume in pod["spec"].get("volumes") or ():
        for source in (volume.get("projected") or {}).get("sources") or ():
            if (source.get("podCertificate") or {}).get("signerName") == signer:
                return None
    # RBAC takes a slash in a resource for a subresource, so the server replaces it.
    munged, verb = signer.replace("/", ":"), "request-serviceaccounts-podcertificate-signer"
    decision = _authorized(review, verb, munged, spec.get("serviceAccountName") or "")
    if decision.allowed:
        return None
    if decision.error:
        user = review.attributes.user_info.username
        problem = f'error authorizing {user} to request podcertificaterequests for signer "{signer}"'
        return review.forbidden(f"{problem}: {decision.error}")
    return review.forbidden(f'pod "{full}" does not mount a podCertificate projected volume for signer "{signer}"')


def _pod_name(review: Review, spec: JSON) -> str:
    return f"{review.attributes.namespace}/{spec.get('podName') or ''}"

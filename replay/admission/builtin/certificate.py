"""Plugins about certificate requests and trust bundles: who may approve, sign and attest for a signer, and for which subjects.

Sources: `plugin/pkg/admission/certificates`, `pkg/certauthorization`.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final

from replay.admission.builtin.plugin import CREATE, CREATE_UPDATE, RBAC, Plugin, Refusal, Review, known
from replay.go.asn1 import ASN1Error
from replay.go.certificate_request import Subject, parse_certificate_request
from replay.go.encoding import decode_pem
from replay.json import JSON
from replay.kube.attributes import Operation
from replay.kube.authorizer import AuthorizationAttributes

_GROUP: Final = "certificates.k8s.io"
_REQUESTS: Final = "certificatesigningrequests"
_UPDATE: Final = frozenset({Operation.UPDATE})
_COLLECTED: Final = ("ownerReferences", "finalizers", "selfLink", "managedFields")
"""Fields that the garbage collector may change without a permission check."""


class CertificateApproval(Plugin):
    """Requires, for an approval, permission to approve for the signer of the stored request."""

    name = "CertificateApproval"
    operations = _UPDATE
    concerns = (("certificates.k8s.io", ("certificatesigningrequests/approval",)),)
    looks_up = RBAC

    def validate(self, review: Review) -> Refusal | None:
        """Refuse an approval without that permission."""
        if not review.is_resource(_GROUP, _REQUESTS, "approval"):
            return None
        signer = _signer(review.old_object)
        if _is_authorized(review, "approve", signer):
            return None
        return review.forbidden(f'user not permitted to approve requests with signerName "{signer}"')


class CertificateSigning(Plugin):
    """Requires, for a certificate or changed conditions, permission to sign for the signer."""

    name = "CertificateSigning"
    operations = _UPDATE
    concerns = (("certificates.k8s.io", ("certificatesigningrequests/status",)),)
    looks_up = RBAC

    def validate(self, review: Review) -> Refusal | None:
        """Refuse a signature without that permission."""
        if not review.is_resource(_GROUP, _REQUESTS, "status"):
            return None
        old, new = (each.get("status") or {} for each in (review.old_object, review.object))
        # Go compares the lists semantically, so an empty one equals none.
        is_same = (old.get("conditions") or []) == (new.get("conditions") or [])
        if is_same and old.get("certificate") == new.get("certificate"):
            return None
        signer = _signer(review.old_object)
        if _is_authorized(review, "sign", signer):
            return None
        return review.forbidden(f'user not permitted to sign requests with signerName "{signer}"')


class ClusterTrustBundleAttest(Plugin):
    """Requires, for a trust bundle with a signer, permission to attest for that signer."""

    name = "ClusterTrustBundleAttest"
    operations = CREATE_UPDATE
    concerns = (("certificates.k8s.io", ("clustertrustbundles",)),)
    looks_up = RBAC

    def validate(self, review: Review) -> Refusal | None:
        """Refuse a bundle without that permission."""
        resource = review.attributes.resource
        if (resource.group, resource.resource) != (_GROUP, "clustertrustbundles"):
            return None
        signer = _signer(review.object)
        if not signer or _is_collected(review) or _is_authorized(review, "attest", signer):
            return None
        return review.forbidden(f'user not permitted to attest for signerName "{signer}"')


def _signer(obj: JSON) -> str:
    return str((obj.get("spec") or {}).get("signerName") or "")


def _is_collected(review: Review) -> bool:
    """Return whether an update changes only fields that the garbage collector changes.

    Source: `rbac.IsOnlyMutatingGCFields`.
    """
    if review.attributes.operation is not Operation.UPDATE:
        return False
    old, new = (_without_collected(each) for each in (review.old_object, review.object))
    return bool(old == new)


def _without_collected(obj: JSON) -> JSON:
    metadata = {name: value for name, value in (obj.get("metadata") or {}).items() if name not in _COLLECTED}
    return {**obj, "metadata": metadata}


def _is_authorized(review: Review, verb: str, signer: str) -> bool:
    """Return whether the user has a permission for a signer or for its whole domain (`IsAuthorizedForSignerName`)."""
    domain = signer.split("/", maxsplit=1)[0]
    return any(_may(review, verb, name) for name in (signer, f"{domain}/*"))


def _may(review: Review, verb: str, signer: str) -> bool:
    user = review.attributes.user_info
    attributes = AuthorizationAttributes(user=user, verb=verb, api_group=_GROUP, resource="signers", name=signer)
    decision = known(review.cluster.authorizer.authorize(attributes))
    return bool(decision.allowed) and not decision.error


# The subject of a CertificateSigningRequest (`pkg/apis/certificates/helpers.go`, `ParseCSR`).


class CertificateRequestError(Exception):
    """A certificate request that cannot be parsed. `str()` is the server's text."""


def subject_of(signing_request: JSON) -> Subject:
    """Return the requested subject. Raise CertificateRequestError."""
    text = str((signing_request.get("spec") or {}).get("request") or "")
    try:
        block = decode_pem(base64.b64decode(text))
    except binascii.Error:
        block = None
    if block is None or block.type != "CERTIFICATE REQUEST":
        raise CertificateRequestError("PEM block type must be CERTIFICATE REQUEST")
    try:
        return parse_certificate_request(block.data)
    except ASN1Error as error:
        raise CertificateRequestError(str(error)) from error


_SIGNER: Final = "kubernetes.io/kube-apiserver-client"
_MASTERS: Final = "system:masters"


class CertificateSubjectRestriction(Plugin):
    """Refuses certificates of the API client signer for the group system:masters, for every user."""

    name = "CertificateSubjectRestriction"
    operations = CREATE
    concerns = (("certificates.k8s.io", ("certificatesigningrequests",)),)

    def validate(self, review: Review) -> Refusal | None:
        """Refuse the group, and a certificate request that cannot be parsed."""
        if not review.is_resource("certificates.k8s.io", "certificatesigningrequests"):
            return None
        if ((review.object or {}).get("spec") or {}).get("signerName") != _SIGNER:
            return None
        try:
            subject = subject_of(review.object)
        except CertificateRequestError as error:
            return review.forbidden(f"failed to parse CSR: {error}")
        if _MASTERS in subject.organization:
            return review.forbidden(f"use of {_SIGNER} signer with {_MASTERS} group is not allowed")
        return None

"""CertificateSubjectRestriction (`plugin/pkg/admission/certificates/subjectrestriction/admission.go`)."""

from __future__ import annotations

import base64
import binascii
from typing import Final

from replay.admission.builtin.plugin import CREATE, Plugin, Refusal, Review
from replay.go.asn1 import ASN1Error
from replay.go.certificate_request import Subject, parse_certificate_request
from replay.go.encoding import decode_pem
from replay.json import JSON

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

"""CertificateSubjectRestriction (`plugin/pkg/admission/certificates/subjectrestriction/admission.go`)."""

from __future__ import annotations

from typing import Final

from replay.admission.builtin.certificate.subject import CertificateRequestError, subject_of
from replay.admission.builtin.plugin import CREATE, Plugin, Refusal, Review

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

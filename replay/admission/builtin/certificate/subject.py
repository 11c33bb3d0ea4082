"""The subject of a CertificateSigningRequest (`pkg/apis/certificates/helpers.go`, `ParseCSR`)."""

from __future__ import annotations

import base64
import binascii

from replay.go.asn1 import ASN1Error
from replay.go.certificate_request import Subject, parse_certificate_request
from replay.go.encoding import decode_pem
from replay.json import JSON


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
